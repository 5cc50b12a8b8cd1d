// What kernels over rows share on the caller's side: how work is cut, and when outputs stream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ebb::kernels {

// Rows (or other units) of `cost` simple element operations each that are worth a thread's while.
inline std::size_t grain_for(std::size_t cost) {
  constexpr std::size_t kOperations = 32768;
  return std::max<std::size_t>(1, kOperations / std::max<std::size_t>(1, cost));
}

// Whether an output of this size should be written past the caches: it would push everything else
// out and be gone itself before its reader comes. Rows must start on vector boundaries.
inline bool worth_streaming(const void* out, std::size_t row_bytes, std::size_t rows) {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  return reinterpret_cast<std::uintptr_t>(out) % 64 == 0 && (row_bytes % 64 == 0 || rows <= 1) &&
         row_bytes * rows >= kBytes;
}

}  // namespace ebb::kernels
