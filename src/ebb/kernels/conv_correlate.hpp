// The core of a convolution's forward pass and of its input gradient: slides a window of taps over
// images and, at each place, multiplies what the window sees with packed weights.
//
//   dst[n, i, j, o] = start[o] + Σ_{th, tw, c} src[n, origin_h + i*stride_h + th*step_h, …, c]
//                                              * weight(o, th, tw, c)
//
// Places outside the source count as zero.
#pragma once

#include <cstddef>
#include <span>

namespace ebb::kernels::conv {

struct Correlation {
  std::size_t images = 0, groups = 1;

  std::size_t src_h = 0, src_w = 0;
  std::size_t src_channels = 0;  // of one group
  std::size_t taps_h = 1, taps_w = 1;
  std::ptrdiff_t origin_h = 0, origin_w = 0;  // where tap (0, 0) of dst (0, 0) looks
  std::size_t stride_h = 1, stride_w = 1;     // from one dst place to the next
  std::size_t step_h = 1, step_w = 1;         // from one tap to the next

  std::size_t dst_h = 0, dst_w = 0;
  std::size_t dst_channels = 0;                         // of one group
  std::size_t dst_image = 0, dst_row = 0, dst_col = 0;  // strides of dst, in elements

  std::size_t chain() const { return taps_h * taps_w * src_channels; }
};

// Where weight(o, th, tw, c) of group g lies: at w[base + g*group + o*out + th*tap_h + tw*tap_w +
// c*in].
struct CorrelationWeights {
  std::ptrdiff_t base = 0, group = 0, out = 0, tap_h = 0, tap_w = 0, in = 0;
};

// `bias` may be null (start at zero); otherwise it has groups * dst_channels elements.
template <class T>
void correlate(const Correlation& c, const CorrelationWeights& at, const T* src, const T* w,
               const T* bias, T* dst, std::span<std::byte> scratch);

template <class T>
std::size_t correlate_scratch_bytes(const Correlation& c);

}  // namespace ebb::kernels::conv
