// Moving elements: a walk over dimensions with a step in bytes on either side.
//
// Permute, slice, flip, tile, broadcast, concat and pad are all walks; only the steps differ. A
// step may be 0 (read again) or negative (backwards). Elements are bytes here: their type plays no
// part where they are only moved.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ebb::kernels {

struct Walk {
  static constexpr int kMaxRank = 16;  // tile makes two dimensions of each
  int rank = 0;
  std::int64_t dim[kMaxRank];
  std::int64_t from[kMaxRank];  // bytes
  std::int64_t to[kMaxRank];    // bytes

  void add(std::int64_t size, std::int64_t from_step, std::int64_t to_step) {
    dim[rank] = size;
    from[rank] = from_step;
    to[rank++] = to_step;
  }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= dim[d];
    return n;
  }
};

// to[walk] = from[walk]. `element` is 1, 2, 4 or 8 bytes. The two sides do not overlap.
void copy(Walk walk, std::size_t element, const void* from, void* to);

// to[walk] = *value; the walk's steps on the from side are not used.
void fill(Walk walk, std::size_t element, const void* value, void* to);

// to[walk] += from[walk]; no element of `to` is met twice. T: float, double, int32_t, int64_t.
template <class T>
void accumulate(Walk walk, const T* from, T* to);

// Plain runs of bytes, on all threads where that pays.
void copy_bytes(const void* from, void* to, std::size_t bytes);
void zero_bytes(void* to, std::size_t bytes);

}  // namespace ebb::kernels
