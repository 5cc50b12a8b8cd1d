#include "ebb/kernels/conv.hpp"

#include <algorithm>
#include <numeric>

#include "ebb/kernels/conv_correlate.hpp"
#include "ebb/kernels/conv_depthwise.hpp"
#include "ebb/kernels/conv_weight_grad.hpp"
#include "ebb/kernels/conv_winograd.hpp"
#include "ebb/kernels/copy.hpp"

namespace ebb::kernels {
namespace {

using conv::Correlation;
using conv::CorrelationWeights;
using conv::is_depthwise;
using conv::WinogradWork;

std::size_t places(std::size_t in, std::size_t before, std::size_t after, std::size_t kernel,
                   std::size_t dilation, std::size_t stride) {
  if (kernel == 0) return 0;
  const std::size_t seen = (kernel - 1) * dilation + 1, padded = in + before + after;
  return padded < seen ? 0 : (padded - seen) / stride + 1;
}

Correlation forward_correlation(const Conv2dShape& s) {
  Correlation c;
  c.images = s.batch;
  c.groups = s.groups;
  c.src_h = s.in_h;
  c.src_w = s.in_w;
  c.src_channels = s.in_c / s.groups;
  c.taps_h = s.kernel_h;
  c.taps_w = s.kernel_w;
  c.origin_h = -static_cast<std::ptrdiff_t>(s.pad_top);
  c.origin_w = -static_cast<std::ptrdiff_t>(s.pad_left);
  c.stride_h = s.stride_h;
  c.stride_w = s.stride_w;
  c.step_h = s.dilation_h;
  c.step_w = s.dilation_w;
  c.dst_h = s.out_h();
  c.dst_w = s.out_w();
  c.dst_channels = s.out_c / s.groups;
  c.dst_col = s.out_c;
  c.dst_row = c.dst_w * c.dst_col;
  c.dst_image = c.dst_h * c.dst_row;
  return c;
}

CorrelationWeights forward_weights(const Conv2dShape& s) {
  const auto in = static_cast<std::ptrdiff_t>(s.in_c / s.groups);
  const auto out = static_cast<std::ptrdiff_t>(s.out_c / s.groups);
  const auto kw = static_cast<std::ptrdiff_t>(s.kernel_w),
             kh = static_cast<std::ptrdiff_t>(s.kernel_h);
  const std::ptrdiff_t filter = kh * kw * in;
  return {.base = 0, .group = out * filter, .out = filter, .tap_h = kw * in, .tap_w = in, .in = 1};
}

// The pixels of dx along one axis whose index has the same remainder by the stride: they see the
// same taps, and their windows over dy move by one place from pixel to pixel. So each such class is
// a plain correlation over dy, with the taps in descending order, and no tap meets a zero that the
// stride put there.
struct InputClass {
  std::size_t first, count;      // pixels first, first + stride, …
  std::size_t tap, taps, every;  // taps tap, tap + every, …
  std::ptrdiff_t origin;         // place of dy that the last tap of the first pixel sees
  std::size_t step;              // places of dy from one tap to the next
};

InputClass input_class(std::size_t remainder, std::size_t in, std::size_t before,
                       std::size_t kernel, std::size_t dilation, std::size_t stride) {
  InputClass k{};
  k.first = (remainder + stride - before % stride) % stride;
  k.count = k.first < in ? (in - 1 - k.first) / stride + 1 : 0;
  const std::size_t common = std::gcd(stride, dilation);
  k.every = stride / common;
  k.step = dilation / common;
  while (k.tap < k.every && k.tap * dilation % stride != remainder) ++k.tap;
  if (k.tap == k.every || k.tap >= kernel) return k;
  k.taps = (kernel - 1 - k.tap) / k.every + 1;
  k.origin = static_cast<std::ptrdiff_t>((k.first + before - remainder) / stride) -
             static_cast<std::ptrdiff_t>((k.tap * dilation - remainder) / stride) -
             static_cast<std::ptrdiff_t>((k.taps - 1) * k.step);
  return k;
}

struct InputCorrelation {
  Correlation c;
  CorrelationWeights at;
  std::size_t dst_offset;
};

InputCorrelation input_correlation(const Conv2dShape& s, std::size_t rh, std::size_t rw) {
  const InputClass h = input_class(rh, s.in_h, s.pad_top, s.kernel_h, s.dilation_h, s.stride_h);
  const InputClass w = input_class(rw, s.in_w, s.pad_left, s.kernel_w, s.dilation_w, s.stride_w);
  InputCorrelation r{};
  Correlation& c = r.c;
  c.images = s.batch;
  c.groups = s.groups;
  c.src_h = s.out_h();
  c.src_w = s.out_w();
  c.src_channels = s.out_c / s.groups;
  c.taps_h = w.taps == 0 ? 0 : h.taps;
  c.taps_w = h.taps == 0 ? 0 : w.taps;
  c.origin_h = h.origin;
  c.origin_w = w.origin;
  c.step_h = h.step;
  c.step_w = w.step;
  c.dst_h = h.count;
  c.dst_w = w.count;
  c.dst_channels = s.in_c / s.groups;
  c.dst_col = s.stride_w * s.in_c;
  c.dst_row = s.stride_h * s.in_w * s.in_c;
  c.dst_image = s.in_h * s.in_w * s.in_c;
  r.dst_offset = (h.first * s.in_w + w.first) * s.in_c;

  const CorrelationWeights f = forward_weights(s);
  const auto last_h = static_cast<std::ptrdiff_t>(h.tap + (h.taps - 1) * h.every);
  const auto last_w = static_cast<std::ptrdiff_t>(w.tap + (w.taps - 1) * w.every);
  r.at = {.base = c.taps_h == 0 ? 0 : last_h * f.tap_h + last_w * f.tap_w,
          .group = f.group,
          .out = f.in,
          .tap_h = -static_cast<std::ptrdiff_t>(h.every) * f.tap_h,
          .tap_w = -static_cast<std::ptrdiff_t>(w.every) * f.tap_w,
          .in = f.out};
  return r;
}

template <class F>
void for_input_classes(const Conv2dShape& s, F f) {
  for (std::size_t rh = 0; rh < s.stride_h; ++rh) {
    for (std::size_t rw = 0; rw < s.stride_w; ++rw) f(input_correlation(s, rh, rw));
  }
}

// The gradient of x has several correlations, all of stride 1, where the convolution has a larger
// one.
bool by_winograd(const Conv2dShape& s, const Correlation& c) {
  return s.winograd && s.stride_h * s.stride_w == 1 && conv::by_winograd(c);
}

bool weight_grad_by_winograd(const Conv2dShape& s, const Correlation& forward) {
  return by_winograd(s, forward) && WinogradWork::pays(WinogradWork::weight_grad(forward), forward);
}

template <class T>
void correlate(const Conv2dShape& s, const Correlation& c, const CorrelationWeights& at,
               const T* src, const T* w, const T* bias, T* dst, std::span<std::byte> scratch) {
  if (by_winograd(s, c)) return conv::winograd(c, at, src, w, bias, dst, scratch);
  conv::correlate(c, at, src, w, bias, dst, scratch);
}

template <class T>
std::size_t correlate_scratch_bytes(const Conv2dShape& s, const Correlation& c) {
  if (by_winograd(s, c)) return conv::winograd_scratch_bytes<T>(c);
  return conv::correlate_scratch_bytes<T>(c);
}

}  // namespace

std::size_t Conv2dShape::out_h() const {
  return places(in_h, pad_top, pad_bottom, kernel_h, dilation_h, stride_h);
}
std::size_t Conv2dShape::out_w() const {
  return places(in_w, pad_left, pad_right, kernel_w, dilation_w, stride_w);
}

Conv2dWork conv2d_work(const Conv2dShape& s) {
  const double plain = static_cast<double>(s.batch * s.out_h() * s.out_w() * s.out_c) *
                       static_cast<double>(s.kernel_h * s.kernel_w * (s.in_c / s.groups));
  Conv2dWork work{plain, plain, plain};
  const auto otherwise = [&](const Correlation& c, double& of) {
    if (!by_winograd(s, c)) return;
    const WinogradWork w = WinogradWork::forward(c);
    of = static_cast<double>(s.batch) * w.image + w.call;
  };
  otherwise(forward_correlation(s), work.forward);
  otherwise(input_correlation(s, 0, 0).c, work.input_grad);
  if (const Correlation c = forward_correlation(s); weight_grad_by_winograd(s, c))
    work.weight_grad = static_cast<double>(s.batch) * WinogradWork::weight_grad(c).image;
  return work;
}

template <class T>
void conv2d(const Conv2dShape& s, const T* x, const T* w, const T* bias, T* y,
            std::span<std::byte> scratch) {
  if (is_depthwise(s)) return conv::depthwise(s, x, w, bias, y, scratch);
  const Correlation c = forward_correlation(s);
  if (c.chain() == 0 && bias == nullptr)
    return zero_bytes(y, s.batch * s.out_h() * s.out_w() * s.out_c * sizeof(T));
  correlate(s, c, forward_weights(s), x, w, bias, y, scratch);
}

template <class T>
std::size_t conv2d_scratch_bytes(const Conv2dShape& s) {
  if (is_depthwise(s)) return conv::depthwise_scratch_bytes<T>(s);
  return correlate_scratch_bytes<T>(s, forward_correlation(s));
}

template <class T>
void conv2d_input_grad(const Conv2dShape& s, const T* dy, const T* w, T* dx,
                       std::span<std::byte> scratch) {
  if (is_depthwise(s)) return conv::depthwise_input_grad(s, dy, w, dx, scratch);
  // Where some pixels see no tap, all are set to zero first: in one sweep, not pixel by pixel.
  bool gaps = false;
  for_input_classes(s, [&](const InputCorrelation& r) { gaps |= r.c.chain() == 0; });
  if (gaps) zero_bytes(dx, s.batch * s.in_h * s.in_w * s.in_c * sizeof(T));
  for_input_classes(s, [&](const InputCorrelation& r) {
    if (r.c.chain() == 0) return;
    correlate(s, r.c, r.at, dy, w, static_cast<const T*>(nullptr), dx + r.dst_offset, scratch);
  });
}

template <class T>
std::size_t conv2d_input_grad_scratch_bytes(const Conv2dShape& s) {
  if (is_depthwise(s)) return conv::depthwise_scratch_bytes<T>(s);
  std::size_t most = 0;
  for_input_classes(s, [&](const InputCorrelation& r) {
    most = std::max(most, correlate_scratch_bytes<T>(s, r.c));
  });
  return most;
}

template <class T>
void conv2d_weight_grad(const Conv2dShape& s, const T* x, const T* dy, T* dw, bool accumulate,
                        std::span<std::byte> scratch) {
  if (s.batch * s.out_h() * s.out_w() == 0) {
    const std::size_t count = s.out_c * s.kernel_h * s.kernel_w * (s.in_c / s.groups);
    if (!accumulate) std::fill_n(dw, count, T{0});
    return;
  }
  if (is_depthwise(s)) return conv::depthwise_weight_grad(s, x, dy, dw, accumulate, scratch);
  if (const Correlation c = forward_correlation(s); weight_grad_by_winograd(s, c))
    return conv::winograd_weight_grad(c, x, dy, dw, accumulate, scratch);
  conv::weight_grad(s, x, dy, dw, accumulate, scratch);
}

template <class T>
std::size_t conv2d_weight_grad_scratch_bytes(const Conv2dShape& s) {
  if (s.batch * s.out_h() * s.out_w() == 0) return 0;
  if (is_depthwise(s)) return conv::depthwise_scratch_bytes<T>(s);
  if (const Correlation c = forward_correlation(s); weight_grad_by_winograd(s, c))
    return conv::winograd_weight_grad_scratch_bytes<T>(c);
  return conv::weight_grad_scratch_bytes<T>(s);
}

#define EBB_CONV_FOR(T)                                                                 \
  template void conv2d<T>(const Conv2dShape&, const T*, const T*, const T*, T*,         \
                          std::span<std::byte>);                                        \
  template void conv2d_input_grad<T>(const Conv2dShape&, const T*, const T*, T*,        \
                                     std::span<std::byte>);                             \
  template void conv2d_weight_grad<T>(const Conv2dShape&, const T*, const T*, T*, bool, \
                                      std::span<std::byte>);                            \
  template std::size_t conv2d_scratch_bytes<T>(const Conv2dShape&);                     \
  template std::size_t conv2d_input_grad_scratch_bytes<T>(const Conv2dShape&);          \
  template std::size_t conv2d_weight_grad_scratch_bytes<T>(const Conv2dShape&)
EBB_CONV_FOR(float);
EBB_CONV_FOR(double);
#undef EBB_CONV_FOR

}  // namespace ebb::kernels
