// How much work is worth a thread's while, and when an output is stored past the caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ebb::kernels {

// Simple element operations that stay in the calling thread: below it a fork costs more than it
// brings.
inline constexpr std::size_t kGrain = 32768;

// The same in rows (or other units) of `cost` such operations each.
inline std::size_t grain_for(std::size_t cost) {
  return std::max<std::size_t>(1, kGrain / std::max<std::size_t>(1, cost));
}

// Outputs from this size on are stored past the caches: they would not stay there anyway.
inline constexpr std::size_t kStreamBytes = std::size_t{16} << 20;

// The same for rows, which must start on vector boundaries: of this size they would push everything
// else out and be gone themselves before their reader comes.
inline bool worth_streaming(const void* out, std::size_t row_bytes, std::size_t rows) {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  return reinterpret_cast<std::uintptr_t>(out) % 64 == 0 && (row_bytes % 64 == 0 || rows <= 1) &&
         row_bytes * rows >= kBytes;
}

}  // namespace ebb::kernels
