#include "ebb/kernels/conv_winograd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/conv_winograd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <cstring>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/rows-inl.hpp"
#include "ebb/kernels/tile-inl.hpp"

#ifndef EBB_KERNELS_CONV_WINOGRAD_PLAN_
#define EBB_KERNELS_CONV_WINOGRAD_PLAN_
namespace ebb::kernels::conv {

constexpr std::size_t kPoints = 6, kSquare = kPoints * kPoints, kOut = 4;
constexpr std::size_t kTilesAtATime = 48;
constexpr std::size_t kPointsBytes = 1 << 20;  // of a block of tiles at its points
constexpr std::size_t kBlockRows = 6;          // of a register tile
constexpr std::size_t kPanelsAtATime = 4;
constexpr std::size_t kPanelBytes = 128;  // the widest: two vectors of 64 bytes
constexpr std::size_t kChain = 256;       // of a sum over channels, at a stretch

// Scratch: the filters at their points, a pixel of zeros; then for each thread a block of tiles at
// their points, and the products of some panels.
struct WinogradPlan {
  Correlation c;
  std::size_t down, across;  // tiles of an image
  std::size_t block;         // tiles at a time
  std::size_t width;         // of a source pixel, whole cache lines
  std::size_t point, made;   // elements from one point to the next: of tiles, of products
  std::size_t filter_bytes, zero_bytes, point_bytes, thread_bytes, total_bytes;

  std::size_t tiles() const { return c.images * down * across; }
};

inline std::size_t whole(std::size_t n, std::size_t of) { return (n + of - 1) / of * of; }

inline WinogradPlan plan_winograd(const Correlation& c, std::size_t element_bytes) {
  WinogradPlan p{};
  p.c = c;
  p.down = (c.dst_h + kOut - 1) / kOut;
  p.across = (c.dst_w + kOut - 1) / kOut;
  const std::size_t line = 64 / element_bytes, panel = kPanelBytes / element_bytes;
  p.width = whole(c.src_channels, line);
  const std::size_t rows = kBlockRows;
  const std::size_t fit = kPointsBytes / (kSquare * p.width * element_bytes);
  const std::size_t share = p.tiles() / static_cast<std::size_t>(pool::threads()) + 1;
  p.block = whole(std::min({std::max(fit, rows), kTilesAtATime, share}), rows);
  // A line more than the tiles take: 36 of them side by side must not meet in one set of the cache.
  p.point = p.block * p.width + line;
  p.made = p.block * kPanelsAtATime * panel + line;
  p.filter_bytes = kSquare * c.src_channels * whole(c.dst_channels, panel) * element_bytes;
  p.zero_bytes = p.width * element_bytes;
  p.point_bytes = kSquare * p.point * element_bytes;
  p.thread_bytes = p.point_bytes + kSquare * p.made * element_bytes;
  p.total_bytes =
      p.filter_bytes + p.zero_bytes + static_cast<std::size_t>(pool::threads()) * p.thread_bytes;
  return p;
}

}  // namespace ebb::kernels::conv
#endif  // EBB_KERNELS_CONV_WINOGRAD_PLAN_

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::conv {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace ebb::kernels::HWY_NAMESPACE;  // rows and the register tile

// Points a = 3/4 and b = 3/2. Each of these three is done along one direction, then the other.
constexpr double kA = 0.75, kB = 1.5, kA2 = kA * kA, kB2 = kB * kB;

template <class D, class V>
HWY_INLINE void TileAtPoints(D d, const V (&x)[6], V (&v)[6]) {
  const auto set = [d](double value)
                       HWY_ATTR { return hn::Set(d, static_cast<hn::TFromD<D>>(value)); };
  const V a2 = set(kA2), b2 = set(kB2), both = set(kA2 + kB2), times = set(kA2 * kB2);
  const V even_a = hn::NegMulAdd(b2, x[2], x[4]), odd_a = hn::NegMulAdd(b2, x[1], x[3]);
  const V even_b = hn::NegMulAdd(a2, x[2], x[4]), odd_b = hn::NegMulAdd(a2, x[1], x[3]);
  v[0] = hn::MulAdd(times, x[0], hn::NegMulAdd(both, x[2], x[4]));
  v[1] = hn::MulAdd(set(kA), odd_a, even_a);
  v[2] = hn::NegMulAdd(set(kA), odd_a, even_a);
  v[3] = hn::MulAdd(set(kB), odd_b, even_b);
  v[4] = hn::NegMulAdd(set(kB), odd_b, even_b);
  v[5] = hn::MulAdd(times, x[1], hn::NegMulAdd(both, x[3], x[5]));
}

template <class D, class V>
HWY_INLINE void FilterAtPoints(D d, V g0, V g1, V g2, V (&u)[6]) {
  const auto set = [d](double value)
                       HWY_ATTR { return hn::Set(d, static_cast<hn::TFromD<D>>(value)); };
  const V one_a = set(1 / (2 * kA2 * (kA2 - kB2))), one_b = set(1 / (2 * kB2 * (kB2 - kA2)));
  const V even_a = hn::MulAdd(set(kA2), g2, g0), even_b = hn::MulAdd(set(kB2), g2, g0);
  u[0] = hn::Mul(set(1 / (kA2 * kB2)), g0);
  u[1] = hn::Mul(one_a, hn::MulAdd(set(kA), g1, even_a));
  u[2] = hn::Mul(one_a, hn::NegMulAdd(set(kA), g1, even_a));
  u[3] = hn::Mul(one_b, hn::MulAdd(set(kB), g1, even_b));
  u[4] = hn::Mul(one_b, hn::NegMulAdd(set(kB), g1, even_b));
  u[5] = g2;
}

template <class D, class V>
HWY_INLINE void FromPoints(D d, const V (&m)[6], V (&y)[4]) {
  const auto set = [d](double value)
                       HWY_ATTR { return hn::Set(d, static_cast<hn::TFromD<D>>(value)); };
  const V even_a = hn::Add(m[1], m[2]), odd_a = hn::Sub(m[1], m[2]);
  const V even_b = hn::Add(m[3], m[4]), odd_b = hn::Sub(m[3], m[4]);
  y[0] = hn::Add(m[0], hn::Add(even_a, even_b));
  y[1] = hn::MulAdd(set(kB), odd_b, hn::Mul(set(kA), odd_a));
  y[2] = hn::MulAdd(set(kB2), even_b, hn::Mul(set(kA2), even_a));
  y[3] = hn::MulAdd(set(kB2 * kB), odd_b, hn::MulAdd(set(kA2 * kA), odd_a, m[5]));
}

// The filters of one panel of dst channels: to[point][src channel][lane].
template <class T>
void FilterPanel(const WinogradPlan& p, const CorrelationWeights& at, const T* w, size_t first,
                 T* to) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kMost = kPanelBytes / sizeof(T), kRun = 64 / sizeof(T);
  const size_t lanes = hn::Lanes(d), panel = 2 * lanes, channels = p.c.src_channels;
  const size_t outs = std::min(panel, p.c.dst_channels - first);
  const auto tap = [&](size_t o, size_t t, size_t c) {
    return w + at.base + static_cast<ptrdiff_t>(first + o) * at.out +
           static_cast<ptrdiff_t>(t / 3) * at.tap_h + static_cast<ptrdiff_t>(t % 3) * at.tap_w +
           static_cast<ptrdiff_t>(c) * at.in;
  };
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
        V half[6][3];
        for (size_t j = 0; j < 3; ++j) {
          V u[6];
          FilterAtPoints(d, hn::Load(d, taps[c][j] + o), hn::Load(d, taps[c][3 + j] + o),
                         hn::Load(d, taps[c][6 + j] + o), u);
          for (size_t i = 0; i < 6; ++i) half[i][j] = u[i];
        }
        for (size_t i = 0; i < 6; ++i) {
          V u[6];
          FilterAtPoints(d, half[i][0], half[i][1], half[i][2], u);
          for (size_t j = 0; j < 6; ++j)
            hn::Store(u[j], d, to + ((i * 6 + j) * channels + c0 + c) * panel + o);
        }
      }
    }
  }
}

// A tile at its points: `to` is that of the first, with p.point from one to the next.
template <class T>
void TileToPoints(const WinogradPlan& p, const T* const (&pixel)[kSquare], T* to) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d), channels = p.c.src_channels;
  const auto points = [&](size_t c, auto n) EBB_ROW_LAMBDA {
    V half[6][6];
    for (size_t j = 0; j < 6; ++j) {
      V x[6], v[6];
      for (size_t i = 0; i < 6; ++i) x[i] = load(pixel[i * 6 + j] + c, n);
      TileAtPoints(d, x, v);
      for (size_t i = 0; i < 6; ++i) half[i][j] = v[i];
    }
    T* at = to + c;
    for (size_t i = 0; i < 6; ++i) {
      V v[6];
      TileAtPoints(d, half[i], v);
      for (size_t j = 0; j < 6; ++j, at += p.point) hn::StoreU(v[j], d, at);
    }
  };
  size_t c = 0;
  for (; c + lanes <= channels; c += lanes) points(c, Whole());
  if (c < channels) points(c, channels - c);
}

// The outputs of a tile from its products: `rows` by `cols` of them, for `count` dst channels.
template <class T>
void TileFromPoints(const WinogradPlan& p, const T* from, const T* bias, size_t count, T* dst,
                    size_t rows, size_t cols) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const auto outputs = [&](size_t o, auto n) EBB_ROW_LAMBDA {
    const V start = bias ? load(bias + o, n) : hn::Zero(d);
    V half[4][6];
    for (size_t j = 0; j < 6; ++j) {
      V m[6], y[4];
      for (size_t i = 0; i < 6; ++i) m[i] = hn::LoadU(d, from + (i * 6 + j) * p.made + o);
      FromPoints(d, m, y);
      for (size_t i = 0; i < 4; ++i) half[i][j] = y[i];
    }
    for (size_t i = 0; i < rows; ++i) {
      V y[4];
      FromPoints(d, half[i], y);
      T* const row = dst + i * p.c.dst_row + o;
      for (size_t j = 0; j < cols; ++j) store<T>(hn::Add(y[j], start), row + j * p.c.dst_col, n);
    }
  };
  size_t o = 0;
  for (; o + lanes <= count; o += lanes) outputs(o, Whole());
  if (o < count) outputs(o, count - o);
}

template <class T>
HWY_INLINE void ProductRows(size_t rows, size_t kc, const T* a, size_t a_row, const T* b, T* c,
                            size_t c_row, size_t panel, bool from_zero) {
  switch (rows) {
    case 6:
      return TileAlong<6, 2, T>(kc, a, a_row, b, panel, c, c_row, panel, from_zero);
    case 5:
      return TileAlong<5, 2, T>(kc, a, a_row, b, panel, c, c_row, panel, from_zero);
    case 4:
      return TileAlong<4, 2, T>(kc, a, a_row, b, panel, c, c_row, panel, from_zero);
    case 3:
      return TileAlong<3, 2, T>(kc, a, a_row, b, panel, c, c_row, panel, from_zero);
    case 2:
      return TileAlong<2, 2, T>(kc, a, a_row, b, panel, c, c_row, panel, from_zero);
    default:
      return TileAlong<1, 2, T>(kc, a, a_row, b, panel, c, c_row, panel, from_zero);
  }
}

template <class T>
void WinogradBlocks(const WinogradPlan& p, const T* src, const T* bias, T* dst, std::byte* scratch,
                    size_t begin, size_t end) {
  const Correlation& c = p.c;
  const T* const filters = reinterpret_cast<const T*>(scratch);
  const T* const zeros = reinterpret_cast<const T*>(scratch + p.filter_bytes);
  std::byte* const mine = scratch + p.filter_bytes + p.zero_bytes +
                          static_cast<size_t>(pool::thread_index()) * p.thread_bytes;
  T* const points = reinterpret_cast<T*>(mine);
  T* const products = reinterpret_cast<T*>(mine + p.point_bytes);
  const size_t lanes = TileLanes<T>(), panel = 2 * lanes, together = kPanelsAtATime * panel;
  const size_t in = c.src_channels, panel_elements = kSquare * in * panel;

  struct Place {
    size_t image, row, col;
  };
  const auto place = [&](size_t tile) {
    const size_t in_image = tile % (p.down * p.across);
    return Place{tile / (p.down * p.across), in_image / p.across * kOut,
                 in_image % p.across * kOut};
  };
  for (size_t b = begin; b < end; ++b) {
    const size_t first = b * p.block, tiles = std::min(p.block, p.tiles() - first);
    for (size_t t = 0; t < tiles; ++t) {
      const Place at = place(first + t);
      const T* const image = src + at.image * c.src_h * c.src_w * in;
      const T* pixel[kSquare];
      for (size_t i = 0; i < kSquare; ++i) {
        const auto h = static_cast<size_t>(c.origin_h + static_cast<ptrdiff_t>(at.row + i / 6));
        const auto w = static_cast<size_t>(c.origin_w + static_cast<ptrdiff_t>(at.col + i % 6));
        pixel[i] = h < c.src_h && w < c.src_w ? image + (h * c.src_w + w) * in : zeros;
      }
      TileToPoints(p, pixel, points + t * p.width);
    }
    for (size_t o = 0; o < c.dst_channels; o += together) {
      const size_t outs = std::min(together, c.dst_channels - o);
      for (size_t point = 0; point < kSquare; ++point) {
        for (size_t k = 0; k < in; k += kChain) {
          for (size_t j = 0; j < outs; j += panel) {
            const T* const filter =
                filters + (o + j) / panel * panel_elements + (point * in + k) * panel;
            for (size_t t = 0; t < tiles; t += kTileRows) {
              ProductRows(std::min<size_t>(kTileRows, tiles - t), std::min(kChain, in - k),
                          points + point * p.point + t * p.width + k, p.width, filter,
                          products + point * p.made + t * together + j, together, panel, k == 0);
            }
          }
        }
      }
      for (size_t t = 0; t < tiles; ++t) {
        const Place at = place(first + t);
        TileFromPoints(p, products + t * together, bias ? bias + o : nullptr, outs,
                       dst + at.image * c.dst_image + at.row * c.dst_row + at.col * c.dst_col + o,
                       std::min(kOut, c.dst_h - at.row), std::min(kOut, c.dst_w - at.col));
      }
    }
  }
}

template <class T>
void Winograd(const WinogradPlan& p, const CorrelationWeights& at, const T* src, const T* w,
              const T* bias, T* dst, std::byte* scratch) {
  const size_t panel = 2 * TileLanes<T>(), panels = (p.c.dst_channels + panel - 1) / panel;
  const size_t elements = kSquare * p.c.src_channels * panel;
  pool::parallel_for(panels, 1 + 16384 / elements, [&](size_t b, size_t e) {
    for (size_t i = b; i < e; ++i)
      FilterPanel(p, at, w, i * panel, reinterpret_cast<T*>(scratch) + i * elements);
  });
  std::memset(scratch + p.filter_bytes, 0, p.zero_bytes);
  const size_t blocks = (p.tiles() + p.block - 1) / p.block;
  const size_t work = p.block * kSquare * p.c.src_channels * p.c.dst_channels;
  pool::parallel_for(blocks, 1 + 60000 / work,
                     [&](size_t b, size_t e) { WinogradBlocks(p, src, bias, dst, scratch, b, e); });
}

void WinogradF32(const WinogradPlan& p, const CorrelationWeights& at, const float* src,
                 const float* w, const float* bias, float* dst, std::byte* scratch) {
  Winograd(p, at, src, w, bias, dst, scratch);
}
void WinogradF64(const WinogradPlan& p, const CorrelationWeights& at, const double* src,
                 const double* w, const double* bias, double* dst, std::byte* scratch) {
  Winograd(p, at, src, w, bias, dst, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels::conv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels::conv {

HWY_EXPORT(WinogradF32);
HWY_EXPORT(WinogradF64);

bool by_winograd(const Correlation& c) {
  const bool kind = c.groups == 1 && c.taps_h == 3 && c.taps_w == 3 && c.stride_h == 1 &&
                    c.stride_w == 1 && c.step_h == 1 && c.step_w == 1 && c.dst_h * c.dst_w > 0;
  if (!kind) return false;
  return winograd_work(c) < static_cast<double>(c.dst_h * c.dst_w * c.chain() * c.dst_channels);
}

double winograd_work(const Correlation& c) {
  constexpr std::size_t kWay =
      200;  // of a channel to its points, or back: as many as take its time
  const std::size_t in = c.src_channels, out = c.dst_channels;
  const std::size_t tiles = (c.dst_h + kOut - 1) / kOut * ((c.dst_w + kOut - 1) / kOut);
  return static_cast<double>(tiles * (kSquare * in * out + kWay * (in + out)));
}

template <class T>
void winograd(const Correlation& c, const CorrelationWeights& at, const T* src, const T* w,
              const T* bias, T* dst, std::span<std::byte> scratch) {
  if (c.images == 0) return;
  const WinogradPlan plan = plan_winograd(c, sizeof(T));
  if constexpr (sizeof(T) == sizeof(float)) {
    HWY_DYNAMIC_DISPATCH(WinogradF32)(plan, at, src, w, bias, dst, scratch.data());
  } else {
    HWY_DYNAMIC_DISPATCH(WinogradF64)(plan, at, src, w, bias, dst, scratch.data());
  }
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
