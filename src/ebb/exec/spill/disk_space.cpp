#include "ebb/exec/spill/disk_space.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>

namespace ebb::exec {
namespace {

constexpr std::uint64_t kLeastForOthers = 64 << 20, kPartForOthers = 20;

std::atomic<std::uint64_t> pretended = kUnknownSpace;

}  // namespace

std::uint64_t free_space(const std::string& directory) {
  if (const std::uint64_t bytes = pretended; bytes != kUnknownSpace) return bytes;
  struct statvfs disk {};
  if (::statvfs(directory.c_str(), &disk) != 0) return kUnknownSpace;
  return static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
}

std::uint64_t space_for_others(std::uint64_t free) {
  return std::max(kLeastForOthers, free / kPartForOthers);
}

PretendedSpace::PretendedSpace(std::uint64_t bytes) { pretended = bytes; }
PretendedSpace::~PretendedSpace() { pretended = kUnknownSpace; }

}  // namespace ebb::exec
