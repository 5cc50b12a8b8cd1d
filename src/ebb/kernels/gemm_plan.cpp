#include "ebb/kernels/gemm_plan.hpp"

#include <algorithm>
#include <utility>

#include "ebb/base/round.hpp"

namespace ebb::kernels {
namespace {

constexpr std::size_t kStreamStep = 32;         // rows of B in place: a few long streams
constexpr std::size_t kSharedBytes = 3 << 20;   // of the shared operand, in L3
constexpr std::size_t kBothBytes = 4 << 20;     // of both operands
constexpr std::size_t kDeepBytes = 1 << 20;     // the same where it is a single block of A
constexpr std::size_t kAlongBytes = 256 << 10;  // of all of B, in L2 beside a block of A
constexpr std::size_t kAlongLeast = 2 << 20;    // of C, which then comes from further away
constexpr std::size_t kInPlaceRows = 12;        // of C, for B in place, up to kInPlaceBytes of it
constexpr std::size_t kInPlaceFew = 2;          // of C, for a larger B
constexpr std::size_t kInPlaceBytes = 2 << 20;
constexpr std::size_t kInPlaceColumns = 128;    // of C, for A in place
constexpr std::size_t kInPlaceShort = 256;      // the same where A's rows are one step of k
constexpr std::size_t kInPlaceCrowded = 32;     // the same where A's rows share sets of a cache
constexpr std::size_t kLeastBlockRows = 48;     // of A: fewer do not pay for fetching B
constexpr std::size_t kOneBlockRows = 48;       // of A: so few are one block for all of B
constexpr std::size_t kMostTaskColumns = 128;   // of B, beside a block of A in L2
constexpr std::size_t kForkProducts = 400'000;  // multiply-adds that are worth a fork
constexpr std::size_t kTaskProducts = 100'000;  // and a task
constexpr std::size_t kGroups = 4;              // of columns for each thread, where B is read so
constexpr std::size_t kTasks = 8;               // for each thread, so that all end together

// a in equal parts of at most `most`, each a multiple of `unit`.
constexpr std::size_t part_of(std::size_t a, std::size_t most, std::size_t unit) {
  return a <= most ? a : round_up(ceil_div(a, ceil_div(a, most)), unit);
}

}  // namespace

GemmPlan plan_gemm(const Gemm& g, std::size_t threads, const GemmTile& tile) {
  GemmPlan p;
  if (g.m == 0 || g.n == 0 || g.k == 0) return p;
  const std::size_t size = size_of(g.c_type);
  const bool a_native = g.a.type == g.c_type, b_native = g.b.type == g.c_type;
  const std::size_t products = g.m * g.n * g.k;
  p.parallel = threads > 1 && products >= kForkProducts;
  p.vectors = g.m <= tile.four_vectors ? 4 : 2;

  const bool short_rows = !g.a.transposed && g.k <= tile.step;
  p.crowded = g.a.transposed && g.a.ld * size_of(g.a.type) % 4096 == 0;
  const std::size_t in_place = short_rows  ? kInPlaceShort
                               : p.crowded ? kInPlaceCrowded
                                           : kInPlaceColumns;
  p.pack_a = !a_native || (g.m > tile.rows && g.n > in_place);
  const std::size_t most_rows = tile.block_bytes / (tile.step * size);
  // A B from memory is better packed for a few rows already: packing asks for it ahead.
  const std::size_t few = g.n * g.k * size <= kInPlaceBytes ? kInPlaceRows : kInPlaceFew;
  if (g.m <= few && b_native && !g.b.transposed) {
    p.panels = PanelsOfB::in_place;
  } else if (g.m <= kOneBlockRows || (g.m < g.n && p.pack_a)) {
    p.panels = PanelsOfB::own;
  } else {
    p.panels = PanelsOfB::shared;
  }
  p.step = part_of(g.k, p.panels == PanelsOfB::in_place ? kStreamStep : tile.step, 4);
  p.rows = g.m;
  p.columns = g.n;
  p.block_rows = part_of(g.m, most_rows, tile.rows);

  // The shared operand, in parts of k, and if need be of its own extent.
  const bool one_block = p.panels != PanelsOfB::shared && g.m <= kOneBlockRows;
  const std::size_t line = p.step * size;
  const std::size_t most = (one_block ? kDeepBytes : kSharedBytes) / line;  // rows or columns
  std::size_t extent = 0;
  if (p.panels == PanelsOfB::shared) {
    p.columns = part_of(g.n, most, kWidestPanel);
    extent = round_up(p.columns, kWidestPanel);
  } else if (p.pack_a) {
    if (!one_block) p.rows = part_of(g.m, most, p.block_rows);
    extent = p.rows;
  }
  p.depth = extent == 0 ? g.k : std::min(g.k, std::max<std::size_t>(1, most / extent) * p.step);
  p.share_both = p.parallel && p.panels == PanelsOfB::shared && p.pack_a && 2 * p.depth < g.k &&
                 extent + g.m <= kBothBytes / line;
  if (p.share_both) {
    p.depth = p.step;
    p.a_bytes = round_up(g.m * line, 64);
  }
  p.shared_bytes = round_up(extent * p.depth * size, 64);

  const std::size_t work = p.rows * p.columns * p.depth;
  const std::size_t wanted = p.parallel ? std::min(kTasks * threads, work / kTaskProducts + 1) : 1;
  if (p.share_both) {
    p.tasks_across =
        std::min(ceil_div(4 * wanted, p.blocks(g.m)), ceil_div(p.columns, kWidestPanel));
  } else if (p.panels == PanelsOfB::shared) {
    const std::size_t blocks =
        std::max(p.blocks(g.m), std::min(wanted, ceil_div(g.m, kLeastBlockRows)));
    p.block_rows = round_up(ceil_div(g.m, blocks), tile.rows);
    p.tasks_across = std::min(ceil_div(wanted, blocks), ceil_div(p.columns, kWidestPanel));
    p.own_bytes = p.pack_a ? round_up((p.block_rows + tile.rows) * line, 64) : 0;
    p.along = p.pack_a && p.step == g.k && extent * line <= kAlongBytes &&
              g.m * g.n * size >= kAlongLeast;
  } else if (one_block) {
    const bool own = p.panels == PanelsOfB::own && !g.b.transposed;
    const std::size_t groups = ceil_div(p.columns, kWidestPanel);
    if (own && groups >= kGroups * (p.parallel ? threads : 1)) p.group = kWidestPanel;
    p.tasks_across = p.parallel ? std::clamp(std::min(32 * threads, work / kTaskProducts + 1),
                                             ceil_div(p.columns, 512),
                                             p.group == 0 ? ceil_div(p.columns, 16) : groups)
                                : 1;
    p.own_bytes = p.step * (p.group == 0 ? kWidestBytes : p.group * size);
  } else {
    const std::size_t units = ceil_div(p.columns, kWidestPanel);
    p.tasks_across = std::min(units, std::max(wanted, ceil_div(p.columns, kMostTaskColumns)));
    p.own_bytes = ceil_div(units, p.tasks_across) * kWidestPanel * line;
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
