#include "ebb/kernels/gemm.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "ebb/base/half.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/gemm_plan.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/gemm.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/gemm_epilogue-inl.hpp"
#include "ebb/kernels/gemm_pack-inl.hpp"
#include "ebb/kernels/lambda-inl.hpp"
#include "ebb/kernels/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels {
namespace HWY_NAMESPACE {

// Not into L1, which is full of the panel in use.
HWY_INLINE void prefetch_to_l2(const void* p) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
  __builtin_prefetch(p, 0, 2);
#else
  static_cast<void>(p);
#endif
}

// What will be read next: rows of so many bytes, asked for a line at a time while tiles are
// computed. A core waits for few lines at once, so many in a row would stop it.
class Ahead {
 public:
  Ahead() = default;
  // All of it, in so many turns.
  Ahead(const void* first, size_t stride, size_t rows, size_t bytes, size_t turns)
      : at_(static_cast<const char*>(first)),
        row_end_(at_ + bytes),
        stride_(stride),
        bytes_(bytes),
        left_(rows * ceil_div(bytes, 64)),
        share_(ceil_div(left_, turns)) {}

  void next_turn() { now_ = HWY_MIN(left_, share_); }
  HWY_INLINE void operator()() {
    if (now_ == 0) return;
    prefetch_to_l2(at_);
    --now_;
    --left_;
    at_ += 64;
    if (at_ < row_end_) return;
    row_end_ += stride_;
    at_ = row_end_ - bytes_;
  }
  void end_turn() {
    while (now_ != 0) (*this)();
  }

 private:
  const char *at_ = nullptr, *row_end_ = nullptr;
  size_t stride_ = 0, bytes_ = 0, left_ = 0, share_ = 0, now_ = 0;
};

template <class T>
using TileFn = void (*)(size_t kc, const T* a, size_t a_row, size_t a_k, const T* b, size_t b_k,
                        T* c, size_t c_row, size_t n, bool from_zero, Ahead& ahead);

template <int MR, int NV, class T>
void tile_in_place(size_t kc, const T* a, size_t a_row, size_t a_k, const T* b, size_t b_k, T* c,
                   size_t c_row, size_t n, bool from_zero, Ahead&) {
  tile_strided<MR, NV, T>(kc, a, a_row, a_k, b, b_k, c, c_row, n, from_zero);
}
template <int MR, int NV, class T>
void tile_of_packed(size_t kc, const T* a, size_t, size_t, const T* b, size_t b_k, T* c,
                    size_t c_row, size_t n, bool from_zero, Ahead& ahead) {
  tile_packed<MR, NV, T>(kc, a, b, b_k, c, c_row, n, from_zero, ahead);
}

// The tiles of this target, and what they want of a plan. Few rows take four vectors, where two do not give
// enough chains to fill the FMA units.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr GemmTile kTile{
    .rows = kTallRows, .four_vectors = 6, .step = 256, .block_bytes = 480 << 10};
#else
constexpr GemmTile kTile{};
#endif
static_assert(kTile.rows == kTallRows);

template <class T, bool packed, int MR, int NV>
constexpr TileFn<T> tile_fn() {
  if constexpr (NV == 4 && MR > static_cast<int>(kTile.four_vectors)) {
    return nullptr;
  } else if constexpr (packed) {
    return tile_of_packed<MR, NV, T>;
  } else {
    return tile_in_place<MR, NV, T>;
  }
}

template <class T>
struct TileTable {
  TileFn<T> of[2][kTallRows][3];  // [packed][rows - 1][vectors: 1, 2, 4]
};
template <class T, int... r>
constexpr TileTable<T> all_tiles(std::integer_sequence<int, r...>) {
  return {{{{tile_fn<T, false, r + 1, 1>(), tile_fn<T, false, r + 1, 2>(),
             tile_fn<T, false, r + 1, 4>()}...},
           {{tile_fn<T, true, r + 1, 1>(), tile_fn<T, true, r + 1, 2>(),
             tile_fn<T, true, r + 1, 4>()}...}}};
}
template <class T>
constexpr TileTable<T> kTiles = all_tiles<T>(std::make_integer_sequence<int, kTallRows>());

RowTiles row_tiles(size_t rows) { return RowTiles(rows, kTallRows); }

template <class T>
HWY_INLINE int vectors_index(size_t columns) {
  const size_t lanes = tile_lanes<T>();
  return columns <= lanes ? 0 : columns <= 2 * lanes ? 1 : 2;
}

// One part of C and of k, with what its threads share.
template <class T>
struct Part {
  const Gemm& g;
  const GemmPlan& plan;
  size_t bias_step;
  size_t i0, rows, j0, columns, k0, depth;
  T* panels;  // of the shared operand, and of A if both are
  T* a_panels;
  std::byte* own;

  bool from_zero() const { return k0 == 0 && !g.accumulate; }
  bool shares_b() const { return plan.panels == PanelsOfB::shared; }
  bool shares_a() const { return plan.pack_a && (plan.share_both || !shares_b()); }
  T* c(size_t i, size_t j) const { return static_cast<T*>(g.c) + (i0 + i) * g.ldc + j0 + j; }
};

template <class T>
HWY_INLINE size_t panel_width(const GemmPlan& plan) {
  return plan.vectors * tile_lanes<T>();
}

// f.operator()<S>(), S the type of an operand's elements where C's are T.
template <class T, class F>
HWY_INLINE void with_storage(Storage type, F&& f) {
  if constexpr (sizeof(T) == 8) {
    f.template operator()<double>();
  } else {
    switch (type) {
      case Storage::bf16:
        return f.template operator()<bf16>();
      case Storage::f16:
        return f.template operator()<f16>();
      default:
        return f.template operator()<float>();
    }
  }
}

template <class S>
const S* at(const Operand& x, size_t row, size_t column) {
  return static_cast<const S*>(x.data) + row * x.ld + column;
}

// Columns [j, j + n) of the part, k in [k, k + kc) of the product, to one panel.
template <class T, class S>
HWY_NOINLINE void pack_panel_of(const Part<T>& part, size_t j, size_t n, size_t k, size_t kc,
                                T* panel, size_t width) {
  const Operand& b = part.g.b;
  if (b.transposed) {
    pack_turned<T, S>(at<S>(b, part.j0 + j, k), b.ld, n, kc, panel, width);
  } else {
    pack_copied<T, S>(at<S>(b, k, part.j0 + j), b.ld, n, kc, panel, width);
  }
}

template <class T>
void pack_panel(const Part<T>& part, size_t j, size_t n, size_t k, size_t kc, T* panel,
                size_t width) {
  with_storage<T>(part.g.b.type, [&]<class S>() EBB_LAMBDA {
    pack_panel_of<T, S>(part, j, n, k, kc, panel, width);
  });
}

// Operands whose rows are steps of k are packed in short runs of it, so that neighbouring panels
// read the same lines: of A, whose panels are less than a line wide, while they are in L1, which
// holds eight that are whole pages apart.
constexpr size_t kPackRun = 32, kPackRunOfA = 16, kPackRunCrowded = 8;

// Rows [tile, tile_end) of tiles, k in [k, k + kc) of the part, one tile after the other.
template <class T, class S>
HWY_NOINLINE void pack_rows_of(const Part<T>& part, size_t tile, size_t tile_end, size_t k,
                               size_t kc, T* out) {
  const Operand& a = part.g.a;
  const RowTiles tiles = row_tiles(part.rows);
  const size_t first = tiles.begin(tile);
  if (!a.transposed) {
    for (size_t t = tile; t < tile_end; ++t) {
      const size_t i = tiles.begin(t), height = tiles.begin(t + 1) - i;
      pack_turned<T, S>(at<S>(a, part.i0 + i, part.k0 + k), a.ld, height, kc,
                        out + (i - first) * kc, height);
    }
    return;
  }
  const size_t most = part.plan.crowded ? kPackRunCrowded : kPackRunOfA;
  for (size_t run = 0; run < kc; run += most) {
    const size_t length = HWY_MIN(most, kc - run);
    for (size_t t = tile; t < tile_end; ++t) {
      const size_t i = tiles.begin(t), height = tiles.begin(t + 1) - i;
      pack_copied_narrow<T, S>(at<S>(a, part.k0 + k + run, part.i0 + i), a.ld,
                               part.g.m - part.i0 - i, length, kc - run,
                               out + (i - first) * kc + run * height, height);
    }
  }
}

template <class T>
void pack_rows(const Part<T>& part, size_t tile, size_t tile_end, size_t k, size_t kc, T* out) {
  with_storage<T>(part.g.a.type, [&]<class S>() EBB_LAMBDA {
    pack_rows_of<T, S>(part, tile, tile_end, k, kc, out);
  });
}

constexpr size_t kAlongTiles = 2;  // walked along C side by side
constexpr size_t kPackPanels = 4;  // side by side: whole lines of a B that is not transposed

// Columns [first, last) of the part, k in [k, k + kc) of it, one panel after the other.
template <class T>
void pack_columns(const Part<T>& part, size_t first, size_t last, size_t k, size_t kc, T* out) {
  const size_t width = panel_width<T>(part.plan);
  const size_t run = part.g.b.transposed ? kc : kPackRun;
  for (size_t group = first; group < last; group += kPackPanels * width) {
    const size_t group_end = HWY_MIN(last, group + kPackPanels * width);
    for (size_t r = 0; r < kc; r += run) {
      const size_t length = HWY_MIN(run, kc - r);
      for (size_t j = group; j < group_end; j += width) {
        pack_panel(part, j, HWY_MIN(width, group_end - j), part.k0 + k + r, length,
                   out + (j - first) * kc + r * width, width);
      }
    }
  }
}

// The shared operand lies in steps of k, one after the other; within a step, in tiles or panels.
constexpr size_t kShareTiles = 16;  // of A in a packing task

template <class T>
size_t share_tasks_of_a(const Part<T>& part) {
  return part.shares_a() ? ceil_div(row_tiles(part.rows).count, kShareTiles) : 0;
}

template <class T>
size_t share_tasks(const Part<T>& part) {
  const size_t width = panel_width<T>(part.plan) * kPackPanels;
  const size_t of_b = part.shares_b() ? ceil_div(part.columns, width) : 0;
  return share_tasks_of_a(part) + of_b;
}

template <class T>
size_t padded_columns(const Part<T>& part) {
  const size_t width = panel_width<T>(part.plan);
  return round_up(part.columns, width);
}

template <class T>
void pack_shared(const Part<T>& part, size_t begin, size_t end) {
  const RowTiles tiles = row_tiles(part.rows);
  const size_t width = panel_width<T>(part.plan) * kPackPanels, of_a = share_tasks_of_a(part);
  for (size_t task = begin; task < end; ++task) {
    for (size_t k = 0; k < part.depth; k += part.plan.step) {
      const size_t kc = HWY_MIN(part.plan.step, part.depth - k);
      if (task < of_a) {
        const size_t tile = task * kShareTiles, tile_end = HWY_MIN(tiles.count, tile + kShareTiles);
        pack_rows(part, tile, tile_end, k, kc,
                  part.a_panels + k * part.rows + tiles.begin(tile) * kc);
      } else {
        const size_t first = (task - of_a) * width;
        pack_columns(part, first, HWY_MIN(part.columns, first + width), k, kc,
                     part.panels + k * padded_columns(part) + first * kc);
      }
    }
  }
}

// Rows [tile, tile_end) of tiles × one panel of n columns from j, over one step of k. Packed rows
// start at a, those in place at their own address. Meanwhile what comes next, if any, is asked for.
template <class T>
HWY_NOINLINE void compute_panel(const Part<T>& part, size_t tile, size_t tile_end, size_t j,
                                size_t n, const T* a, const T* b, size_t b_k, Ahead& ahead,
                                size_t k, size_t kc, bool from_zero) {
  const Gemm& g = part.g;
  const RowTiles tiles = row_tiles(part.rows);
  const int vectors = vectors_index<T>(n);
  const size_t first = tiles.begin(tile);
  if (part.plan.pack_a) {
    for (size_t t = tile, i = first; t < tile_end; ++t) {
      const size_t next = tiles.begin(t + 1);
      if (t + 1 < tile_end) {
        for (size_t r = next; r < tiles.begin(t + 2); ++r) hwy::Prefetch(part.c(r, j));
      }
      ahead.next_turn();
      kTiles<T>.of[1][next - i - 1][vectors](kc, a + (i - first) * kc, 0, 0, b, b_k, part.c(i, j),
                                             g.ldc, n, from_zero, ahead);
      ahead.end_turn();
      i = next;
    }
  } else {
    const size_t a_row = g.a.transposed ? 1 : g.a.ld, a_k = g.a.transposed ? g.a.ld : 1;
    a = static_cast<const T*>(g.a.data) + part.i0 * a_row + (part.k0 + k) * a_k;
    for (size_t t = tile, i = first; t < tile_end; ++t) {
      const size_t next = tiles.begin(t + 1);
      ahead.next_turn();
      ahead.end_turn();
      kTiles<T>.of[0][next - i - 1][vectors](kc, a + i * a_row, a_row, a_k, b, b_k, part.c(i, j),
                                             g.ldc, n, from_zero, ahead);
      i = next;
    }
  }
}

// The same for all panels of columns [j, j_end), a few rows of C after the other: they are walked
// along, and all of B stays in L2.
template <class T>
HWY_NOINLINE void compute_along(const Part<T>& part, size_t tile, size_t tile_end, size_t j_begin,
                                size_t j_end, const T* a, const T* b, size_t kc, bool from_zero) {
  const RowTiles tiles = row_tiles(part.rows);
  const size_t width = panel_width<T>(part.plan);
  const size_t first = tiles.begin(tile);
  Ahead none;
  for (size_t t = tile; t < tile_end; t += kAlongTiles) {
    const size_t end = HWY_MIN(tile_end, t + kAlongTiles);
    for (size_t j = j_begin; j < j_end; j += width) {
      const size_t n = HWY_MIN(width, j_end - j);
      const int vectors = vectors_index<T>(n);
      for (size_t u = t, i = tiles.begin(t); u < end; ++u) {
        const size_t next = tiles.begin(u + 1);
        kTiles<T>.of[1][next - i - 1][vectors](kc, a + (i - first) * kc, 0, 0,
                                               b + (j - j_begin) * kc, width, part.c(i, j),
                                               part.g.ldc, n, from_zero, none);
        i = next;
      }
    }
  }
}

// What follows the last k, for a panel of C.
template <class T>
void finish_panel(const Part<T>& part, size_t tile, size_t tile_end, size_t j, size_t n) {
  const Gemm& g = part.g;
  const size_t i = row_tiles(part.rows).begin(tile), end = row_tiles(part.rows).begin(tile_end);
  const size_t offset = (part.i0 + i) * g.ldc + part.j0 + j;
  finish_block<T>(
      g.activation,
      {static_cast<T*>(g.c) + offset, g.pre ? static_cast<T*>(g.pre) + offset : nullptr, g.ldc,
       end - i, n,
       g.bias ? static_cast<const T*>(g.bias) + (part.j0 + j) * part.bias_step : nullptr,
       part.bias_step});
}

// Where the next columns of B to be packed are read from: those from j on, or with the next step of
// k those from j_begin on.
template <class T>
Ahead next_source(const Part<T>& part, size_t j, size_t j_begin, size_t j_end, size_t group,
                  size_t k, size_t kc, size_t turns) {
  const Operand& b = part.g.b;
  if (j >= j_end) {
    j = j_begin;
    k += kc;
    if (k >= part.depth) return {};
    kc = HWY_MIN(part.plan.step, part.depth - k);
  }
  const size_t n = HWY_MIN(group, j_end - j);
  const size_t size = size_of(b.type);
  const size_t row = b.transposed ? part.j0 + j : part.k0 + k;
  const size_t column = b.transposed ? part.k0 + k : part.j0 + j;
  return {static_cast<const char*>(b.data) + (row * b.ld + column) * size, b.ld * size,
          b.transposed ? n : kc, (b.transposed ? kc : n) * size, turns};
}

// Computing tasks: blocks of rows, one or all, × a range of columns.
template <class T>
void compute(const Part<T>& part, size_t begin, size_t end) {
  const Gemm& g = part.g;
  const GemmPlan& plan = part.plan;
  const size_t width = panel_width<T>(plan);
  const size_t tiles = row_tiles(part.rows).count, blocks = plan.blocks(part.rows);
  const size_t unit = blocks == 1 && plan.group == 0 ? width : kWidestPanel;
  const size_t units = ceil_div(part.columns, unit);
  const size_t thread = plan.parallel ? static_cast<size_t>(pool::thread_index()) : 0;
  T* own = reinterpret_cast<T*>(part.own + thread * plan.own_bytes);
  const bool finish =
      part.k0 + part.depth == g.k && (g.bias || g.pre || g.activation != Activation::none);
  for (size_t task = begin; task < end; ++task) {
    const size_t across = task % plan.tasks_across;
    const size_t block = part.shares_b() ? task / plan.tasks_across : 0;
    const size_t block_end = part.shares_b() ? block + 1 : blocks;
    const size_t j_begin = across * units / plan.tasks_across * unit;
    const size_t j_end = HWY_MIN(part.columns, (across + 1) * units / plan.tasks_across * unit);
    // Panels are packed so many columns at a time.
    const size_t group = part.shares_b() || blocks > 1 ? j_end - j_begin
                         : plan.group == 0             ? width
                                                       : plan.group;
    for (size_t k = 0; k < part.depth; k += plan.step) {
      const size_t kc = HWY_MIN(plan.step, part.depth - k);
      const bool from_zero = k == 0 && part.from_zero();
      const bool last = finish && k + kc == part.depth;
      if (!part.shares_b() && blocks > 1) pack_columns(part, j_begin, j_end, k, kc, own);
      for (size_t i = block; i < block_end; ++i) {
        const size_t tile = i * tiles / blocks, tile_end = (i + 1) * tiles / blocks;
        const T* a = part.a_panels + k * part.rows + row_tiles(part.rows).begin(tile) * kc;
        if (plan.pack_a && !part.shares_a()) {
          pack_rows(part, tile, tile_end, k, kc, own);
          a = own;
        }
        if (plan.along) {
          compute_along(part, tile, tile_end, j_begin, j_end, a,
                        part.panels + k * padded_columns(part) + j_begin * kc, kc, from_zero);
          for (size_t j = j_begin; last && j < j_end; j += width)
            finish_panel(part, tile, tile_end, j, HWY_MIN(width, j_end - j));
          continue;
        }
        Ahead ahead;
        for (size_t j = j_begin; j < j_end; j += width) {
          const size_t n = HWY_MIN(width, j_end - j), in_group = (j - j_begin) % group;
          const T* b = own + in_group * kc;
          size_t b_k = width;
          if (part.shares_b()) {
            b = part.panels + k * padded_columns(part) + j * kc;
            ahead = {};
            if (j + width < j_end)
              ahead = {b + width * kc, 0, 1, width * kc * sizeof(T), tile_end - tile};
          } else if (plan.panels == PanelsOfB::in_place && n == width) {
            b = at<T>(g.b, part.k0 + k, part.j0 + j);
            b_k = g.b.ld;
          } else if (blocks == 1) {
            if (in_group == 0) {  // the next group is asked for while this one is used
              const size_t next = HWY_MIN(j_end, j + group);
              pack_columns(part, j, next, k, kc, own);
              const size_t turns = (tile_end - tile) * ceil_div(next - j, width);
              ahead = next_source(part, next, j_begin, j_end, group, k, kc, turns);
            }
          }
          compute_panel(part, tile, tile_end, j, n, a, b, b_k, ahead, k, kc, from_zero);
          if (last) finish_panel(part, tile, tile_end, j, n);
        }
      }
    }
  }
}

// A product over no k at all.
template <class T>
void compute_empty(const Gemm& g, size_t bias_step) {
  if (!g.accumulate) {
    for (size_t i = 0; i < g.m; ++i) {
      std::memset(static_cast<T*>(g.c) + i * g.ldc, 0, g.n * sizeof(T));
    }
  }
  finish_block<T>(g.activation, {static_cast<T*>(g.c), static_cast<T*>(g.pre), g.ldc, g.m, g.n,
                                 static_cast<const T*>(g.bias), bias_step});
}

template <class T>
void run_gemm_as(const Oriented& oriented, const GemmPlan& plan, std::byte* scratch) {
  const Gemm& g = oriented.product;
  if (g.k == 0) return compute_empty<T>(g, oriented.bias_step);
  T* panels = reinterpret_cast<T*>(scratch);
  T* a_panels = plan.share_both ? panels + plan.shared_bytes / sizeof(T) : panels;
  std::byte* own = scratch + plan.shared_bytes + plan.a_bytes;
  for (size_t j = 0; j < g.n; j += plan.columns) {
    for (size_t i = 0; i < g.m; i += plan.rows) {
      for (size_t k = 0; k < g.k; k += plan.depth) {
        const Part<T> part{g,
                           plan,
                           oriented.bias_step,
                           i,
                           HWY_MIN(plan.rows, g.m - i),
                           j,
                           HWY_MIN(plan.columns, g.n - j),
                           k,
                           HWY_MIN(plan.depth, g.k - k),
                           panels,
                           a_panels,
                           own};
        const size_t shares = share_tasks(part);
        const size_t tasks = plan.tasks_across * (part.shares_b() ? plan.blocks(part.rows) : 1);
        if (!plan.parallel) {
          if (shares != 0) pack_shared(part, 0, shares);
          compute(part, 0, tasks);
          continue;
        }
        pool::parallel_for(shares, plan.blocks(g.m) == 1 ? 8 : 1,
                           [&](size_t begin, size_t end) { pack_shared(part, begin, end); });
        pool::parallel_for(tasks, 1, [&](size_t begin, size_t end) { compute(part, begin, end); });
      }
    }
  }
}

GemmTile gemm_tile() { return kTile; }

void run_gemm(const Oriented& oriented, const GemmPlan& plan, std::byte* scratch) {
  if (oriented.product.c_type == Storage::f64) return run_gemm_as<double>(oriented, plan, scratch);
  run_gemm_as<float>(oriented, plan, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
HWY_EXPORT(run_gemm);
HWY_EXPORT(gemm_tile);

namespace {

GemmPlan planned(const Gemm& product, std::size_t threads) {
  return plan_gemm(product, threads, HWY_DYNAMIC_DISPATCH(gemm_tile)());
}

std::size_t thread_count() { return static_cast<std::size_t>(pool::threads()); }

std::size_t scratch_of(const GemmPlan& plan, std::size_t threads) {
  return plan.shared_bytes + plan.a_bytes + plan.own_bytes * threads;
}

// A batch is run either as one tall product, where all share B and rows follow on rows; or each
// product by one thread, several at a time; or one product after the other by all threads.
enum class Order : std::uint8_t { tall, each_by_one, each_by_all };

struct BatchPlan {
  Order order;
  Gemm product;             // of which there are `count`, or 1 if tall
  std::size_t grain = 1;    // products that a thread takes at a time
  std::size_t scratch = 0;  // of one product
};

constexpr std::size_t kOneThreadBytes = 2 << 20;   // of scratch, at most, to give each thread one
constexpr std::size_t kGrainProducts = 1'000'000;  // multiply-adds that a thread takes at a time

BatchPlan plan_batch(const GemmBatch& batch) {
  const Gemm& g = batch.first;
  if (batch.count == 1) return {Order::tall, g, 1, gemm_scratch(g)};
  if (batch.b_stride == 0 && !g.a.transposed && batch.a_stride == g.m * g.a.ld &&
      batch.c_stride == g.m * g.ldc) {
    Gemm tall = g;
    tall.m *= batch.count;
    return {Order::tall, tall, 1, gemm_scratch(tall)};
  }
  const std::size_t threads = thread_count();
  const std::size_t alone = scratch_of(planned(orient(g).product, 1), 1);
  const std::size_t products = g.m * g.n * g.k;
  if (batch.count >= threads && alone <= kOneThreadBytes) {
    const std::size_t grain =
        std::clamp<std::size_t>(kGrainProducts / (products + 1), 1, batch.count);
    return {Order::each_by_one, g, grain, round_up(alone, 64)};
  }
  return {Order::each_by_all, g, 1, gemm_scratch(g)};
}

// Product i of the batch.
Gemm nth(const GemmBatch& batch, std::size_t i) {
  const auto ahead = [i](const void* data, std::size_t stride, Storage type) {
    return static_cast<const void*>(static_cast<const std::byte*>(data) +
                                    i * stride * size_of(type));
  };
  Gemm g = batch.first;
  g.a.data = ahead(g.a.data, batch.a_stride, g.a.type);
  g.b.data = ahead(g.b.data, batch.b_stride, g.b.type);
  g.c = const_cast<void*>(ahead(g.c, batch.c_stride, g.c_type));
  if (g.pre) g.pre = const_cast<void*>(ahead(g.pre, batch.c_stride, g.c_type));
  return g;
}

}  // namespace

std::size_t gemm_scratch(const Gemm& product) {
  const std::size_t threads = thread_count();
  return scratch_of(planned(orient(product).product, threads), threads);
}

void gemm(const Gemm& product, std::span<std::byte> scratch) {
  if (product.m == 0 || product.n == 0) return;
  const Oriented oriented = orient(product);
  const GemmPlan plan = planned(oriented.product, thread_count());
  assert(scratch.size() >= scratch_of(plan, thread_count()));
  HWY_DYNAMIC_DISPATCH(run_gemm)(oriented, plan, scratch.data());
}

std::size_t gemm_scratch(const GemmBatch& batch) {
  if (batch.count == 0) return 0;
  const BatchPlan plan = plan_batch(batch);
  return plan.order == Order::each_by_one ? plan.scratch * thread_count() : plan.scratch;
}

void gemm(const GemmBatch& batch, std::span<std::byte> scratch) {
  if (batch.count == 0 || batch.first.m == 0 || batch.first.n == 0) return;
  const BatchPlan plan = plan_batch(batch);
  if (plan.order == Order::tall) return gemm(plan.product, scratch);
  if (plan.order == Order::each_by_all) {
    for (std::size_t i = 0; i < batch.count; ++i) gemm(nth(batch, i), scratch);
    return;
  }
  const GemmPlan alone = planned(orient(batch.first).product, 1);
  pool::parallel_for(batch.count, plan.grain, [&](std::size_t begin, std::size_t end) {
    const auto thread = static_cast<std::size_t>(pool::thread_index());
    std::byte* mine = scratch.data() + thread * plan.scratch;
    for (std::size_t i = begin; i < end; ++i) {
      HWY_DYNAMIC_DISPATCH(run_gemm)(orient(nth(batch, i)), alone, mine);
    }
  });
}

}  // namespace ebb::kernels
#endif
