#include "ebb/kernels/conv_depthwise.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/conv_depthwise.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <cstring>

#include "ebb/base/pool.hpp"

#ifndef EBB_KERNELS_CONV_DEPTHWISE_PLAN_
#define EBB_KERNELS_CONV_DEPTHWISE_PLAN_
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
  p.pitch = (s.in_c + line - 1) / line * line;
  p.filter_bytes = p.taps * p.pitch * element_bytes;
  p.list_bytes = (p.taps * sizeof(SeenTap) + 63) / 64 * 64;
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
#endif  // EBB_KERNELS_CONV_DEPTHWISE_PLAN_

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::conv {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D, class T>
HWY_INLINE hn::Vec<D> LoadSome(D d, const T* from, size_t count) {
  if (HWY_LIKELY(count >= hn::Lanes(d))) return hn::LoadU(d, from);
  HWY_ALIGN T part[hn::MaxLanes(D())] = {};
  std::memcpy(part, from, count * sizeof(T));
  return hn::Load(d, part);
}

template <class D, class T>
HWY_INLINE void StoreSome(hn::Vec<D> v, D d, T* to, size_t count) {
  if (HWY_LIKELY(count >= hn::Lanes(d))) return hn::StoreU(v, d, to);
  HWY_ALIGN T part[hn::MaxLanes(D())];
  hn::Store(v, d, part);
  std::memcpy(to, part, count * sizeof(T));
}

// One pixel: out[c] = start[c] + Σ over the listed taps of src[c] * filter[c].
template <class T>
void PixelChain(const SeenTap* seen, size_t count, const T* src, const T* filter, const T* start,
                T* out, size_t channels) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t c = 0;
  for (; c + 2 * lanes <= channels; c += 2 * lanes) {
    auto a = start ? hn::LoadU(d, start + c) : hn::Zero(d);
    auto b = start ? hn::LoadU(d, start + c + lanes) : hn::Zero(d);
    for (size_t i = 0; i < count; ++i) {
      const T* from = src + seen[i].pixel + c;
      const T* weight = filter + seen[i].weight + c;
      a = hn::MulAdd(hn::LoadU(d, from), hn::LoadU(d, weight), a);
      b = hn::MulAdd(hn::LoadU(d, from + lanes), hn::LoadU(d, weight + lanes), b);
    }
    hn::StoreU(a, d, out + c);
    hn::StoreU(b, d, out + c + lanes);
  }
  for (; c < channels; c += lanes) {
    auto a = start ? LoadSome(d, start + c, channels - c) : hn::Zero(d);
    for (size_t i = 0; i < count; ++i) {
      a = hn::MulAdd(LoadSome(d, src + seen[i].pixel + c, channels - c),
                     hn::LoadU(d, filter + seen[i].weight + c), a);
    }
    StoreSome(a, d, out + c, channels - c);
  }
}

template <class T>
void PackFilter(const DepthwisePlan& p, const T* w, T* to) {
  for (size_t t = 0; t < p.taps; ++t) {
    for (size_t c = 0; c < p.s.in_c; ++c) to[t * p.pitch + c] = w[c * p.taps + t];
    std::fill(to + t * p.pitch + p.s.in_c, to + (t + 1) * p.pitch, T{0});
  }
}

// Rows [begin, end) of y, counted over the whole batch.
template <class T>
void ForwardRows(const DepthwisePlan& p, const T* x, const T* filter, const T* bias, T* y,
                 SeenTap* list, size_t begin, size_t end) {
  const Conv2dShape& s = p.s;
  const size_t oh = s.out_h(), ow = s.out_w(), channels = s.in_c;
  for (size_t row = begin; row < end; ++row) {
    const T* image = x + row / oh * s.in_h * s.in_w * channels;
    for (size_t j = 0; j < ow; ++j) {
      size_t count = 0;
      for (size_t kh = 0; kh < s.kernel_h; ++kh) {
        const ptrdiff_t ih = seen_pixel(row % oh, s.pad_top, kh, s.dilation_h, s.stride_h, s.in_h);
        if (ih < 0) continue;
        for (size_t kw = 0; kw < s.kernel_w; ++kw) {
          const ptrdiff_t iw = seen_pixel(j, s.pad_left, kw, s.dilation_w, s.stride_w, s.in_w);
          if (iw < 0) continue;
          list[count++] = {
              (ih * static_cast<ptrdiff_t>(s.in_w) + iw) * static_cast<ptrdiff_t>(channels),
              static_cast<ptrdiff_t>((kh * s.kernel_w + kw) * p.pitch)};
        }
      }
      PixelChain(list, count, image, filter, bias, y + (row * ow + j) * channels, channels);
    }
  }
}

// Rows [begin, end) of dx, counted over the whole batch.
template <class T>
void InputGradRows(const DepthwisePlan& p, const T* dy, const T* filter, T* dx, SeenTap* list,
                   size_t begin, size_t end) {
  const Conv2dShape& s = p.s;
  const size_t oh = s.out_h(), ow = s.out_w(), channels = s.in_c;
  for (size_t row = begin; row < end; ++row) {
    const T* image = dy + row / s.in_h * oh * ow * channels;
    for (size_t j = 0; j < s.in_w; ++j) {
      size_t count = 0;
      for (size_t kh = 0; kh < s.kernel_h; ++kh) {
        const ptrdiff_t h = met_place(row % s.in_h, s.pad_top, kh, s.dilation_h, s.stride_h, oh);
        if (h < 0) continue;
        for (size_t kw = 0; kw < s.kernel_w; ++kw) {
          const ptrdiff_t w = met_place(j, s.pad_left, kw, s.dilation_w, s.stride_w, ow);
          if (w < 0) continue;
          list[count++] = {(h * static_cast<ptrdiff_t>(ow) + w) * static_cast<ptrdiff_t>(channels),
                           static_cast<ptrdiff_t>((kh * s.kernel_w + kw) * p.pitch)};
        }
      }
      PixelChain(list, count, image, filter, static_cast<const T*>(nullptr),
                 dx + (row * s.in_w + j) * channels, channels);
    }
  }
}

// Channels [first, last) of the sums (taps, pitch), over all places in order.
template <class T>
void WeightGradChannels(const DepthwisePlan& p, const T* x, const T* dy, T* sums, size_t first,
                        size_t last) {
  const Conv2dShape& s = p.s;
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d), oh = s.out_h(), ow = s.out_w(), channels = s.in_c;
  for (size_t place = 0; place < s.batch * oh * ow; ++place) {
    const T* slope = dy + place * channels;
    const T* image = x + place / (oh * ow) * s.in_h * s.in_w * channels;
    for (size_t kh = 0; kh < s.kernel_h; ++kh) {
      const ptrdiff_t ih =
          seen_pixel(place / ow % oh, s.pad_top, kh, s.dilation_h, s.stride_h, s.in_h);
      if (ih < 0) continue;
      for (size_t kw = 0; kw < s.kernel_w; ++kw) {
        const ptrdiff_t iw =
            seen_pixel(place % ow, s.pad_left, kw, s.dilation_w, s.stride_w, s.in_w);
        if (iw < 0) continue;
        const T* from =
            image + (static_cast<size_t>(ih) * s.in_w + static_cast<size_t>(iw)) * channels;
        T* HWY_RESTRICT sum = sums + (kh * s.kernel_w + kw) * p.pitch;
        size_t c = first;
        for (; c + lanes <= last; c += lanes) {
          hn::StoreU(
              hn::MulAdd(hn::LoadU(d, from + c), hn::LoadU(d, slope + c), hn::LoadU(d, sum + c)), d,
              sum + c);
        }
        if (c < last) {
          hn::StoreU(hn::MulAdd(LoadSome(d, from + c, last - c), LoadSome(d, slope + c, last - c),
                                hn::LoadU(d, sum + c)),
                     d, sum + c);
        }
      }
    }
  }
}

inline SeenTap* ThreadList(const DepthwisePlan& p, std::byte* scratch) {
  return reinterpret_cast<SeenTap*>(scratch + p.filter_bytes +
                                    static_cast<size_t>(pool::thread_index()) * p.list_bytes);
}

template <class T>
void DepthwiseForward(const DepthwisePlan& p, const T* x, const T* w, const T* bias, T* y,
                      std::byte* scratch) {
  T* filter = reinterpret_cast<T*>(scratch);
  PackFilter(p, w, filter);
  const size_t row_work = p.s.out_w() * p.s.in_c * (p.taps + 1);
  pool::parallel_for(p.s.batch * p.s.out_h(), 1 + 30000 / (1 + row_work), [&](size_t b, size_t e) {
    ForwardRows(p, x, filter, bias, y, ThreadList(p, scratch), b, e);
  });
}

template <class T>
void DepthwiseInputGrad(const DepthwisePlan& p, const T* dy, const T* w, T* dx,
                        std::byte* scratch) {
  T* filter = reinterpret_cast<T*>(scratch);
  PackFilter(p, w, filter);
  const size_t row_work = p.s.in_w * p.s.in_c * (p.taps + 1);
  pool::parallel_for(p.s.batch * p.s.in_h, 1 + 30000 / (1 + row_work), [&](size_t b, size_t e) {
    InputGradRows(p, dy, filter, dx, ThreadList(p, scratch), b, e);
  });
}

template <class T>
void DepthwiseWeightGrad(const DepthwisePlan& p, const T* x, const T* dy, T* dw, bool accumulate,
                         std::byte* scratch) {
  T* sums = reinterpret_cast<T*>(scratch);
  if (accumulate) {
    PackFilter(p, dw, sums);
  } else {
    std::fill_n(sums, p.taps * p.pitch, T{0});
  }
  const size_t channels = p.s.in_c, line = 64 / sizeof(T), lines = p.pitch / line;
  const size_t work = p.s.batch * p.s.out_h() * p.s.out_w() * p.taps * channels;
  const size_t parts = work < 60000 ? 1 : std::min(static_cast<size_t>(pool::threads()), lines);
  pool::parallel_for(parts, 1, [&](size_t b, size_t e) {
    for (size_t i = b; i < e; ++i) {
      WeightGradChannels(p, x, dy, sums, i * lines / parts * line,
                         std::min(channels, (i + 1) * lines / parts * line));
    }
  });
  for (size_t c = 0; c < channels; ++c) {
    for (size_t t = 0; t < p.taps; ++t) dw[c * p.taps + t] = sums[t * p.pitch + c];
  }
}

#define EBB_DEPTHWISE_FOR(T, NAME)                                                                 \
  void DepthwiseForward##NAME(const DepthwisePlan& p, const T* x, const T* w, const T* bias, T* y, \
                              std::byte* scratch) {                                                \
    DepthwiseForward(p, x, w, bias, y, scratch);                                                   \
  }                                                                                                \
  void DepthwiseInputGrad##NAME(const DepthwisePlan& p, const T* dy, const T* w, T* dx,            \
                                std::byte* scratch) {                                              \
    DepthwiseInputGrad(p, dy, w, dx, scratch);                                                     \
  }                                                                                                \
  void DepthwiseWeightGrad##NAME(const DepthwisePlan& p, const T* x, const T* dy, T* dw,           \
                                 bool accumulate, std::byte* scratch) {                            \
    DepthwiseWeightGrad(p, x, dy, dw, accumulate, scratch);                                        \
  }
EBB_DEPTHWISE_FOR(float, F32)
EBB_DEPTHWISE_FOR(double, F64)
#undef EBB_DEPTHWISE_FOR

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels::conv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels::conv {

HWY_EXPORT(DepthwiseForwardF32);
HWY_EXPORT(DepthwiseForwardF64);
HWY_EXPORT(DepthwiseInputGradF32);
HWY_EXPORT(DepthwiseInputGradF64);
HWY_EXPORT(DepthwiseWeightGradF32);
HWY_EXPORT(DepthwiseWeightGradF64);

template <class T>
void depthwise(const Conv2dShape& s, const T* x, const T* w, const T* bias, T* y,
               std::span<std::byte> scratch) {
  const DepthwisePlan plan = plan_depthwise(s, sizeof(T));
  if constexpr (sizeof(T) == sizeof(float)) {
    HWY_DYNAMIC_DISPATCH(DepthwiseForwardF32)(plan, x, w, bias, y, scratch.data());
  } else {
    HWY_DYNAMIC_DISPATCH(DepthwiseForwardF64)(plan, x, w, bias, y, scratch.data());
  }
}

template <class T>
void depthwise_input_grad(const Conv2dShape& s, const T* dy, const T* w, T* dx,
                          std::span<std::byte> scratch) {
  const DepthwisePlan plan = plan_depthwise(s, sizeof(T));
  if constexpr (sizeof(T) == sizeof(float)) {
    HWY_DYNAMIC_DISPATCH(DepthwiseInputGradF32)(plan, dy, w, dx, scratch.data());
  } else {
    HWY_DYNAMIC_DISPATCH(DepthwiseInputGradF64)(plan, dy, w, dx, scratch.data());
  }
}

template <class T>
void depthwise_weight_grad(const Conv2dShape& s, const T* x, const T* dy, T* dw, bool accumulate,
                           std::span<std::byte> scratch) {
  const DepthwisePlan plan = plan_depthwise(s, sizeof(T));
  if constexpr (sizeof(T) == sizeof(float)) {
    HWY_DYNAMIC_DISPATCH(DepthwiseWeightGradF32)(plan, x, dy, dw, accumulate, scratch.data());
  } else {
    HWY_DYNAMIC_DISPATCH(DepthwiseWeightGradF64)(plan, x, dy, dw, accumulate, scratch.data());
  }
}

template <class T>
std::size_t depthwise_scratch_bytes(const Conv2dShape& s) {
  const DepthwisePlan plan = plan_depthwise(s, sizeof(T));
  return plan.filter_bytes + plan.list_bytes * static_cast<std::size_t>(pool::threads());
}

#define EBB_DEPTHWISE_FOR(T)                                                               \
  template void depthwise<T>(const Conv2dShape&, const T*, const T*, const T*, T*,         \
                             std::span<std::byte>);                                        \
  template void depthwise_input_grad<T>(const Conv2dShape&, const T*, const T*, T*,        \
                                        std::span<std::byte>);                             \
  template void depthwise_weight_grad<T>(const Conv2dShape&, const T*, const T*, T*, bool, \
                                         std::span<std::byte>);                            \
  template std::size_t depthwise_scratch_bytes<T>(const Conv2dShape&)
EBB_DEPTHWISE_FOR(float);
EBB_DEPTHWISE_FOR(double);
#undef EBB_DEPTHWISE_FOR

}  // namespace ebb::kernels::conv
#endif  // HWY_ONCE
