// Pooling over windows of images with channels last: x (N, H, W, C), y (N, OH, OW, C). Cells of a
// window that lie outside the image are left out. T: float or double.
//
// Bits: a window is read in row-major order; where windows overlap, a pixel's gradient is summed in
// the order of the windows.
#pragma once

#include <cstddef>

namespace ebb::kernels {

struct Pool2dShape {
  std::size_t batch = 0, in_h = 0, in_w = 0, channels = 0;
  std::size_t window_h = 1, window_w = 1;
  std::size_t stride_h = 1, stride_w = 1;
  std::size_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;

  std::size_t out_h() const;  // 0 where the window does not fit
  std::size_t out_w() const;
  bool operator==(const Pool2dShape&) const = default;
};

// The largest value of the window; NaN if it holds one, -inf if it holds nothing.
template <class T>
void max_pool2d(const Pool2dShape& shape, const T* x, T* y);

// dy goes to the first of the window's largest cells.
template <class T>
void max_pool2d_grad(const Pool2dShape& shape, const T* x, const T* dy, T* dx);

// What v (shaped as x) holds at that cell; zero for a window that holds nothing.
template <class T>
void max_pool2d_pick(const Pool2dShape& shape, const T* x, const T* v, T* y);

// The mean of the window's cells: of those inside the image or, with count_padding, as if those
// outside were zero.
template <class T>
void avg_pool2d(const Pool2dShape& shape, const T* x, T* y, bool count_padding);
template <class T>
void avg_pool2d_grad(const Pool2dShape& shape, const T* dy, T* dx, bool count_padding);

}  // namespace ebb::kernels
