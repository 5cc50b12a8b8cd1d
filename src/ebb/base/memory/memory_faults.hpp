// Faults at the memory seam, for tests.
#pragma once

#include <cstdint>

namespace ebb::memory {

// Fails the nth take from now (1 is the next), once or from then on, as if the system had refused.
class FailTake {
 public:
  explicit FailTake(std::uint64_t nth, bool forever = false);
  ~FailTake();
  FailTake(const FailTake&) = delete;
  FailTake& operator=(const FailTake&) = delete;
  static std::uint64_t takes();  // takes so far, to know how far to count
  bool fired() const;
};

}  // namespace ebb::memory
