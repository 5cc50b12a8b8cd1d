// A budget with room beside what the process holds already.
#pragma once

#include <cstdint>

#include "ebb/base/memory/memory.hpp"
#include "ebb/base/runtime.hpp"

namespace ebb::test {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

inline std::uint64_t roomy() { return runtime::reserve() + memory::held() + 16 * kMiB; }

}  // namespace ebb::test
