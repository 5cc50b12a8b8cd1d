#include "ebb/kernels/gemm_plan.hpp"

#include <algorithm>
#include <utility>

namespace ebb::kernels {
namespace {

constexpr std::size_t kStep = 320;               // × 16 columns of B: 20 KiB, most of L1
constexpr std::size_t kStreamStep = 32;          // rows of B in place: a few long streams
constexpr std::size_t kBlockBytes = 160 << 10;   // of A, in L2
constexpr std::size_t kSharedBytes = 4 << 20;    // packed A and B together
constexpr std::size_t kKeptBytes = 3 << 20;      // of these, the operand that all parts of C use
constexpr std::size_t kDeepBytes = 1 << 20;      // A packed over all of k
constexpr std::size_t kInPlaceRows = 12;         // of C, for B in place
constexpr std::size_t kInPlaceColumns = 128;     // of C, for A in place
constexpr std::size_t kForkProducts = 400'000;   // multiply-adds that are worth a fork
constexpr std::size_t kTaskProducts = 100'000;   // and a task

constexpr std::size_t size_of(Storage type) {
  return type == Storage::f64 ? 8 : type == Storage::f32 ? 4 : 2;
}
constexpr std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }
constexpr std::size_t round_up(std::size_t a, std::size_t b) { return ceil_div(a, b) * b; }
// a in equal parts of at most `most`, each a multiple of `unit`.
constexpr std::size_t part_of(std::size_t a, std::size_t most, std::size_t unit) {
  return a <= most ? a : round_up(ceil_div(a, ceil_div(a, most)), unit);
}

}  // namespace

GemmPlan plan_gemm(const Gemm& g, std::size_t threads) {
  GemmPlan p;
  if (g.m == 0 || g.n == 0 || g.k == 0) return p;
  const std::size_t size = size_of(g.c_type);
  const bool a_native = g.a.type == g.c_type, b_native = g.b.type == g.c_type;
  const std::size_t products = g.m * g.n * g.k;
  p.parallel = threads > 1 && products >= kForkProducts;
  p.vectors = g.m <= 2 ? 4 : 2;

  const std::size_t most_rows = kBlockBytes / (kStep * size);
  if (g.m <= kInPlaceRows && b_native && !g.b.transposed) {
    p.panels = PanelsOfB::in_place;
  } else if (g.m <= most_rows) {
    p.panels = PanelsOfB::own;
  } else {
    p.panels = PanelsOfB::shared;
  }
  p.pack_a = !a_native || (g.m > 6 && g.n > kInPlaceColumns);

  p.step = part_of(g.k, p.panels == PanelsOfB::in_place ? kStreamStep : kStep, 4);
  p.rows = g.m;
  p.columns = g.n;
  p.depth = g.k;
  p.block_rows = g.m;
  if (p.panels == PanelsOfB::shared) {
    p.depth = p.step;
    p.block_rows = part_of(g.m, most_rows, 6);
    const std::size_t line = p.depth * size;
    const std::size_t whole_a = p.pack_a ? g.m * g.k * size : 0;
    const std::size_t whole_b = round_up(g.n, kWidestPanel) * g.k * size;
    const bool several = g.m * line + round_up(g.n, kWidestPanel) * line > kSharedBytes;
    p.keep_b = several && p.pack_a && whole_b <= kKeptBytes;
    p.keep_a = several && !p.keep_b && p.pack_a && whole_a <= kKeptBytes;
    if (p.keep_b) {
      p.rows = part_of(g.m, (kSharedBytes - whole_b) / line, p.block_rows);
    } else if (p.keep_a) {
      p.columns = part_of(g.n, (kSharedBytes - whole_a) / line, kWidestPanel);
    } else {
      p.rows = part_of(g.m, kSharedBytes / 2 / line, p.block_rows);
      const std::size_t used = p.pack_a ? p.rows * line : 0;
      p.columns = part_of(g.n, (kSharedBytes - used) / line, kWidestPanel);
    }
    p.b_bytes = p.keep_b ? whole_b : round_up(p.columns, kWidestPanel) * line;
  } else {
    p.own_bytes = p.step * kWidestBytes;
    if (p.pack_a && g.m * g.k * size > kDeepBytes) {
      p.depth = round_up(kDeepBytes / (g.m * size) + 1, p.step);
    }
  }
  if (p.pack_a) p.a_bytes = round_up(p.rows * (p.keep_a ? g.k : std::min(p.depth, g.k)) * size, 64);

  if (p.parallel) {
    const std::size_t blocks = ceil_div(p.rows, p.block_rows);
    const std::size_t work = p.rows * p.columns * std::min(p.depth, g.k);
    const std::size_t wanted = std::min(32 * threads, work / kTaskProducts + 1);
    p.tasks_across = std::clamp(wanted / blocks, ceil_div(p.columns, 512), ceil_div(p.columns, 16));
  }
  return p;
}

Oriented orient(const Gemm& g) {
  if (g.n != 1 || g.m == 1 || g.ldc != 1) return {g, 1};
  Oriented turned{g, 0};
  Gemm& t = turned.product;
  std::swap(t.m, t.n);
  std::swap(t.a, t.b);
  t.a.transposed = !t.a.transposed;
  t.b.transposed = !t.b.transposed;
  t.ldc = t.n;
  return turned;
}

}  // namespace ebb::kernels
