// The recurrent product for a block of rows: C += A · B, with B packed for the whole call in panels
// of NV vectors, [panel][strip][k][vectors of a strip], and C in rows of padded scratch. A strip is
// what the register tile takes side by side.
//
// Forward, a panel is the same vector of units of each gate, so that all gates of a unit are ready
// together. Backward, it is NV vectors of units side by side.
//
// Around it, what lstm and gru share of a call: packing, blocks, dispatch.

#if defined(EBB_KERNELS_RECURRENT_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_RECURRENT_INL_HPP_
#undef EBB_KERNELS_RECURRENT_INL_HPP_
#else
#define EBB_KERNELS_RECURRENT_INL_HPP_
#endif

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/lambda-inl.hpp"
#include "ebb/kernels/recurrent_blocks.hpp"
#include "ebb/kernels/rows-inl.hpp"
#include "ebb/kernels/tile-inl.hpp"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Of k at a time: 16 KiB of a strip of two vectors, which stay in L1 for all rows of the block.
constexpr std::size_t kDepth = 256;
constexpr std::size_t kBackVectors = 4;

// Vectors of a strip: 12 chains (two units of latency 4 need 8), and registers left for B and an
// element of A.
constexpr int strip_of(int vectors) { return vectors == 3 ? 3 : 2; }

// MR rows × NV vectors of C in registers. A is read an element at a time; B's rows are b_k apart.
template <int MR, int NV, class T>
HWY_NOINLINE void strip_chains(std::size_t depth, const T* a, std::size_t a_row, const T* b,
                               std::size_t b_k, T* c, std::size_t c_row) {
  static_assert(kRowLanes<T> == hn::MaxLanes(hn::ScalableTag<T>()));
  tile_chain<MR, NV, T>(depth, RowsAlong<MR, T>(a, a_row), b, b_k, StridedOut<MR, T>(c, c_row),
                        false);
}

// All rows of the block × one panel of NV vectors that has `all` of k, over `depth` of them from
// `first` on: A begins there.
template <int NV, class T>
HWY_INLINE void product(std::size_t rows, std::size_t first, std::size_t depth, std::size_t all,
                        const T* a, std::size_t a_row, const T* panel, T* c, std::size_t c_row) {
  constexpr int kAcross = strip_of(NV);
  constexpr std::size_t kTall = 12 / kAcross;
  const std::size_t lanes = hn::Lanes(RowTag<T>()), width = kAcross * lanes;
  const std::size_t tiles = ceil_div(rows, kTall);
  for (std::size_t k = 0; k < depth; k += kDepth) {
    const std::size_t kc = HWY_MIN(kDepth, depth - k);
    for (std::size_t v = 0; v < NV; v += kAcross) {
      const T* strip = panel + v * lanes * all + (first + k) * width;
      for (std::size_t tile = 0; tile < tiles; ++tile) {
        const std::size_t r = tile * rows / tiles, height = (tile + 1) * rows / tiles - r;
        const auto chains = [&](auto fn) {
          fn(kc, a + r * a_row + k, a_row, strip, width, c + r * c_row + v * lanes, c_row);
        };
        static_switch<kTall>(height,
                             [&]<int MR>() EBB_LAMBDA { chains(strip_chains<MR, kAcross, T>); });
      }
    }
  }
}

// A square of the weight, turned: dst[k * width + l] = src[l * ld + k] for a vector of l.
template <class T>
HWY_INLINE void turn_columns(const T* src, std::size_t ld, std::size_t depth, T* dst,
                             std::size_t width, std::size_t real) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t kMost = kRowLanes<T>;
  const T* rows[kMost];
  for (std::size_t l = 0; l < lanes; ++l) rows[l] = src + HWY_MIN(l, real - 1) * ld;
  HWY_ALIGN T square[kMost * kMost];
  std::size_t k = 0;
  for (; k + lanes <= depth; k += lanes) {
    for (std::size_t l = 0; l < lanes; ++l)
      hn::Store(hn::LoadU(d, rows[l] + k), d, square + l * lanes);
    for (std::size_t i = 0; i < lanes; ++i) {
      for (std::size_t l = 0; l < lanes; ++l) dst[(k + i) * width + l] = square[l * lanes + i];
    }
  }
  for (; k < depth; ++k) {
    for (std::size_t l = 0; l < lanes; ++l) dst[k * width + l] = rows[l][k];
  }
}

// Panels [begin, end) of the weight (G hidden, hidden) for the way forward. Lanes beyond the last
// unit repeat it.
template <int G, class T>
HWY_NOINLINE void pack_forward(const T* weight, std::size_t hidden, T* packed, std::size_t begin,
                               std::size_t end) {
  constexpr std::size_t kAcross = strip_of(G);
  const std::size_t lanes = hn::Lanes(RowTag<T>());
  for (std::size_t panel = begin; panel < end; ++panel) {
    const std::size_t unit = panel * lanes;
    for (std::size_t g = 0; g < G; ++g) {
      T* strip = packed + (panel * G + g / kAcross * kAcross) * lanes * hidden;
      turn_columns(weight + (g * hidden + unit) * hidden, hidden, hidden,
                   strip + g % kAcross * lanes, kAcross * lanes, HWY_MIN(lanes, hidden - unit));
    }
  }
}

// Panels [begin, end) of the same weight, as it lies, for the way back: k runs over its rows.
template <class T>
HWY_NOINLINE void pack_backward(const T* weight, std::size_t depth, std::size_t hidden, T* packed,
                                std::size_t begin, std::size_t end) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d), width = strip_of(kBackVectors) * lanes;
  const std::size_t strips = kBackVectors / strip_of(kBackVectors);
  for (std::size_t strip = begin * strips; strip < end * strips; ++strip) {
    const std::size_t unit = strip * width;
    const std::size_t real = unit < hidden ? HWY_MIN(width, hidden - unit) : 0;
    T* to = packed + unit * depth;
    for (std::size_t k = 0; k < depth; ++k, to += width) {
      const T* from = weight + k * hidden + unit;
      if (real == width) {
        for (std::size_t v = 0; v < width; v += lanes) hn::Store(hn::LoadU(d, from + v), d, to + v);
      } else {
        for (std::size_t v = 0; v < width; ++v) to[v] = v < real ? from[v] : T(0);
      }
    }
  }
}

// Panels of so many elements that one thread packs at a time.
inline std::size_t pack_grain(std::size_t elements) { return HWY_MAX(1, 32768 / elements); }

// f(u, amount) for each vector of the units; the last may be a part.
template <class T, class F>
HWY_INLINE void each_units(std::size_t hidden, F&& f) {
  const std::size_t lanes = hn::Lanes(RowTag<T>());
  std::size_t u = 0;
  for (; u + lanes <= hidden; u += lanes) f(u, Whole());
  if (u < hidden) f(u, hidden - u);
}

// block(row, rows) for all blocks of rows.
template <class Block>
void each_block(const recurrent::Blocks& blocks, Block&& block) {
  pool::parallel_for(blocks.count, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b)
      block(blocks.begin(b), blocks.begin(b + 1) - blocks.begin(b));
  });
}

// h of rows [row, row + rows) of a state (batch, stride) to `to`, rows `pitch` apart; zeros where there
// is no state.
template <class T>
HWY_INLINE void take_rows(const T* state, std::size_t stride, std::size_t row, std::size_t rows,
                          std::size_t hidden, T* to, std::size_t pitch) {
  std::fill(to, to + rows * pitch, T(0));
  for (std::size_t r = 0; state && r < rows; ++r) {
    const T* from = state + (row + r) * stride;
    std::copy(from, from + hidden, to + r * pitch);
  }
}
// The way back.
template <class T>
HWY_INLINE void give_rows(const T* from, std::size_t pitch, std::size_t row, std::size_t rows,
                          std::size_t hidden, T* state, std::size_t stride) {
  for (std::size_t r = 0; r < rows; ++r)
    std::copy(from + r * pitch, from + r * pitch + hidden, state + (row + r) * stride);
}

// A block of rows through all steps, from the h in own.first on: panel(step, h now, h next, u, amount)
// makes the next h of a vector of units. Gives the last h.
template <class T, class Panel>
HWY_INLINE const T* all_steps(const Recurrence& over, const recurrent::Own<T>& own, Panel&& panel) {
  T *now = own.first, *next = own.second;
  for (std::size_t step = 0; step < over.steps; ++step) {
    each_units<T>(over.hidden, [&](std::size_t u, auto amount)
                                   EBB_LAMBDA { panel(step, now, next, u, amount); });
    std::swap(now, next);
  }
  return now;
}

// One step of a block for a vector of units: start(at, made) puts down where the chains of a row's G
// gates start, units(r, at, made) makes of the chains what the row keeps. `at` counts (batch, steps).
template <int G, class T, class Start, class Units>
HWY_INLINE void make_panel(const Recurrence& over, const T* panel, std::size_t row,
                           std::size_t rows, std::size_t time, const T* h_now, T* made,
                           std::size_t pitch, Start&& start, Units&& units) {
  const std::size_t n = over.hidden, width = G * hn::Lanes(RowTag<T>());
  const std::size_t first = row * over.steps + time;
  for (std::size_t r = 0; r < rows; ++r) start(first + r * over.steps, made + r * width);
  product<G, T>(rows, 0, n, n, h_now, pitch, panel, made, width);
  for (std::size_t r = 0; r < rows; ++r) units(r, first + r * over.steps, made + r * width);
}

// A call, its blocks of rows by block(call, layout, scratch, row, rows): the weight is packed to where
// the scratch begins, then come the blocks.
template <int G, class T, class Call, class Block>
void run_forward(const Call& call, T* scratch, Block&& block) {
  const recurrent::Layout layout(call.over, G);
  const std::size_t n = call.over.hidden, lanes = hn::Lanes(RowTag<T>());
  pool::parallel_for(ceil_div(n, lanes), pack_grain(G * n * lanes),
                     [&](std::size_t begin, std::size_t end) {
                       pack_forward<G, T>(call.weight, n, scratch, begin, end);
                     });
  each_block(layout.blocks,
             [&](std::size_t row, std::size_t rows) { block(call, layout, scratch, row, rows); });
}

template <int G, class T, class Call, class Block>
void run_back(const Call& call, T* scratch, Block&& block) {
  const recurrent::Layout layout(call.over, G);
  const std::size_t n = call.over.hidden, width = kBackVectors * hn::Lanes(RowTag<T>());
  pool::parallel_for(ceil_div(n, width), pack_grain(G * n * width),
                     [&](std::size_t begin, std::size_t end) {
                       pack_backward<T>(call.weight, G * n, n, scratch, begin, end);
                     });
  each_block(layout.blocks,
             [&](std::size_t row, std::size_t rows) { block(call, layout, scratch, row, rows); });
}

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// For each target, from run(call, scratch); then the function of ebb::kernels that picks a target.
#undef EBB_RECURRENT_TARGETS
#define EBB_RECURRENT_TARGETS(function, Call)                         \
  void function##_f32(const Call<float>& call, std::byte* scratch) {  \
    run(call, reinterpret_cast<float*>(scratch));                     \
  }                                                                   \
  void function##_f64(const Call<double>& call, std::byte* scratch) { \
    run(call, reinterpret_cast<double*>(scratch));                    \
  }
#undef EBB_RECURRENT_FUNCTION
#define EBB_RECURRENT_FUNCTION(function, Call)                            \
  HWY_EXPORT(function##_f32);                                             \
  HWY_EXPORT(function##_f64);                                             \
  void function(const Call<float>& call, std::span<std::byte> scratch) {  \
    HWY_DYNAMIC_DISPATCH(function##_f32)(call, scratch.data());           \
  }                                                                       \
  void function(const Call<double>& call, std::span<std::byte> scratch) { \
    HWY_DYNAMIC_DISPATCH(function##_f64)(call, scratch.data());           \
  }

#endif  // EBB_KERNELS_RECURRENT_INL_HPP_
