#include "ebb/kernels/conv_weight_grad.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/conv_weight_grad.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <cstring>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/conv_block.hpp"
#include "ebb/kernels/conv_patch-inl.hpp"
#include "ebb/kernels/lambda-inl.hpp"
#include "ebb/kernels/tile-inl.hpp"

#ifndef EBB_KERNELS_CONV_WEIGHT_GRAD_PLAN_
#define EBB_KERNELS_CONV_WEIGHT_GRAD_PLAN_
namespace ebb::kernels::conv {

// Scratch: for each thread a patch of x (some channels of a block) and a copy of the block's dy.
struct WeightGradPlan {
  Conv2dShape s;
  ConvBlocks blocks;
  std::size_t in_c, out_c;  // of one group
  std::size_t patch_h, patch_w;
  bool inside;           // windows of one tap, all inside x
  std::size_t dy_pitch;  // of the copy; 0: dy is read where it is
  std::size_t patch_bytes, thread_bytes;
};

inline WeightGradPlan plan_weight_grad(const Conv2dShape& s, std::size_t element_bytes) {
  WeightGradPlan p{};
  p.s = s;
  p.in_c = s.in_c / s.groups;
  p.out_c = s.out_c / s.groups;
  // A block's patch and a tile's part of dy (a cache line a place) share L1.
  p.blocks =
      ConvBlocks::cut(s.batch, s.out_h(), s.out_w(), s.stride_h * s.stride_w > 1 ? 128 : 256);
  p.patch_h = ConvPatch::extent(p.blocks.block_rows, s.stride_h, s.kernel_h, s.dilation_h);
  p.patch_w = ConvPatch::extent(p.blocks.block_cols, s.stride_w, s.kernel_w, s.dilation_w);
  p.inside = s.kernel_h == 1 && s.kernel_w == 1 && s.pad_top + s.pad_left == 0 &&
             (s.out_h() - 1) * s.stride_h < s.in_h && (s.out_w() - 1) * s.stride_w < s.in_w;
  // Places a multiple of many cache lines apart fall into the same one or two sets of L1: they are
  // copied to an odd number of lines. (At 256 to 1024 bytes copying costs more than it saves.)
  const std::size_t line = 64 / element_bytes;
  if (s.out_c >= 32 * line && s.out_c % (4 * line) == 0)
    p.dy_pitch = round_up(p.out_c, line) + line;
  const std::size_t width = (s.kernel_w == 1 ? 2 : 1) * line;
  const std::size_t slack = 4 * line;  // the last place's vectors may reach beyond the patch
  p.patch_bytes = (p.blocks.block_images * p.patch_h * p.patch_w * width + slack) * element_bytes;
  p.patch_bytes = round_up(p.patch_bytes, 64);
  p.thread_bytes = p.patch_bytes + p.blocks.places() * p.dy_pitch * element_bytes;
  return p;
}

}  // namespace ebb::kernels::conv
#endif  // EBB_KERNELS_CONV_WEIGHT_GRAD_PLAN_

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::conv {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace tiles = kernels::HWY_NAMESPACE;

// The input side is worked on in chunks of channels. What one tap row sees of a chunk is a row of
// `vectors` vectors: vector v starts v * patch_step after the window's first pixel, and its sums
// belong at v * dw_step in dw. Three kinds:
//   few channels:  all taps of the row and their channels lie side by side, in patch and in dw
//   many, KW > 1:  a chunk is one vector of channels, and vector v is tap v
//   many, KW = 1:  a chunk is up to two vectors of channels
struct Chunking {
  size_t width;  // channels of a full chunk
  size_t chunks;
  size_t patch_step, dw_step;
  bool few;
};

template <class T>
Chunking make_chunking(const WeightGradPlan& p) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  const Conv2dShape& s = p.s;
  if (p.in_c < lanes && s.dilation_w == 1) return {p.in_c, 1, lanes, lanes, true};
  if (s.kernel_w > 1) {
    return {lanes, ceil_div(p.in_c, lanes), s.dilation_w * lanes, p.in_c, false};
  }
  return {2 * lanes, ceil_div(p.in_c, 2 * lanes), lanes, lanes, false};
}

// Pieces of memory, asked for a line at a time.
struct Pieces {
  const char* at;
  const char* end;  // of the piece at hand
  size_t bytes, pitch, left;

  // Some elements of each of `count` pixels, `pitch` elements apart; of short pixels, all.
  template <class T>
  static Pieces of(const T* first, size_t elements, size_t pitch, size_t count) {
    if (elements == 0) return {};
    if (elements == pitch || pitch * sizeof(T) <= 128) elements = pitch * count, count = 1;
    const char* at = reinterpret_cast<const char*>(first);
    const size_t bytes = elements * sizeof(T);
    return {at, at + bytes, bytes, pitch * sizeof(T), count};
  }
  size_t lines() const { return left * ceil_div(bytes, 64); }
  HWY_INLINE void ask() {
    if (left == 0) return;
    __builtin_prefetch(at, 0, 2);
    at += 64;
    if (at < end) return;
    --left;
    end += pitch;
    at = end - bytes;
  }
};

// What the next block reads, asked for a few lines at a time while this one is computed, between
// rows of places. Activations come from memory, and the machine's own prefetching stops at the edge
// of a page, which is a few pixels of many channels.
struct NextBlock {
  Pieces x, dy;
  size_t x_lines, dy_lines;  // at a time

  void spread(size_t times) {
    x_lines = ceil_div(x.lines(), times);
    dy_lines = ceil_div(dy.lines(), times);
  }
  bool any() const { return x_lines + dy_lines != 0; }
  HWY_INLINE void ask() {
    for (size_t i = 0; i < x_lines; ++i) x.ask();
    for (size_t i = 0; i < dy_lines; ++i) dy.ask();
  }
};

// What the tiles of one block, chunk and tap row have in common.
template <class T>
struct GradStretch {
  NextBlock* next;  // null: nothing to ask for
  size_t images, rows, cols;
  const T* dy;
  size_t dy_pitch;
  const T* x;
  size_t x_col, x_row, x_image;  // from one place to the next
  size_t x_step;
  T* dw;
  size_t dw_row, dw_step;
  bool from_zero;
};

// MR output channels × NV vectors, one chain each over the block's places.
template <int MR, int NV, class T>
HWY_INLINE void grad_chain(const GradStretch<T>& s, const T* dy, const T* x, T* dw, size_t dw_row,
                           size_t dw_step) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  V acc[MR][NV];
  if (s.from_zero) {
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::Zero(d);
    }
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::LoadU(d, dw + r * dw_row + v * dw_step);
    }
  }
  tiles::RowsAcross<T> slopes(dy, s.dy_pitch);
  tiles::VectorsApart<NV, T> seen{{}, s.x_col, s.x_col * sizeof(T), 3 * s.x_col * sizeof(T)};
  NextBlock* const next = s.next;
  tiles::tile_fence();
  for (size_t n = 0; n < s.images; ++n) {
    for (size_t i = 0; i < s.rows; ++i) {
      const T* b = x + n * s.x_image + i * s.x_row;
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) seen.first[v] = b + v * s.x_step;
      if (next != nullptr) next->ask();
      tiles::tile_run<T>(acc, s.cols, slopes, seen);
    }
  }
  tiles::tile_fence();
#pragma GCC unroll 8
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) hn::StoreU(acc[r][v], d, dw + r * dw_row + v * dw_step);
  }
}

// As grad_chain, where only valid[v] elements of vector v belong to dw.
template <int MR, int NV, class T>
HWY_NOINLINE void grad_tile(const GradStretch<T>& s, size_t co, const T* x, T* dw,
                            const size_t* valid) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  bool whole = true;
  for (int v = 0; v < NV; ++v) whole = whole && valid[v] == lanes;
  dw += co * s.dw_row;
  if (whole) return grad_chain<MR, NV, T>(s, s.dy + co, x, dw, s.dw_row, s.dw_step);
  constexpr size_t kMost = hn::MaxLanes(hn::ScalableTag<T>());
  HWY_ALIGN T edge[MR * NV * kMost] = {};
  for (int i = 0; i < MR * NV && !s.from_zero; ++i) {
    const T* from =
        dw + static_cast<size_t>(i / NV) * s.dw_row + static_cast<size_t>(i % NV) * s.dw_step;
    std::memcpy(edge + static_cast<size_t>(i) * kMost, from, valid[i % NV] * sizeof(T));
  }
  grad_chain<MR, NV, T>(s, s.dy + co, x, edge, NV * kMost, kMost);
  for (int i = 0; i < MR * NV; ++i) {
    T* to = dw + static_cast<size_t>(i / NV) * s.dw_row + static_cast<size_t>(i % NV) * s.dw_step;
    std::memcpy(to, edge + static_cast<size_t>(i) * kMost, valid[i % NV] * sizeof(T));
  }
}

// `rows` output channels from `co` on, in tiles as even as can be.
template <int NV, class T>
void grad_column(const GradStretch<T>& s, size_t co, size_t rows, const T* x, T* dw,
                 const size_t* valid) {
  constexpr int kMost = NV == 3 ? 4 : tiles::kTileRows;
  for (size_t left = ceil_div(rows, kMost); left > 0; --left) {
    const size_t mr = ceil_div(rows, left);
    tiles::static_switch<kMost>(
        mr, [&]<int MR>() EBB_LAMBDA { grad_tile<MR, NV, T>(s, co, x, dw, valid); });
    co += mr;
    rows -= mr;
  }
}

// One tap row of a chunk, for output channels [co, co + rows).
template <class T>
void grad_row(const GradStretch<T>& s, size_t co, size_t rows, size_t vectors, size_t elements,
              bool all_alike) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  for (size_t v = 0; v < vectors;) {
    const size_t left = vectors - v;
    const size_t nv = left == 4 ? 2 : std::min<size_t>(left, 3);
    size_t valid[3];
    for (size_t i = 0; i < nv; ++i) {
      valid[i] = all_alike ? elements : std::min(lanes, elements - (v + i) * lanes);
    }
    const T* x = s.x + v * s.x_step;
    T* dw = s.dw + v * s.dw_step;
    if (nv == 3) {
      grad_column<3, T>(s, co, rows, x, dw, valid);
    } else if (nv == 2) {
      grad_column<2, T>(s, co, rows, x, dw, valid);
    } else {
      grad_column<1, T>(s, co, rows, x, dw, valid);
    }
    v += nv;
  }
}

// What one thread makes: chunks [chunk, chunk_end) × output channels [co, co + rows) of a group.
struct GradPart {
  size_t group, chunk, chunk_end, co, rows;
};

template <class T>
NextBlock what_comes(const WeightGradPlan& p, const Chunking& k, const GradPart& part, const T* x,
                     const T* dy, size_t index) {
  if (index + 1 == p.blocks.count()) return {};
  const Conv2dShape& c = p.s;
  const ConvBlock b = p.blocks.at(index), a = p.blocks.at(index + 1);
  const size_t pixel = (a.image * c.in_h + a.row * c.stride_h) * c.in_w + a.col * c.stride_w;
  const size_t pixels = (a.images > 1 ? a.images * c.in_h : a.rows * c.stride_h) * c.in_w;
  const size_t all = c.batch * c.in_h * c.in_w;
  const size_t ci = part.chunk * k.width, ci_end = std::min(part.chunk_end * k.width, p.in_c);
  const size_t place = (a.image * c.out_h() + a.row) * c.out_w() + a.col;
  NextBlock next{};
  if (pixel < all) {
    next.x = Pieces::of(x + pixel * c.in_c + part.group * p.in_c + ci, ci_end - ci, c.in_c,
                        std::min(pixels, all - pixel));
  }
  next.dy = Pieces::of(dy + place * c.out_c + part.group * p.out_c + part.co, part.rows, c.out_c,
                       a.places());
  const size_t tiles = ceil_div(part.rows, 6) * (part.chunk_end - part.chunk) * c.kernel_h;
  next.spread(std::max<size_t>(1, tiles * b.images * b.rows));
  return next;
}

template <class T>
void grad_unit(const WeightGradPlan& p, const Chunking& k, const T* x, const T* dy, T* dw,
               bool accumulate, std::byte* scratch, const GradPart& part) {
  const size_t group = part.group, co = part.co, rows = part.rows;
  const Conv2dShape& c = p.s;
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  std::byte* mine = scratch + static_cast<size_t>(pool::thread_index()) * p.thread_bytes;
  T* patch = reinterpret_cast<T*>(mine);
  T* dy_copy = reinterpret_cast<T*>(mine + p.patch_bytes);
  fill_zero(patch, p.patch_bytes / sizeof(T));
  const size_t oh = c.out_h(), ow = c.out_w(), image_elements = c.in_h * c.in_w * c.in_c;
  // One-tap windows need no patch where rows of x are short and whole vectors.
  const bool direct = p.inside && !k.few && p.in_c % lanes == 0 && c.in_c * sizeof(T) <= 128;

  for (size_t index = 0; index < p.blocks.count(); ++index) {
    const ConvBlock b = p.blocks.at(index);
    GradStretch<T> s{};
    s.images = b.images;
    s.rows = b.rows;
    s.cols = b.cols;
    s.from_zero = index == 0 && !accumulate;
    s.dw_row = c.kernel_h * c.kernel_w * p.in_c;
    s.dw_step = k.dw_step;
    s.x_step = k.patch_step;
    const T* block_dy = dy + ((b.image * oh + b.row) * ow + b.col) * c.out_c + group * p.out_c;
    if (p.dy_pitch != 0) {
      copy_rows(block_dy + co, c.out_c, rows, b.places(), p.dy_pitch, dy_copy);
      s.dy = dy_copy - co;
      s.dy_pitch = p.dy_pitch;
    } else {
      s.dy = block_dy;
      s.dy_pitch = c.out_c;
    }
    NextBlock next = what_comes(p, k, part, x, dy, index);
    s.next = next.any() ? &next : nullptr;
    const ptrdiff_t top =
        static_cast<ptrdiff_t>(b.row * c.stride_h) - static_cast<ptrdiff_t>(c.pad_top);
    const ptrdiff_t left =
        static_cast<ptrdiff_t>(b.col * c.stride_w) - static_cast<ptrdiff_t>(c.pad_left);
    for (size_t m = part.chunk; m < part.chunk_end; ++m) {
      const size_t ci = m * k.width, channels = std::min(k.width, p.in_c - ci);
      const size_t width = k.few ? channels : round_up(channels, lanes);
      const T* from = x + b.image * image_elements + group * p.in_c + ci;
      size_t pixel = width, row = p.patch_w * width, image = p.patch_h * row;
      const T* base = patch;
      if (direct) {
        pixel = c.in_c;
        row = c.in_w * pixel;
        image = image_elements;
        base = from + static_cast<size_t>(top) * row + static_cast<size_t>(left) * pixel;
      } else {
        for (size_t n = 0; n < b.images; ++n) {
          fill_patch(from + n * image_elements, c.in_h, c.in_w, c.in_c, top, left, p.patch_h,
                     p.patch_w, channels, width, patch + n * image);
        }
      }
      s.x_col = c.stride_w * pixel;
      s.x_row = c.stride_h * row;
      s.x_image = image;
      const bool taps = !k.few && c.kernel_w > 1;
      const size_t elements = taps ? channels : k.few ? c.kernel_w * channels : channels;
      const size_t vectors = taps ? c.kernel_w : ceil_div(elements, lanes);
      for (size_t kh = 0; kh < c.kernel_h; ++kh) {
        s.x = base + kh * c.dilation_h * row;
        s.dw = dw + group * p.out_c * s.dw_row + kh * c.kernel_w * p.in_c + ci;
        grad_row(s, co, rows, vectors, elements, taps);
      }
    }
  }
}

template <class T>
void run_weight_grad(const WeightGradPlan& p, const T* x, const T* dy, T* dw, bool accumulate,
                     std::byte* scratch) {
  const Chunking k = make_chunking<T>(p);
  const Conv2dShape& s = p.s;
  // Threads share the outputs of a group: `across` parts of the chunks × `down` parts of the output
  // channels, such that the largest part is smallest.
  const size_t work = s.batch * s.out_h() * s.out_w() * s.kernel_h * s.kernel_w * p.in_c * p.out_c;
  const size_t threads = static_cast<size_t>(pool::threads());
  const size_t wanted = work < 60000 ? 1 : ceil_div(threads, s.groups);
  size_t across = 1, down = 1, least = SIZE_MAX;
  for (size_t a = 1; a <= wanted; ++a) {
    const size_t o = wanted / a;
    const size_t part = ceil_div(k.chunks, a) * ceil_div(p.out_c, o);
    if (a <= k.chunks && o <= p.out_c && part <= least) {
      across = a;
      down = o;
      least = part;
    }
  }
  const size_t units = across * down;
  const auto body = [&](size_t begin, size_t end) {
    for (size_t u = begin; u < end; ++u) {
      const size_t group = u / units, a = u % units % across, o = u % units / across;
      const size_t co = o * p.out_c / down, co_end = (o + 1) * p.out_c / down;
      grad_unit(p, k, x, dy, dw, accumulate, scratch,
                {group, a * k.chunks / across, (a + 1) * k.chunks / across, co, co_end - co});
    }
  };
  pool::parallel_for(units * s.groups, work < 60000 ? units * s.groups : 1, body);
}

void weight_grad_f32(const WeightGradPlan& p, const float* x, const float* dy, float* dw,
                     bool accumulate, std::byte* scratch) {
  run_weight_grad(p, x, dy, dw, accumulate, scratch);
}
void weight_grad_f64(const WeightGradPlan& p, const double* x, const double* dy, double* dw,
                     bool accumulate, std::byte* scratch) {
  run_weight_grad(p, x, dy, dw, accumulate, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels::conv
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels::conv {

HWY_EXPORT(weight_grad_f32);
HWY_EXPORT(weight_grad_f64);

template <class T>
void weight_grad(const Conv2dShape& shape, const T* x, const T* dy, T* dw, bool accumulate,
                 std::span<std::byte> scratch) {
  const WeightGradPlan plan = plan_weight_grad(shape, sizeof(T));
  if constexpr (sizeof(T) == sizeof(float)) {
    HWY_DYNAMIC_DISPATCH(weight_grad_f32)(plan, x, dy, dw, accumulate, scratch.data());
  } else {
    HWY_DYNAMIC_DISPATCH(weight_grad_f64)(plan, x, dy, dw, accumulate, scratch.data());
  }
}
template void weight_grad<float>(const Conv2dShape&, const float*, const float*, float*, bool,
                                 std::span<std::byte>);
template void weight_grad<double>(const Conv2dShape&, const double*, const double*, double*, bool,
                                  std::span<std::byte>);

template <class T>
std::size_t weight_grad_scratch_bytes(const Conv2dShape& shape) {
  return plan_weight_grad(shape, sizeof(T)).thread_bytes *
         static_cast<std::size_t>(pool::threads());
}
template std::size_t weight_grad_scratch_bytes<float>(const Conv2dShape&);
template std::size_t weight_grad_scratch_bytes<double>(const Conv2dShape&);

}  // namespace ebb::kernels::conv
#endif  // HWY_ONCE
