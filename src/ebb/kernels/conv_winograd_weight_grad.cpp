#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/conv_winograd_weight_grad.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <cstring>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/conv_block.hpp"
#include "ebb/kernels/conv_winograd-inl.hpp"
#include "ebb/kernels/conv_winograd.hpp"
#include "ebb/kernels/conv_winograd_plan.hpp"
#include "ebb/kernels/copy.hpp"
#include "ebb/kernels/float_dispatch.hpp"
#include "ebb/kernels/lambda-inl.hpp"
#include "ebb/kernels/rows-inl.hpp"
#include "ebb/kernels/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::conv {
namespace HWY_NAMESPACE {

template <class T>
struct WinogradGradScratch {
  T *zeros, *src, *dst, *products;
  WinogradGradScratch(const WinogradGradPlan& p, std::byte* scratch)
      : zeros(reinterpret_cast<T*>(scratch)),
        src(reinterpret_cast<T*>(scratch + p.zero_bytes)),
        dst(reinterpret_cast<T*>(scratch + p.zero_bytes + p.src_bytes)),
        products(reinterpret_cast<T*>(scratch + p.zero_bytes + p.src_bytes + p.dst_bytes +
                                      static_cast<size_t>(pool::thread_index()) * p.thread_bytes)) {
  }
};

// Tiles [begin, end) of a group of runs, `first` the group's first run: they and their gradients at
// the points.
template <class T>
void grad_tiles(const WinogradGradPlan& p, const T* src, const T* ddst, size_t first,
                std::byte* scratch, size_t begin, size_t end) {
  const Correlation& c = p.c;
  const WinogradGradScratch<T> to(p, scratch);
  for (size_t i = begin; i < end; ++i) {
    const size_t run = i / p.run, t = i % p.run;
    const size_t image = (first + run) / p.runs, in_image = (first + run) % p.runs * p.run + t;
    if (in_image >= p.of_image.count()) continue;
    const WinogradTiles::Place at = p.of_image.place(image * p.of_image.count() + in_image);
    const T* pixel[kPoints];
    p.of_image.pixels(c, at, src, to.zeros, pixel);
    to_points<6>(pixel, c.src_channels, TileAtPoints(),
                 to.src + run * kPoints * p.src_point + t * p.src_width, p.src_point);
    for (size_t k = 0; k < kSide * kSide; ++k) {
      const size_t h = at.row + k / kSide, w = at.col + k % kSide;
      pixel[k] = h < c.dst_h && w < c.dst_w
                     ? ddst + image * c.dst_image + h * c.dst_row + w * c.dst_col
                     : to.zeros;
    }
    to_points<4>(pixel, c.dst_channels, GradientsAtPoints(),
                 to.dst + run * kPoints * p.dst_point + t * p.dst_width, p.dst_point);
  }
}

template <class T>
HWY_INLINE void grad_products(size_t rows, size_t tiles, const T* a, size_t a_k, const T* b,
                              size_t b_k, T* c, size_t c_row, size_t panel) {
  static_switch<kTileRows>(rows, [&]<int MR>() EBB_LAMBDA {
    tile_across<MR, 2, T>(tiles, a, a_k, b, b_k, c, c_row, panel, true);
  });
}

// Adds a group of runs, `first` the first of them, to the filters' gradient: one block of it.
template <class T>
void grad_block(const WinogradGradPlan& p, size_t first, size_t runs, size_t block,
                std::byte* scratch, T* dw) {
  const Correlation& c = p.c;
  const WinogradGradScratch<T> from(p, scratch);
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d), panel = 2 * lanes;
  const size_t rows = ceil_div(c.dst_channels, kOuts);
  const size_t o0 = block % rows * kOuts, c0 = block / rows * p.block;
  const size_t outs = std::min(kOuts, c.dst_channels - o0);
  const size_t ins = std::min(p.block, c.src_channels - c0);
  for (size_t run = 0; run < runs; ++run) {
    const size_t done = (first + run) % p.runs * p.run;
    const size_t tiles = std::min(p.run, p.of_image.count() - done);
    for (size_t point = 0; point < kPoints; ++point) {
      const T* const gradients = from.dst + (run * kPoints + point) * p.dst_point + o0;
      const T* const pixels = from.src + (run * kPoints + point) * p.src_point + c0;
      T* const made = from.products + point * p.made;
      for (size_t i = 0; i < ins; i += panel) {
        for (size_t o = 0; o < outs; o += kTileRows)
          grad_products(std::min<size_t>(kTileRows, outs - o), tiles, gradients + o, p.dst_width,
                        pixels + i, p.src_width, made + o * p.block + i, p.block, panel);
      }
    }
    for (size_t o = 0; o < outs; ++o) {
      T* const filter = dw + (o0 + o) * 9 * c.src_channels + c0;
      const auto add = [&](size_t i, auto n) EBB_LAMBDA {
        both_ways<6, 3>(
            d,
            [&](int row, int col) EBB_LAMBDA {
              const auto point = static_cast<size_t>(row) * 6 + static_cast<size_t>(col);
              return hn::LoadU(d, from.products + point * p.made + o * p.block + i);
            },
            TapsFromPoints(),
            [&](int row, int col, auto g) EBB_LAMBDA {
              T* const at = filter + static_cast<size_t>(row * 3 + col) * c.src_channels + i;
              store<T>(hn::Add(load(at, n), g), at, n);
            });
      };
      size_t i = 0;
      for (; i + lanes <= ins; i += lanes) add(i, Whole());
      if (i < ins) add(i, ins - i);
    }
  }
}

template <class T>
void run_winograd_grad(const WinogradGradPlan& p, const T* src, const T* ddst, T* dw,
                       std::byte* scratch) {
  const Correlation& c = p.c;
  std::memset(scratch, 0, p.zero_bytes);
  const size_t all = c.images * p.runs;
  const size_t blocks = ceil_div(c.dst_channels, kOuts) * ceil_div(c.src_channels, p.block);
  for (size_t first = 0; first < all; first += p.group) {
    const size_t runs = std::min(p.group, all - first);
    pool::parallel_for(runs * p.run, 1 + 4096 / (c.src_channels + c.dst_channels),
                       [&](size_t b, size_t e) { grad_tiles(p, src, ddst, first, scratch, b, e); });
    pool::parallel_for(blocks, 1, [&](size_t b, size_t e) {
      for (size_t i = b; i < e; ++i) grad_block(p, first, runs, i, scratch, dw);
    });
  }
}

EBB_FLOAT_TARGETS(winograd_grad, run_winograd_grad);

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels::conv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels::conv {

EBB_FLOAT_EXPORT(winograd_grad);

WinogradWork WinogradWork::weight_grad(const Correlation& c) {
  // Short sums and ways across memory; and what takes as long as a filter's way back.
  constexpr double kSlower = 1.3, kBack = 250;
  const std::size_t runs = ceil_div(WinogradTiles(c).count(), kMostTiles);
  return {kSlower * forward(c).image + kBack * static_cast<double>(runs * c.src_channels) *
                                           static_cast<double>(c.dst_channels),
          0};
}

template <class T>
void winograd_weight_grad(const Correlation& c, const T* src, const T* ddst, T* dw, bool accumulate,
                          std::span<std::byte> scratch) {
  if (!accumulate) zero_bytes(dw, c.dst_channels * c.chain() * sizeof(T));
  if (c.images == 0) return;
  const WinogradGradPlan plan = plan_winograd_grad(c, sizeof(T));
  EBB_FLOAT_DISPATCH(T, winograd_grad)(plan, src, ddst, dw, scratch.data());
}

template <class T>
std::size_t winograd_weight_grad_scratch_bytes(const Correlation& c) {
  return c.images == 0 ? 0 : plan_winograd_grad(c, sizeof(T)).total_bytes;
}

#define EBB_WINOGRAD_GRAD_FOR(T)                                                          \
  template void winograd_weight_grad<T>(const Correlation&, const T*, const T*, T*, bool, \
                                        std::span<std::byte>);                            \
  template std::size_t winograd_weight_grad_scratch_bytes<T>(const Correlation&)
EBB_WINOGRAD_GRAD_FOR(float);
EBB_WINOGRAD_GRAD_FOR(double);
#undef EBB_WINOGRAD_GRAD_FOR

}  // namespace ebb::kernels::conv
#endif  // HWY_ONCE
