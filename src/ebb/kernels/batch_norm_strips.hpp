// How batch_norm is cut: folded rows, strips of their columns, and what is done along them. For the
// file of the kernel.
#pragma once

#include <algorithm>
#include <cstddef>

#include "hwy/base.h"

namespace ebb::kernels {

// Few channels are folded: `folds` rows side by side make one of `width` columns, so that vectors
// are full whatever the number of channels, and rows are about a page: where several rows are read
// side by side, memory runs ahead of each. Column j belongs to channel j % channels.
struct Folded {
  std::size_t channels, folds, width;
  std::size_t rows;   // whole folded rows
  std::size_t extra;  // columns of the last, partial one

  Folded(std::size_t all_rows, std::size_t c)
      : channels(c),
        folds(std::max<std::size_t>(1, 1024 / std::max<std::size_t>(1, c))),
        width(folds * c),
        rows(all_rows / folds),
        extra(all_rows % folds * c) {}
};

inline constexpr std::size_t kBlockRows = 128;  // folded rows of one block of the sums
inline constexpr std::size_t kStrip = 1024;  // columns of it taken at a time: their sums fit in L1
template <class T>
inline constexpr std::size_t kSpan = 4096 /
                                     sizeof(T);  // columns whose coefficients lie on the stack

// Rows [0, rows) of a strip of columns, and one more row in its first `extra` columns.
template <class T>
struct Strip {
  const T* x;
  const T* dy;
  std::size_t stride, rows, columns, extra;
};

// y = (a - shift) * scale + offset, or dx = scale * (b - level - (a - shift) * slope).
template <class T>
struct Coefficients {
  HWY_ALIGN_MAX T shift[kSpan<T>];
  HWY_ALIGN_MAX T scale[kSpan<T>];
  HWY_ALIGN_MAX T level[kSpan<T>];  // offset
  HWY_ALIGN_MAX T slope[kSpan<T>];
};

template <class T>
struct Affine {
  const T* x;
  const T* dy;  // null: y, else dx
  T* out;
  std::size_t stride, rows, columns;
  bool stream;
};

}  // namespace ebb::kernels
