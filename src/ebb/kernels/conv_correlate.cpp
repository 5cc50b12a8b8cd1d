#include "ebb/kernels/conv_correlate.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/conv_correlate.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/conv_block.hpp"
#include "ebb/kernels/conv_patch-inl.hpp"
#include "ebb/kernels/float_dispatch.hpp"
#include "ebb/kernels/lambda-inl.hpp"
#include "ebb/kernels/tile-inl.hpp"

#ifndef EBB_KERNELS_CONV_CORRELATE_PLAN_
#define EBB_KERNELS_CONV_CORRELATE_PLAN_
namespace ebb::kernels::conv {

// Longest part of a chain done at a stretch: a panel of 256 × 16 floats takes half of L1.
constexpr std::size_t kChainPart = 256;
constexpr std::size_t kPatchBytes = 128 << 10;

// How a correlation is carried out, and where its scratch lies. Scratch: packed weights of all
// groups, the tap offsets, then for each thread the two tables of a block and its patch.
struct CorrelationPlan {
  Correlation c;
  ConvBlocks blocks;
  bool even;    // places are evenly spaced in src and in dst
  bool direct;  // every tap is inside the source: read it where it is
  std::size_t patch_h, patch_w;
  std::size_t run, runs;     // a window is `runs` stretches of `run` consecutive elements
  std::size_t packed_group;  // elements of one group's packed weights
  std::size_t packed_bytes, runs_bytes, table_bytes, thread_bytes, total_bytes;

  std::size_t src_pitch() const { return c.groups * c.src_channels; }
  std::size_t pixel() const { return direct ? src_pitch() : c.src_channels; }
  std::size_t row() const { return pixel() * (direct ? c.src_w : patch_w); }
  std::size_t image() const { return row() * (direct ? c.src_h : patch_h); }
};

inline CorrelationPlan plan_correlation(Correlation c, std::size_t element_bytes) {
  CorrelationPlan p{};
  const auto inside = [](std::ptrdiff_t origin, std::size_t extent, std::size_t size) {
    return origin >= 0 && static_cast<std::size_t>(origin) + extent <= size;
  };
  const std::size_t all_h = ConvPatch::extent(c.dst_h, c.stride_h, c.taps_h, c.step_h);
  const std::size_t all_w = ConvPatch::extent(c.dst_w, c.stride_w, c.taps_w, c.step_w);
  p.direct = inside(c.origin_h, all_h, c.src_h) && inside(c.origin_w, all_w, c.src_w);
  const bool pointwise = p.direct && c.taps_h == 1 && c.taps_w == 1 && c.stride_h == 1 &&
                         c.stride_w == 1 && c.src_h == c.dst_h && c.src_w == c.dst_w &&
                         c.dst_row == c.dst_w * c.dst_col && c.dst_image == c.dst_h * c.dst_row;
  if (pointwise) {  // one column of pixels: blocks may then be cut anywhere
    c.src_h = c.dst_h = c.images * c.dst_h * c.dst_w;
    c.images = c.src_w = c.dst_w = 1;
    c.dst_row = c.dst_col;
  }
  p.even = pointwise;
  p.c = c;

  const std::size_t src_bytes = c.stride_h * c.stride_w * c.src_channels * element_bytes;
  const std::size_t dst_bytes = c.dst_channels * element_bytes;
  const std::size_t place_bytes = std::max({src_bytes, dst_bytes, std::size_t{1}});
  std::size_t most = std::clamp<std::size_t>(kPatchBytes / place_bytes, 48, 384);
  const std::size_t threads = static_cast<std::size_t>(pool::threads());
  const auto cut = [&] { p.blocks = ConvBlocks::cut(c.images, c.dst_h, c.dst_w, most); };
  for (cut(); threads > 1 && most > 24 && p.blocks.count() * c.groups < 4 * threads;) {
    most /= 2;
    cut();
  }
  p.patch_h = ConvPatch::extent(p.blocks.block_rows, c.stride_h, c.taps_h, c.step_h);
  p.patch_w = ConvPatch::extent(p.blocks.block_cols, c.stride_w, c.taps_w, c.step_w);

  const bool joined = c.step_w == 1 && p.pixel() == c.src_channels;
  p.run = c.src_channels * (joined ? c.taps_w : 1);
  p.runs = c.taps_h * (joined ? 1 : c.taps_w);
  if (p.run == 0) p.runs = 0;

  const std::size_t widest = 64 / element_bytes;  // lanes of the widest target
  p.packed_group = (c.chain() + 1) * round_up(c.dst_channels, widest);
  p.packed_bytes = round_up(p.packed_group * c.groups * element_bytes, 64);
  p.runs_bytes = round_up(p.runs * sizeof(std::ptrdiff_t), 64);
  p.table_bytes = round_up(p.blocks.places() * sizeof(std::ptrdiff_t), 64);
  const std::size_t patch = p.direct ? 0 : p.blocks.block_images * p.image() * element_bytes;
  p.thread_bytes = 2 * p.table_bytes + round_up(patch, 64);
  p.total_bytes = p.packed_bytes + p.runs_bytes + threads * p.thread_bytes;
  return p;
}

}  // namespace ebb::kernels::conv
#endif  // EBB_KERNELS_CONV_CORRELATE_PLAN_

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::conv {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace tiles = kernels::HWY_NAMESPACE;

// Output channels are worked on in panels of two vectors, the last of one where that is enough. A
// panel's weights lie as (1 + chain) × width: its first row is where the chains start.
constexpr size_t kPanelVectors = 2;
constexpr size_t kTilePlaces = 6;

template <class T>
HWY_INLINE size_t panel_width(size_t channels_left) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  return channels_left > lanes ? kPanelVectors * lanes : lanes;
}

template <class T>
void pack_panel(const CorrelationPlan& p, const CorrelationWeights& at, const T* w, const T* bias,
                size_t group, size_t first, T* HWY_RESTRICT to) {
  const Correlation& c = p.c;
  const size_t width = panel_width<T>(c.dst_channels - first);
  const size_t valid = std::min(width, c.dst_channels - first);
  fill_zero(to, width);
  if (bias != nullptr) {
    std::memcpy(to, bias + group * c.dst_channels + first, valid * sizeof(T));
  }
  to += width;
  const T* base = w + at.base + static_cast<ptrdiff_t>(group) * at.group +
                  static_cast<ptrdiff_t>(first) * at.out;
  for (size_t th = 0; th < c.taps_h; ++th) {
    for (size_t tw = 0; tw < c.taps_w; ++tw) {
      const T* from =
          base + static_cast<ptrdiff_t>(th) * at.tap_h + static_cast<ptrdiff_t>(tw) * at.tap_w;
      for (size_t k = 0; k < c.src_channels; ++k, to += width) {
        const T* line = from + static_cast<ptrdiff_t>(k) * at.in;
        for (size_t o = 0; o < valid; ++o) to[o] = line[static_cast<ptrdiff_t>(o) * at.out];
        for (size_t o = valid; o < width; ++o) to[o] = T{0};
      }
    }
  }
}

// One stretch of the chains of a block: windows' runs [0, runs) at `offsets`, elements
// [0, length) of each.
template <class T>
struct Stretch {
  const T* src;  // of the block's first place
  const ptrdiff_t* offsets;
  size_t runs, length;
  const T* panel;
  T* dst;
  const ptrdiff_t *src_table, *dst_table;  // where each place's window and output lie
  bool spaced;  // each place is at least a stride after the one before, so that a tile whose ends
                // are five strides apart is evenly spaced
  size_t src_stride, dst_stride;  // or, for even places, how far apart they are
};

// MR places × NV vectors of output channels. Chains begin at `start` or, where null, at dst; row r
// of dst is out(r). kEven: the places are evenly spaced from `first` on.
template <int MR, int NV, bool kEven, class T, class Out>
HWY_INLINE void correlate_chain(const Stretch<T>& s, size_t place, const T* first, const T* start,
                                Out out) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  V acc[MR][NV];
  if (start != nullptr) {
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::LoadU(d, start + v * lanes);
    }
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::LoadU(d, out(r) + v * lanes);
    }
  }
  tiles::RowsAcross<T> weights(s.panel, NV * lanes);
  tiles::tile_fence();
  if constexpr (kEven) {
    for (size_t i = 0; i < s.runs; ++i) {
      tiles::RowsAlong<MR, T> seen(first + s.offsets[i], s.src_stride);
      tiles::tile_run<T>(acc, s.length, seen, weights);
    }
  } else {
    const ptrdiff_t* const table = s.src_table + place;
    for (size_t i = 0; i < s.runs; ++i) {
      const T* const from = s.src + s.offsets[i];
      tiles::RowsApart<MR, T> seen;
#pragma GCC unroll 8
      for (int r = 0; r < MR; ++r) seen.row[r] = from + table[r];
      tiles::tile_run<T>(acc, s.length, seen, weights);
    }
  }
  tiles::tile_fence();
#pragma GCC unroll 8
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) hn::StoreU(acc[r][v], d, out(r) + v * lanes);
  }
}

// As correlate_chain, where only the first `valid` channels belong to dst.
template <int MR, int NV, bool kEven, class T>
HWY_INLINE void correlate_tile(const Stretch<T>& s, size_t place, const T* first, T* first_out,
                               const T* start, size_t valid) {
  const hn::ScalableTag<T> d;
  const auto out = [&](int r) HWY_ATTR {
    return kEven ? first_out + r * s.dst_stride : s.dst + s.dst_table[place + r];
  };
  if (HWY_LIKELY(valid == NV * hn::Lanes(d))) {
    return correlate_chain<MR, NV, kEven, T>(s, place, first, start, out);
  }
  constexpr size_t kMost = hn::MaxLanes(d) * NV;
  HWY_ALIGN T edge[MR * kMost] = {};
  for (int r = 0; r < MR && start == nullptr; ++r) {
    std::memcpy(edge + r * kMost, out(r), valid * sizeof(T));
  }
  correlate_chain<MR, NV, kEven, T>(s, place, first, start,
                                    [&](int r) HWY_ATTR { return edge + r * kMost; });
  for (int r = 0; r < MR; ++r) std::memcpy(out(r), edge + r * kMost, valid * sizeof(T));
}

template <int NV, bool kEven, class T>
HWY_INLINE void correlate_last(const Stretch<T>& s, size_t place, size_t count, const T* first,
                               T* first_out, const T* start, size_t valid) {
  if (count == 0) return;
  tiles::static_switch<tiles::kTileRows - 1>(count, [&]<int MR>() EBB_LAMBDA {
    correlate_tile<MR, NV, kEven, T>(s, place, first, first_out, start, valid);
  });
}

// All places evenly spaced.
template <int NV, class T>
HWY_NOINLINE void correlate_even(const Stretch<T>& s, size_t places, const T* start, size_t valid) {
  const T* first = s.src;
  T* out = s.dst;
  size_t i = 0;
  for (; i + kTilePlaces <= places; i += kTilePlaces) {
    correlate_tile<kTilePlaces, NV, true, T>(s, i, first, out, start, valid);
    first += kTilePlaces * s.src_stride;
    out += kTilePlaces * s.dst_stride;
  }
  correlate_last<NV, true, T>(s, i, places - i, first, out, start, valid);
}

// Places by table; a tile within one row of places is evenly spaced still.
template <int NV, class T>
HWY_NOINLINE void correlate_tabled(const Stretch<T>& s, size_t places, const T* start,
                                   size_t valid) {
  constexpr size_t kLast = kTilePlaces - 1;
  const ptrdiff_t src_span = static_cast<ptrdiff_t>(kLast * s.src_stride);
  const ptrdiff_t dst_span = static_cast<ptrdiff_t>(kLast * s.dst_stride);
  size_t i = 0;
  for (; i + kTilePlaces <= places; i += kTilePlaces) {
    const T* first = s.src + s.src_table[i];
    T* out = s.dst + s.dst_table[i];
    if (s.spaced && s.src_table[i + kLast] - s.src_table[i] == src_span &&
        s.dst_table[i + kLast] - s.dst_table[i] == dst_span) {
      correlate_tile<kTilePlaces, NV, true, T>(s, i, first, out, start, valid);
    } else {
      correlate_tile<kTilePlaces, NV, false, T>(s, i, first, out, start, valid);
    }
  }
  correlate_last<NV, false, T>(s, i, places - i, nullptr, nullptr, start, valid);
}

// A part of the next block's places, asked for: the pixels to write and, where the source is read
// in place, those to read. Of pixels that lie apart the machine does not foresee the next.
template <class T>
struct NextPlaces {
  const T* src = nullptr;
  const T* dst = nullptr;  // null: there is nothing to ask for
  size_t src_bytes = 0, dst_bytes = 0, places = 0, each = 0, at = 0;

  HWY_INLINE void ask(const Stretch<T>& s) {
    for (const size_t end = std::min(places, at + each); at < end; ++at) {
      const char* to = reinterpret_cast<const char*>(dst + s.dst_table[at]);
      for (size_t i = 0; i < dst_bytes; i += 64) __builtin_prefetch(to + i, 1, 2);
      if (src == nullptr) continue;
      const char* from = reinterpret_cast<const char*>(src + s.src_table[at]);
      for (size_t i = 0; i < src_bytes; i += 64) __builtin_prefetch(from + i, 0, 2);
    }
  }
};
constexpr size_t kAskEvery = 8 * kTilePlaces;  // places

template <int NV, class T>
void correlate_places(const CorrelationPlan& p, Stretch<T> s, size_t places, const T* start,
                      size_t valid, NextPlaces<T>& next) {
  if (p.even) return correlate_even<NV, T>(s, places, start, valid);
  if (next.dst == nullptr) return correlate_tabled<NV, T>(s, places, start, valid);
  const Stretch<T> all = s;
  for (size_t i = 0; i < places; i += kAskEvery) {
    next.ask(all);
    s.src_table = all.src_table + i;
    s.dst_table = all.dst_table + i;
    correlate_tabled<NV, T>(s, std::min(kAskEvery, places - i), start, valid);
  }
}

// All output channels of a block, one stretch of the chains after another so that the weights of a
// stretch stay in L1 for all the block's places.
template <class T>
void correlate_block(const CorrelationPlan& p, Stretch<T> s, const ptrdiff_t* offsets,
                     const T* packed, size_t places, NextPlaces<T> next) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  const size_t pieces = std::max<size_t>(1, ceil_div(p.run, kChainPart));
  const size_t piece = ceil_div(p.run, pieces);
  const size_t joined =
      pieces > 1 ? 1 : std::max<size_t>(1, kChainPart / std::max<size_t>(1, p.run));
  const T* src = s.src;
  T* const dst = s.dst;
  size_t run = 0, from = 0, done = 0;
  if (next.dst != nullptr && p.runs != 0) {
    const size_t stretches = pieces > 1 ? p.runs * pieces : ceil_div(p.runs, joined);
    const size_t panels = ceil_div(p.c.dst_channels, kPanelVectors * lanes);
    const size_t times = stretches * panels * ceil_div(places, kAskEvery);
    next.places = places;
    next.each = ceil_div(places, times);
  }
  do {
    s.runs = std::min(joined, p.runs - run);
    s.length = std::min(piece, p.run - from);
    s.offsets = offsets + run;
    s.src = src + from;
    const T* panel = packed;
    for (size_t o = 0; o < p.c.dst_channels;) {
      const size_t width = panel_width<T>(p.c.dst_channels - o);
      const size_t valid = std::min(width, p.c.dst_channels - o);
      const T* start = done == 0 ? panel : nullptr;
      s.panel = panel + (1 + done) * width;
      s.dst = dst + o;
      if (width == lanes) {
        correlate_places<1, T>(p, s, places, start, valid, next);
      } else {
        correlate_places<2, T>(p, s, places, start, valid, next);
      }
      panel += (1 + p.c.chain()) * width;
      o += valid;
    }
    done += s.runs * s.length;
    from += s.length;
    if (from >= p.run) {
      from = 0;
      run += s.runs;
    }
  } while (run < p.runs);
}

template <class T>
void correlate_blocks(const CorrelationPlan& p, const T* src, T* dst, std::byte* scratch,
                      size_t begin, size_t end) {
  const Correlation& c = p.c;
  const T* packed = reinterpret_cast<const T*>(scratch);
  const auto* offsets = reinterpret_cast<const ptrdiff_t*>(scratch + p.packed_bytes);
  std::byte* mine = scratch + p.packed_bytes + p.runs_bytes +
                    static_cast<size_t>(pool::thread_index()) * p.thread_bytes;
  auto* src_table = reinterpret_cast<ptrdiff_t*>(mine);
  auto* dst_table = reinterpret_cast<ptrdiff_t*>(mine + p.table_bytes);
  T* patch = reinterpret_cast<T*>(mine + 2 * p.table_bytes);

  const size_t per_group = p.blocks.count();
  const ptrdiff_t pixel = static_cast<ptrdiff_t>(p.pixel()), row = static_cast<ptrdiff_t>(p.row()),
                  image = static_cast<ptrdiff_t>(p.image());
  const ptrdiff_t src_stride = static_cast<ptrdiff_t>(p.even ? p.row() : p.pixel() * c.stride_w);
  const ptrdiff_t dst_stride = static_cast<ptrdiff_t>(p.even ? c.dst_row : c.dst_col);
  const size_t image_elements = c.src_h * c.src_w * p.src_pitch();
  const auto image_of = [&](size_t group, const ConvBlock& b) {
    return src + group * c.src_channels + b.image * image_elements;
  };
  const auto top_of = [&](const ConvBlock& b) {
    return c.origin_h + static_cast<ptrdiff_t>(b.row * c.stride_h);
  };
  const auto left_of = [&](const ConvBlock& b) {
    return c.origin_w + static_cast<ptrdiff_t>(b.col * c.stride_w);
  };
  const auto seen_by = [&](size_t group, const ConvBlock& b) {  // where the source is read in place
    return image_of(group, b) + top_of(b) * row + left_of(b) * pixel;
  };
  const auto out_of = [&](size_t group, const ConvBlock& b) {
    return dst + group * c.dst_channels + b.image * c.dst_image + b.row * c.dst_row +
           b.col * c.dst_col;
  };
  const bool apart = !p.even && (c.dst_col != c.groups * c.dst_channels ||
                                 (p.direct && c.stride_h * c.stride_w > 1));
  ConvBlock tabled{};
  bool spaced = true;
  for (size_t u = begin; u < end; ++u) {
    const size_t group = u / per_group;
    const ConvBlock b = p.blocks.at(u % per_group);
    if (!p.even && !b.same_size(tabled)) {
      tabled = b;
      size_t place = 0;
      for (size_t n = 0; n < b.images; ++n) {
        for (size_t i = 0; i < b.rows; ++i) {
          for (size_t j = 0; j < b.cols; ++j, ++place) {
            src_table[place] = static_cast<ptrdiff_t>(n) * image +
                               static_cast<ptrdiff_t>(i * c.stride_h) * row +
                               static_cast<ptrdiff_t>(j * c.stride_w) * pixel;
            dst_table[place] =
                static_cast<ptrdiff_t>(n * c.dst_image + i * c.dst_row + j * c.dst_col);
          }
        }
      }
      spaced = true;
      for (size_t i = 1; i < place; ++i) {
        spaced = spaced && src_table[i] - src_table[i - 1] >= src_stride &&
                 dst_table[i] - dst_table[i - 1] >= dst_stride;
      }
    }
    Stretch<T> s{};
    s.src_table = src_table;
    s.dst_table = dst_table;
    s.spaced = spaced;
    s.src_stride = static_cast<size_t>(src_stride);
    s.dst_stride = static_cast<size_t>(dst_stride);
    s.dst = out_of(group, b);
    if (p.direct) {
      s.src = seen_by(group, b);
    } else {
      const T* from = image_of(group, b);
      const ptrdiff_t top = top_of(b), left = left_of(b);
      for (size_t n = 0; n < b.images; ++n) {
        fill_patch(from + n * image_elements, c.src_h, c.src_w, p.src_pitch(), top, left, p.patch_h,
                   p.patch_w, c.src_channels, c.src_channels, patch + n * p.image());
      }
      s.src = patch;
    }
    NextPlaces<T> next;
    if (apart && u + 1 < end && (u + 1) / per_group == group) {
      const ConvBlock a = p.blocks.at(u % per_group + 1);
      if (a.same_size(b)) {
        next.dst = out_of(group, a);
        next.dst_bytes = c.dst_channels * sizeof(T);
        if (p.direct) {
          next.src = seen_by(group, a);
          next.src_bytes = c.src_channels * sizeof(T);
        }
      }
    }
    correlate_block(p, s, offsets, packed + group * p.packed_group, b.places(), next);
  }
}

template <class T>
void run_correlation(const CorrelationPlan& p, const CorrelationWeights& at, const T* src,
                     const T* w, const T* bias, T* dst, std::byte* scratch) {
  const Correlation& c = p.c;
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  const size_t panels = ceil_div(c.dst_channels, kPanelVectors * lanes);
  const size_t panel_elements = (1 + c.chain()) * kPanelVectors * lanes;
  T* packed = reinterpret_cast<T*>(scratch);
  pool::parallel_for(panels * c.groups, 1 + 32768 / panel_elements, [&](size_t b, size_t e) {
    for (size_t i = b; i < e; ++i) {
      const size_t group = i / panels, panel = i % panels;
      pack_panel(p, at, w, bias, group, panel * kPanelVectors * lanes,
                 packed + group * p.packed_group + panel * panel_elements);
    }
  });
  auto* offsets = reinterpret_cast<ptrdiff_t*>(scratch + p.packed_bytes);
  const size_t across = c.taps_h == 0 ? 0 : p.runs / c.taps_h;
  for (size_t i = 0; i < p.runs; ++i) {
    offsets[i] =
        static_cast<ptrdiff_t>(i / across * c.step_h * p.row() + i % across * c.step_w * p.pixel());
  }
  const size_t work = p.blocks.places() * (c.chain() + 1) * c.dst_channels;
  const size_t units = p.blocks.count() * c.groups;
  const size_t share = units / (8 * static_cast<size_t>(pool::threads()));
  const size_t grain = std::max(share, 1 + 60000 / std::max<size_t>(1, work));
  pool::parallel_for(units, grain,
                     [&](size_t b, size_t e) { correlate_blocks(p, src, dst, scratch, b, e); });
}

EBB_FLOAT_TARGETS(correlate, run_correlation);

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels::conv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels::conv {

EBB_FLOAT_EXPORT(correlate);

template <class T>
void correlate(const Correlation& c, const CorrelationWeights& at, const T* src, const T* w,
               const T* bias, T* dst, std::span<std::byte> scratch) {
  if (c.images * c.dst_h * c.dst_w * c.dst_channels == 0) return;
  const CorrelationPlan plan = plan_correlation(c, sizeof(T));
  EBB_FLOAT_DISPATCH(T, correlate)(plan, at, src, w, bias, dst, scratch.data());
}
template void correlate<float>(const Correlation&, const CorrelationWeights&, const float*,
                               const float*, const float*, float*, std::span<std::byte>);
template void correlate<double>(const Correlation&, const CorrelationWeights&, const double*,
                                const double*, const double*, double*, std::span<std::byte>);

template <class T>
std::size_t correlate_scratch_bytes(const Correlation& c) {
  if (c.images * c.dst_h * c.dst_w * c.dst_channels == 0) return 0;
  return plan_correlation(c, sizeof(T)).total_bytes;
}
template std::size_t correlate_scratch_bytes<float>(const Correlation&);
template std::size_t correlate_scratch_bytes<double>(const Correlation&);

}  // namespace ebb::kernels::conv
#endif  // HWY_ONCE
