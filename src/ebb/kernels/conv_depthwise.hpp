// Convolution where every channel has its own filter and nothing is summed across channels:
// vectorised over the channels.
//
// Order of a chain: taps in ascending (kh, kw), those outside the image left out; the weight
// gradient's over (n, oh, ow).
#pragma once

#include <cstddef>
#include <span>

#include "ebb/kernels/conv.hpp"

namespace ebb::kernels::conv {

inline bool is_depthwise(const Conv2dShape& s) {
  return s.groups > 1 && s.groups == s.in_c && s.in_c == s.out_c;
}

template <class T>
void depthwise(const Conv2dShape& shape, const T* x, const T* w, const T* bias, T* y,
               std::span<std::byte> scratch);
template <class T>
void depthwise_input_grad(const Conv2dShape& shape, const T* dy, const T* w, T* dx,
                          std::span<std::byte> scratch);
template <class T>
void depthwise_weight_grad(const Conv2dShape& shape, const T* x, const T* dy, T* dw,
                           bool accumulate, std::span<std::byte> scratch);

// Enough for each of the three.
template <class T>
std::size_t depthwise_scratch_bytes(const Conv2dShape& shape);

}  // namespace ebb::kernels::conv
