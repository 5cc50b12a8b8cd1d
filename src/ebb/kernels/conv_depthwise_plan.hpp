// How a depthwise convolution is cut, and what its taps see. For the file of the kernel.
#pragma once

#include <cstddef>

#include "ebb/base/round.hpp"
#include "ebb/kernels/conv.hpp"

namespace ebb::kernels::conv {

// A tap that a place sees: where its pixel and its weights start.
struct SeenTap {
  std::ptrdiff_t pixel, weight;
};

// Scratch: the filters as (taps, channels), each row padded to whole vectors, then a list of taps
// for each thread.
struct DepthwisePlan {
  Conv2dShape s;
  std::size_t taps, pitch, filter_bytes, list_bytes;
};

inline DepthwisePlan plan_depthwise(const Conv2dShape& s, std::size_t element_bytes) {
  DepthwisePlan p{};
  p.s = s;
  p.taps = s.kernel_h * s.kernel_w;
  const std::size_t line = 64 / element_bytes;
  p.pitch = round_up(s.in_c, line);
  p.filter_bytes = p.taps * p.pitch * element_bytes;
  p.list_bytes = round_up(p.taps * sizeof(SeenTap), 64);
  return p;
}

// The place of dy that input pixel i meets through tap k along one axis, or -1.
inline std::ptrdiff_t met_place(std::size_t i, std::size_t pad, std::size_t k, std::size_t dilation,
                                std::size_t stride, std::size_t places) {
  const std::size_t at = i + pad, back = k * dilation;
  if (at < back || (at - back) % stride != 0 || (at - back) / stride >= places) return -1;
  return static_cast<std::ptrdiff_t>((at - back) / stride);
}

// The input pixel that tap k of place o sees along one axis, or -1.
inline std::ptrdiff_t seen_pixel(std::size_t o, std::size_t pad, std::size_t k,
                                 std::size_t dilation, std::size_t stride, std::size_t pixels) {
  const std::size_t at = o * stride + k * dilation;
  if (at < pad || at - pad >= pixels) return -1;
  return static_cast<std::ptrdiff_t>(at - pad);
}

}  // namespace ebb::kernels::conv
