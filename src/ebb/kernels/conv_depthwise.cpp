#include "ebb/kernels/conv_depthwise.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/conv_depthwise.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/conv_depthwise_plan.hpp"
#include "ebb/kernels/float_dispatch.hpp"
#include "ebb/kernels/lambda-inl.hpp"
#include "ebb/kernels/partial-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::conv {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using kernels::HWY_NAMESPACE::load_part;
using kernels::HWY_NAMESPACE::static_switch;
using kernels::HWY_NAMESPACE::store_part;

// Pixels that see the same taps, each `src_step` after the one before, and where their sums go.
template <class T>
struct Pixels {
  const SeenTap* seen;
  size_t taps;
  const T* src;
  size_t src_step;
  const T* filter;
  const T* start;  // of the chains; null: zero
  T* out;
  size_t out_step;
};
constexpr size_t kAbreast = 4;  // pixels: their chains fill each other's gaps and share the weights
// From here on that pays. With fewer taps memory sets the pace, and likes one pixel after the
// other.
constexpr size_t kManyTaps = 16;

// What chains side by side take in at a time: vectors of rows, and one that all rows share.
template <class T>
struct Link {
  const T *rows, *shared;
};

// kRows × kVectors chains side by side, each of which starts from start(row, element) and takes in the
// products of link(0), link(1), …, whose rows are `row_step` apart.
template <size_t kRows, size_t kVectors, class T, class Start, class LinkAt>
HWY_INLINE void run_chains(size_t links, size_t row_step, Start&& start, LinkAt&& link, T* out,
                           size_t out_step) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto each_chain = [](auto&& f) EBB_LAMBDA {
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (size_t v = 0; v < kVectors; ++v) f(r, v);
    }
  };
  hn::Vec<decltype(d)> acc[kRows][kVectors];
  each_chain([&](size_t r, size_t v) EBB_LAMBDA { acc[r][v] = start(r, v * lanes); });
  for (size_t i = 0; i < links; ++i) {
    const Link<T> at = link(i);
    hn::Vec<decltype(d)> shared[kVectors];
#pragma GCC unroll 8
    for (size_t v = 0; v < kVectors; ++v) shared[v] = hn::LoadU(d, at.shared + v * lanes);
    each_chain([&](size_t r, size_t v) EBB_LAMBDA {
      const auto x = hn::LoadU(d, at.rows + r * row_step + v * lanes);
      acc[r][v] = hn::MulAdd(x, shared[v], acc[r][v]);
    });
  }
  each_chain([&](size_t r, size_t v)
                 EBB_LAMBDA { hn::StoreU(acc[r][v], d, out + r * out_step + v * lanes); });
}

// f.operator()<vectors>(c) for channels from `first` on, two vectors at a time and then one. Gives
// the channel from which on less than a vector is left.
template <class T, class F>
HWY_INLINE size_t each_vectors(size_t first, size_t last, F&& f) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  size_t c = first;
  for (; c + 2 * lanes <= last; c += 2 * lanes) f.template operator()<2>(c);
  for (; c + lanes <= last; c += lanes) f.template operator()<1>(c);
  return c;
}

// out[c] = start[c] + Σ over the listed taps of src[c] * filter[c], for kVectors vectors of
// channels of kPixels pixels.
template <size_t kPixels, size_t kVectors, class T>
HWY_INLINE void pixel_chains(const Pixels<T>& p, size_t c) {
  const hn::ScalableTag<T> d;
  run_chains<kPixels, kVectors>(
      p.taps, p.src_step,
      [&](size_t, size_t o)
          EBB_LAMBDA { return p.start != nullptr ? hn::LoadU(d, p.start + c + o) : hn::Zero(d); },
      [&](size_t i) EBB_LAMBDA {
        return Link<T>{p.src + p.seen[i].pixel + c, p.filter + p.seen[i].weight + c};
      },
      p.out + c, p.out_step);
}

// All channels of kPixels pixels.
template <size_t kPixels, class T>
HWY_NOINLINE void pixel_sums(const Pixels<T>& p, size_t channels) {
  const hn::ScalableTag<T> d;
  const size_t c = each_vectors<T>(
      0, channels, [&]<size_t V>(size_t at) EBB_LAMBDA { pixel_chains<kPixels, V>(p, at); });
  const size_t left = channels - c;
  for (size_t r = 0; r < kPixels && left != 0; ++r) {
    auto a = p.start != nullptr ? load_part(d, p.start + c, left) : hn::Zero(d);
    for (size_t i = 0; i < p.taps; ++i) {
      a = hn::MulAdd(load_part(d, p.src + p.seen[i].pixel + r * p.src_step + c, left),
                     hn::LoadU(d, p.filter + p.seen[i].weight + c), a);
    }
    store_part(a, d, p.out + r * p.out_step + c, left);
  }
}

template <class T>
void pack_filter(const DepthwisePlan& p, const T* w, T* to) {
  for (size_t t = 0; t < p.taps; ++t) {
    for (size_t c = 0; c < p.s.in_c; ++c) to[t * p.pitch + c] = w[c * p.taps + t];
    std::fill(to + t * p.pitch + p.s.in_c, to + (t + 1) * p.pitch, T{0});
  }
}

// Rows [begin, end) of y (or of dx), counted over the whole batch. along_h(row, k) and
// along_w(column, k) are the pixel of the source that tap k meets there, or -1; columns `every`
// apart meet pixels `src_every` apart.
template <class T, class AlongH, class AlongW>
HWY_INLINE void chain_rows(const DepthwisePlan& p, size_t height, size_t width, size_t every,
                           size_t src_h, size_t src_w, size_t src_every, const T* src,
                           const T* filter, const T* start, T* dst, SeenTap* list, size_t begin,
                           size_t end, AlongH along_h, AlongW along_w) {
  const Conv2dShape& s = p.s;
  const size_t channels = s.in_c;
  const bool many = p.taps >= kManyTaps * every;
  const bool in_turns = !many && every > 1;  // neighbours meet different taps
  if (!many) every = 1;
  const auto same_taps = [&](size_t a, size_t b) {  // of two columns
    bool same = true;
    for (size_t kw = 0; kw < s.kernel_w; ++kw)
      same = same && (along_w(a, kw) >= 0) == (along_w(b, kw) >= 0);
    return same;
  };
  for (size_t row = begin; row < end; ++row) {
    const T* image = src + row / height * src_h * src_w * channels;
    size_t listed = width, count = 0, first_tap = 0;  // the column that the list was made for
    for (size_t from = 0; from < every; ++from) {
      for (size_t j = from; j < width;) {
        if (listed == width || in_turns || !same_taps(listed, j)) {
          listed = j;
          count = 0;
          for (size_t kh = 0; kh < s.kernel_h; ++kh) {
            const ptrdiff_t h = along_h(row % height, kh);
            if (h < 0) continue;
            for (size_t kw = 0; kw < s.kernel_w; ++kw) {
              const ptrdiff_t w = along_w(j, kw);
              if (w < 0) continue;
              if (count == 0) first_tap = kw;
              list[count++] = {
                  (h * static_cast<ptrdiff_t>(src_w) + w) * static_cast<ptrdiff_t>(channels),
                  static_cast<ptrdiff_t>((kh * s.kernel_w + kw) * p.pitch)};
            }
          }
        }
        bool alike = many && j + (kAbreast - 1) * every < width;
        for (size_t r = 1; r < kAbreast && alike; ++r) alike = same_taps(j, j + r * every);
        const ptrdiff_t on = count == 0 ? 0 : along_w(j, first_tap) - along_w(listed, first_tap);
        const Pixels<T> pixels{list,
                               count,
                               image + on * static_cast<ptrdiff_t>(channels),
                               src_every * channels,
                               filter,
                               start,
                               dst + (row * width + j) * channels,
                               every * channels};
        if (alike) {
          pixel_sums<kAbreast>(pixels, channels);
          j += kAbreast * every;
        } else {
          pixel_sums<1>(pixels, channels);
          j += every;
        }
      }
    }
  }
}

template <class T>
void forward_rows(const DepthwisePlan& p, const T* x, const T* filter, const T* bias, T* y,
                  SeenTap* list, size_t begin, size_t end) {
  const Conv2dShape& s = p.s;
  chain_rows(
      p, s.out_h(), s.out_w(), 1, s.in_h, s.in_w, s.stride_w, x, filter, bias, y, list, begin, end,
      [&](size_t o, size_t k) {
        return seen_pixel(o, s.pad_top, k, s.dilation_h, s.stride_h, s.in_h);
      },
      [&](size_t o, size_t k) {
        return seen_pixel(o, s.pad_left, k, s.dilation_w, s.stride_w, s.in_w);
      });
}

template <class T>
void input_grad_rows(const DepthwisePlan& p, const T* dy, const T* filter, T* dx, SeenTap* list,
                     size_t begin, size_t end) {
  const Conv2dShape& s = p.s;
  const size_t oh = s.out_h(), ow = s.out_w();
  chain_rows(
      p, s.in_h, s.in_w, s.stride_w, oh, ow, 1, dy, filter, static_cast<const T*>(nullptr), dx,
      list, begin, end,
      [&](size_t i, size_t k) { return met_place(i, s.pad_top, k, s.dilation_h, s.stride_h, oh); },
      [&](size_t i, size_t k) {
        return met_place(i, s.pad_left, k, s.dilation_w, s.stride_w, ow);
      });
}

// Some taps of a row of the kernel, met by `count` places of one row that see them all.
template <class T>
struct TapRun {
  const T* x;       // what the first tap sees of the first place
  size_t tap_step;  // from one tap to the next, in x
  size_t x_step;    // from one place to the next
  const T* dy;
  size_t dy_step;
  size_t count;
  T* sums;  // of the first tap
  size_t pitch;
};

template <size_t kTaps, size_t kVectors, class T>
HWY_INLINE void tap_chains(const TapRun<T>& t, size_t c) {
  const hn::ScalableTag<T> d;
  run_chains<kTaps, kVectors>(
      t.count, t.tap_step,
      [&](size_t k, size_t o) EBB_LAMBDA { return hn::LoadU(d, t.sums + k * t.pitch + c + o); },
      [&](size_t j) EBB_LAMBDA {
        return Link<T>{t.x + j * t.x_step + c, t.dy + j * t.dy_step + c};
      },
      t.sums + c, t.pitch);
}

// Channels [first, last) of the sums of kTaps taps.
template <size_t kTaps, class T>
HWY_NOINLINE void tap_sums(const TapRun<T>& t, size_t first, size_t last) {
  const hn::ScalableTag<T> d;
  const size_t c = each_vectors<T>(
      first, last, [&]<size_t V>(size_t at) EBB_LAMBDA { tap_chains<kTaps, V>(t, at); });
  const size_t left = last - c;
  for (size_t k = 0; k < kTaps && left != 0; ++k) {
    auto a = hn::LoadU(d, t.sums + k * t.pitch + c);
    for (size_t j = 0; j < t.count; ++j) {
      a = hn::MulAdd(load_part(d, t.x + k * t.tap_step + j * t.x_step + c, left),
                     load_part(d, t.dy + j * t.dy_step + c, left), a);
    }
    hn::StoreU(a, d, t.sums + k * t.pitch + c);
  }
}

// Channels [first, last) of the sums (taps, pitch), over all places in order: row by row, a few
// taps at a time. At the edges some of them see nothing; those places go tap by tap.
template <class T>
void weight_grad_channels(const DepthwisePlan& p, const T* x, const T* dy, T* sums, size_t first,
                          size_t last) {
  constexpr size_t kTaps = 4;
  const Conv2dShape& s = p.s;
  const size_t oh = s.out_h(), ow = s.out_w(), channels = s.in_c;
  const auto across = [&](size_t place, size_t k) {
    return seen_pixel(place, s.pad_left, k, s.dilation_w, s.stride_w, s.in_w);
  };
  for (size_t row = 0; row < s.batch * oh; ++row) {
    const T* image = x + row / oh * s.in_h * s.in_w * channels;
    for (size_t kh = 0; kh < s.kernel_h; ++kh) {
      const ptrdiff_t ih = seen_pixel(row % oh, s.pad_top, kh, s.dilation_h, s.stride_h, s.in_h);
      if (ih < 0) continue;
      const T* line = image + static_cast<size_t>(ih) * s.in_w * channels;
      for (size_t k = 0; k < s.kernel_w; k += kTaps) {
        const size_t taps = std::min(kTaps, s.kernel_w - k);
        TapRun<T> t{nullptr,
                    s.dilation_w * channels,
                    s.stride_w * channels,
                    nullptr,
                    channels,
                    0,
                    sums + (kh * s.kernel_w + k) * p.pitch,
                    p.pitch};
        for (size_t j = 0; j < ow;) {
          const ptrdiff_t left = across(j, k);
          t.dy = dy + (row * ow + j) * channels;
          if (left >= 0 && across(j, k + taps - 1) >= 0) {
            size_t end = j + 1;
            while (end < ow && across(end, k + taps - 1) >= 0) ++end;
            t.x = line + static_cast<size_t>(left) * channels;
            t.count = end - j;
            static_switch<kTaps>(taps, [&]<int N>() EBB_LAMBDA { tap_sums<N>(t, first, last); });
            j = end;
            continue;
          }
          t.count = 1;
          for (size_t one = 0; one < taps; ++one) {
            const ptrdiff_t seen = across(j, k + one);
            if (seen < 0) continue;
            TapRun<T> single = t;
            single.x = line + static_cast<size_t>(seen) * channels;
            single.sums = t.sums + one * p.pitch;
            tap_sums<1>(single, first, last);
          }
          ++j;
        }
      }
    }
  }
}

inline SeenTap* thread_list(const DepthwisePlan& p, std::byte* scratch) {
  return reinterpret_cast<SeenTap*>(scratch + p.filter_bytes +
                                    static_cast<size_t>(pool::thread_index()) * p.list_bytes);
}

template <class T>
void run_forward(const DepthwisePlan& p, const T* x, const T* w, const T* bias, T* y,
                 std::byte* scratch) {
  T* filter = reinterpret_cast<T*>(scratch);
  pack_filter(p, w, filter);
  const size_t row_work = p.s.out_w() * p.s.in_c * (p.taps + 1);
  pool::parallel_for(p.s.batch * p.s.out_h(), 1 + 30000 / (1 + row_work), [&](size_t b, size_t e) {
    forward_rows(p, x, filter, bias, y, thread_list(p, scratch), b, e);
  });
}

template <class T>
void run_input_grad(const DepthwisePlan& p, const T* dy, const T* w, T* dx, std::byte* scratch) {
  T* filter = reinterpret_cast<T*>(scratch);
  pack_filter(p, w, filter);
  const size_t row_work = p.s.in_w * p.s.in_c * (p.taps + 1);
  pool::parallel_for(p.s.batch * p.s.in_h, 1 + 30000 / (1 + row_work), [&](size_t b, size_t e) {
    input_grad_rows(p, dy, filter, dx, thread_list(p, scratch), b, e);
  });
}

template <class T>
void run_weight_grad(const DepthwisePlan& p, const T* x, const T* dy, T* dw, bool accumulate,
                     std::byte* scratch) {
  T* sums = reinterpret_cast<T*>(scratch);
  if (accumulate) {
    pack_filter(p, dw, sums);
  } else {
    std::fill_n(sums, p.taps * p.pitch, T{0});
  }
  const size_t channels = p.s.in_c, line = 64 / sizeof(T), lines = p.pitch / line;
  const size_t work = p.s.batch * p.s.out_h() * p.s.out_w() * p.taps * channels;
  const size_t parts = work < 60000 ? 1 : std::min(static_cast<size_t>(pool::threads()), lines);
  pool::parallel_for(parts, 1, [&](size_t b, size_t e) {
    for (size_t i = b; i < e; ++i) {
      weight_grad_channels(p, x, dy, sums, i * lines / parts * line,
                           std::min(channels, (i + 1) * lines / parts * line));
    }
  });
  for (size_t c = 0; c < channels; ++c) {
    for (size_t t = 0; t < p.taps; ++t) dw[c * p.taps + t] = sums[t * p.pitch + c];
  }
}

EBB_FLOAT_TARGETS(depthwise_forward, run_forward);
EBB_FLOAT_TARGETS(depthwise_input_grad, run_input_grad);
EBB_FLOAT_TARGETS(depthwise_weight_grad, run_weight_grad);

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels::conv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels::conv {

EBB_FLOAT_EXPORT(depthwise_forward);
EBB_FLOAT_EXPORT(depthwise_input_grad);
EBB_FLOAT_EXPORT(depthwise_weight_grad);

template <class T>
void depthwise(const Conv2dShape& s, const T* x, const T* w, const T* bias, T* y,
               std::span<std::byte> scratch) {
  const DepthwisePlan plan = plan_depthwise(s, sizeof(T));
  EBB_FLOAT_DISPATCH(T, depthwise_forward)(plan, x, w, bias, y, scratch.data());
}

template <class T>
void depthwise_input_grad(const Conv2dShape& s, const T* dy, const T* w, T* dx,
                          std::span<std::byte> scratch) {
  const DepthwisePlan plan = plan_depthwise(s, sizeof(T));
  EBB_FLOAT_DISPATCH(T, depthwise_input_grad)(plan, dy, w, dx, scratch.data());
}

template <class T>
void depthwise_weight_grad(const Conv2dShape& s, const T* x, const T* dy, T* dw, bool accumulate,
                           std::span<std::byte> scratch) {
  const DepthwisePlan plan = plan_depthwise(s, sizeof(T));
  EBB_FLOAT_DISPATCH(T, depthwise_weight_grad)(plan, x, dy, dw, accumulate, scratch.data());
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
