#include "ebb/kernels/conv_winograd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/conv_winograd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <cstring>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/conv_block.hpp"
#include "ebb/kernels/conv_winograd-inl.hpp"
#include "ebb/kernels/conv_winograd_plan.hpp"
#include "ebb/kernels/float_dispatch.hpp"
#include "ebb/kernels/lambda-inl.hpp"
#include "ebb/kernels/rows-inl.hpp"
#include "ebb/kernels/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::conv {
namespace HWY_NAMESPACE {

// The filters of one panel of dst channels: to[point][src channel][lane].
template <class T>
void filter_panel(const WinogradPlan& p, const CorrelationWeights& at, const T* w, size_t first,
                  T* to) {
  const hn::ScalableTag<T> d;
  constexpr size_t kMost = kPanelBytes / sizeof(T), kRun = 64 / sizeof(T);
  const size_t lanes = hn::Lanes(d), panel = 2 * lanes, channels = p.c.src_channels;
  const size_t outs = std::min(panel, p.c.dst_channels - first);
  const auto tap = [&](size_t o, size_t t, size_t c) {
    return w + at.base + static_cast<ptrdiff_t>(first + o) * at.out +
           static_cast<ptrdiff_t>(t / 3) * at.tap_h + static_cast<ptrdiff_t>(t % 3) * at.tap_w +
           static_cast<ptrdiff_t>(c) * at.in;
  };
  HWY_ALIGN T points[kPoints][kMost];
  HWY_ALIGN T taps[kRun][9][kMost] = {};  // of some src channels; lanes beyond `outs` stay zero
  for (size_t c0 = 0; c0 < channels; c0 += kRun) {
    const size_t some = std::min(kRun, channels - c0);
    // Along whatever lies side by side.
    if (at.in == 1) {
      for (size_t o = 0; o < outs; ++o) {
        for (size_t t = 0; t < 9; ++t) {
          const T* from = tap(o, t, c0);
          for (size_t c = 0; c < some; ++c) taps[c][t][o] = from[c];
        }
      }
    } else {
      for (size_t c = 0; c < some; ++c) {
        for (size_t t = 0; t < 9; ++t) {
          const T* from = tap(0, t, c0 + c);
          for (size_t o = 0; o < outs; ++o)
            taps[c][t][o] = from[static_cast<ptrdiff_t>(o) * at.out];
        }
      }
    }
    for (size_t c = 0; c < some; ++c) {
      for (size_t o = 0; o < panel; o += lanes) {
        both_ways<3, 6>(
            d, [&](int i, int j) EBB_LAMBDA { return hn::Load(d, taps[c][i * 3 + j] + o); },
            FilterAtPoints(),
            [&](int i, int j, auto u) EBB_LAMBDA { hn::Store(u, d, points[i * 6 + j] + o); });
      }
      // Whole lines, since those of all points may lie in one set of the cache.
      for (size_t point = 0; point < kPoints; ++point) {
        T* const line = to + (point * channels + c0 + c) * panel;
        for (size_t o = 0; o < panel; o += lanes)
          hn::Store(hn::Load(d, points[point] + o), d, line + o);
      }
    }
  }
}

// The outputs of a tile from its products: `rows` by `cols` of them, for `count` dst channels.
template <class T>
void tile_from_points(const WinogradPlan& p, const T* from, const T* bias, size_t count, T* dst,
                      size_t rows, size_t cols) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const auto outputs = [&](size_t o, auto n) EBB_LAMBDA {
    const V start = bias ? load(bias + o, n) : hn::Zero(d);
    both_ways<6, 4>(
        d,
        [&](int i, int j)
            EBB_LAMBDA { return hn::LoadU(d, from + static_cast<size_t>(i * 6 + j) * p.made + o); },
        OutputsFromPoints(),
        [&](int i, int j, V y) EBB_LAMBDA {
          const auto row = static_cast<size_t>(i), col = static_cast<size_t>(j);
          if (row < rows && col < cols)
            store<T>(hn::Add(y, start), dst + row * p.c.dst_row + col * p.c.dst_col + o, n);
        });
  };
  size_t o = 0;
  for (; o + lanes <= count; o += lanes) outputs(o, Whole());
  if (o < count) outputs(o, count - o);
}

template <class T>
HWY_INLINE void product_rows(size_t rows, size_t kc, const T* a, size_t a_row, const T* b, T* c,
                             size_t c_row, size_t panel, bool from_zero) {
  static_switch<kTileRows>(rows, [&]<int MR>() EBB_LAMBDA {
    tile_along<MR, 2, T>(kc, a, a_row, b, panel, c, c_row, panel, from_zero);
  });
}

template <class T>
void winograd_blocks(const WinogradPlan& p, const T* src, const T* bias, T* dst, std::byte* scratch,
                     size_t begin, size_t end) {
  const Correlation& c = p.c;
  const T* const filters = reinterpret_cast<const T*>(scratch);
  const T* const zeros = reinterpret_cast<const T*>(scratch + p.filter_bytes);
  std::byte* const mine = scratch + p.filter_bytes + p.zero_bytes +
                          static_cast<size_t>(pool::thread_index()) * p.thread_bytes;
  T* const points = reinterpret_cast<T*>(mine);
  T* const products = reinterpret_cast<T*>(mine + p.point_bytes);
  const size_t lanes = tile_lanes<T>(), panel = 2 * lanes, together = kPanelsAtATime * panel;
  const size_t in = c.src_channels, panel_elements = kPoints * in * panel;

  for (size_t b = begin; b < end; ++b) {
    const size_t first = b * p.block, tiles = std::min(p.block, p.tiles() - first);
    for (size_t t = 0; t < tiles; ++t) {
      const T* pixel[kPoints];
      p.of_image.pixels(c, p.of_image.place(first + t), src, zeros, pixel);
      to_points<6>(pixel, in, TileAtPoints(), points + t * p.width, p.point);
    }
    for (size_t o = 0; o < c.dst_channels; o += together) {
      const size_t outs = std::min(together, c.dst_channels - o);
      for (size_t point = 0; point < kPoints; ++point) {
        for (size_t k = 0; k < in; k += kChain) {
          for (size_t j = 0; j < outs; j += panel) {
            const T* const filter =
                filters + (o + j) / panel * panel_elements + (point * in + k) * panel;
            for (size_t t = 0; t < tiles; t += kTileRows) {
              product_rows(std::min<size_t>(kTileRows, tiles - t), std::min(kChain, in - k),
                           points + point * p.point + t * p.width + k, p.width, filter,
                           products + point * p.made + t * together + j, together, panel, k == 0);
            }
          }
        }
      }
      for (size_t t = 0; t < tiles; ++t) {
        const WinogradTiles::Place at = p.of_image.place(first + t);
        tile_from_points(p, products + t * together, bias ? bias + o : nullptr, outs,
                         dst + at.image * c.dst_image + at.row * c.dst_row + at.col * c.dst_col + o,
                         std::min(kSide, c.dst_h - at.row), std::min(kSide, c.dst_w - at.col));
      }
    }
  }
}

template <class T>
void run_winograd(const WinogradPlan& p, const CorrelationWeights& at, const T* src, const T* w,
                  const T* bias, T* dst, std::byte* scratch) {
  const size_t panel = 2 * tile_lanes<T>(), panels = ceil_div(p.c.dst_channels, panel);
  const size_t elements = kPoints * p.c.src_channels * panel;
  pool::parallel_for(panels, 1 + 16384 / elements, [&](size_t b, size_t e) {
    for (size_t i = b; i < e; ++i)
      filter_panel(p, at, w, i * panel, reinterpret_cast<T*>(scratch) + i * elements);
  });
  std::memset(scratch + p.filter_bytes, 0, p.zero_bytes);
  const size_t blocks = ceil_div(p.tiles(), p.block);
  const size_t work = p.block * kPoints * p.c.src_channels * p.c.dst_channels;
  pool::parallel_for(blocks, 1 + 60000 / work, [&](size_t b, size_t e) {
    winograd_blocks(p, src, bias, dst, scratch, b, e);
  });
}

EBB_FLOAT_TARGETS(winograd, run_winograd);

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels::conv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels::conv {

EBB_FLOAT_EXPORT(winograd);

bool by_winograd(const Correlation& c) {
  const bool kind = c.groups == 1 && c.taps_h == 3 && c.taps_w == 3 && c.stride_h == 1 &&
                    c.stride_w == 1 && c.step_h == 1 && c.step_w == 1;
  return kind && WinogradWork::pays(WinogradWork::forward(c), c);
}

WinogradWork WinogradWork::forward(const Correlation& c) {
  // Of a channel to its points or back, and of a filter to its points: what takes as long.
  constexpr double kWay = 500, kFilter = 1200;
  const auto tiles = static_cast<double>(WinogradTiles(c).count());
  const auto in = static_cast<double>(c.src_channels), out = static_cast<double>(c.dst_channels);
  return {tiles * (kPoints * in * out + kWay * (in + out)), kFilter * in * out};
}

bool WinogradWork::pays(const WinogradWork& work, const Correlation& c) {
  constexpr double kImages = 8,
                   kMuch = 0.85;  // as if so many came at once; rounding is not for free
  const double plain =
      static_cast<double>(c.dst_h * c.dst_w * c.dst_channels) * static_cast<double>(c.chain());
  return work.image + work.call / kImages < kMuch * plain;
}

template <class T>
void winograd(const Correlation& c, const CorrelationWeights& at, const T* src, const T* w,
              const T* bias, T* dst, std::span<std::byte> scratch) {
  if (c.images == 0) return;
  const WinogradPlan plan = plan_winograd(c, sizeof(T));
  EBB_FLOAT_DISPATCH(T, winograd)(plan, at, src, w, bias, dst, scratch.data());
}

template <class T>
std::size_t winograd_scratch_bytes(const Correlation& c) {
  return c.images == 0 ? 0 : plan_winograd(c, sizeof(T)).total_bytes;
}

#define EBB_WINOGRAD_FOR(T)                                                                    \
  template void winograd<T>(const Correlation&, const CorrelationWeights&, const T*, const T*, \
                            const T*, T*, std::span<std::byte>);                               \
  template std::size_t winograd_scratch_bytes<T>(const Correlation&)
EBB_WINOGRAD_FOR(float);
EBB_WINOGRAD_FOR(double);
#undef EBB_WINOGRAD_FOR

}  // namespace ebb::kernels::conv
#endif  // HWY_ONCE
