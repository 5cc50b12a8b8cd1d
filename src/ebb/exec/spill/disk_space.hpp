// How much a spill file may take of the disk it lies on.
#pragma once

#include <cstdint>
#include <string>

namespace ebb::exec {

inline constexpr std::uint64_t kUnknownSpace = ~std::uint64_t{0};

// Bytes that are free on the disk under `directory`, for this user; kUnknownSpace where the system
// does not say.
std::uint64_t free_space(const std::string& directory);

// Bytes of these that are left to others: a disk that is full stops everybody on the machine.
std::uint64_t space_for_others(std::uint64_t free);

// For tests: what free_space says, in any directory; while it lives.
class PretendedSpace {
 public:
  explicit PretendedSpace(std::uint64_t bytes);
  PretendedSpace(const PretendedSpace&) = delete;
  PretendedSpace& operator=(const PretendedSpace&) = delete;
  ~PretendedSpace();
};

}  // namespace ebb::exec
