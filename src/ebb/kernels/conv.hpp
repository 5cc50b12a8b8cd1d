// Two-dimensional convolution on images with channels last, as implicit matrix products: no buffer
// holds the unfolded batch.
//
//   y[n, oh, ow, co] = bias[co] + Σ_{kh, kw, ci} x[n, oh*stride - pad + kh*dilation, …, ci]
//                                                * w[co, kh, kw, ci]
//
// x (N, H, W, Cin), w (Cout, KH, KW, Cin / groups), y (N, OH, OW, Cout). Outside the image x is
// zero. With groups, output channel co sees only the input channels of its own group.
//
// Bits: every output element is one chain of fused multiply-adds in a fixed order (forward: bias,
// then kh, kw, ci; input gradient: kh, kw descending, then co; weight gradient: n, oh, ow, starting
// from the value in dw when accumulating). So results do not depend on threads or vector width, an
// example's result not on its neighbours, and a weight gradient not on how the batch is cut.
//
// With `winograd`, results of 3×3 kernels are rounded in other places (conv_winograd.hpp); they
// depend on no more than the others do.
//
// Scratch holds the packed weights and a few hundred KiB a thread, with `winograd` four times the
// weights and some MiB; its size depends on the shape and on pool::threads() alone, and the thread
// count must not change between asking and calling.
#pragma once

#include <cstddef>
#include <span>

namespace ebb::kernels {

struct Conv2dShape {
  std::size_t batch = 0, in_h = 0, in_w = 0, in_c = 0;
  std::size_t out_c = 0, kernel_h = 1, kernel_w = 1;
  std::size_t stride_h = 1, stride_w = 1;
  std::size_t dilation_h = 1, dilation_w = 1;
  std::size_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  std::size_t groups = 1;  // divides in_c and out_c
  bool winograd = false;   // 3×3 kernels by conv_winograd.hpp where that is less work

  std::size_t out_h() const;  // 0 where the kernel does not fit
  std::size_t out_w() const;
  bool operator==(const Conv2dShape&) const = default;
};

// T: float or double. bias (Cout) may be null.
template <class T>
void conv2d(const Conv2dShape& shape, const T* x, const T* w, const T* bias, T* y,
            std::span<std::byte> scratch);

template <class T>
void conv2d_input_grad(const Conv2dShape& shape, const T* dy, const T* w, T* dx,
                       std::span<std::byte> scratch);

// dw = Σ (accumulate: dw += Σ, each chain starting from what dw holds).
template <class T>
void conv2d_weight_grad(const Conv2dShape& shape, const T* x, const T* dy, T* dw, bool accumulate,
                        std::span<std::byte> scratch);

// Multiply-adds of each of the three.
struct Conv2dWork {
  double forward, input_grad, weight_grad;
};
Conv2dWork conv2d_work(const Conv2dShape& shape);

template <class T>
std::size_t conv2d_scratch_bytes(const Conv2dShape& shape);
template <class T>
std::size_t conv2d_input_grad_scratch_bytes(const Conv2dShape& shape);
template <class T>
std::size_t conv2d_weight_grad_scratch_bytes(const Conv2dShape& shape);

}  // namespace ebb::kernels
