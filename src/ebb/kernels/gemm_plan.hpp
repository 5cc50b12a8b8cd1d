// How a matrix product is cut: which blocks stay in which cache, what is packed, what is a task.
// A function of sizes, types, transposes, the thread count and the register tile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ebb/base/round.hpp"
#include "ebb/kernels/gemm.hpp"

namespace ebb::kernels {

constexpr std::size_t size_of(Storage type) {
  return type == Storage::f64 ? 8 : type == Storage::f32 ? 4 : 2;
}

// Of two operands one is packed by all threads, for all, and lies in the cache that they share; the
// other is packed by whoever computes with it, just before, and stays in that thread's own. So
// threads wait for each other only where the shared one does not fit and is packed in parts.
enum class PanelsOfB : std::uint8_t {
  in_place,  // few rows of C: packing costs as much as the product itself
  own,       // a task is a range of columns: it packs its B, and all of them share A
  shared     // a task is a block of rows: it packs its A, and all of them share B
};

// Columns of B are packed in multiples of this: the widest panel of any target, 4 vectors.
inline constexpr std::size_t kWidestPanel = 64, kWidestBytes = 256;

// What the vectors of a machine make best.
struct GemmTile {
  std::size_t rows = 6;          // of the tile, at most
  std::size_t four_vectors = 2;  // up to so many rows, four vectors side by side instead of two
  std::size_t step = 384;        // of k: two vectors of B for each, in L1
  std::size_t block_bytes = 240 << 10;  // of A, in L2
};

struct GemmPlan {
  PanelsOfB panels = PanelsOfB::in_place;
  bool pack_a = false;
  bool crowded = false;     // rows of A transposed are whole pages apart: few sets of L1, L2
  bool share_both = false;  // many parts of k: tasks so small that no thread waits long
  bool along = false;       // C is walked along its rows: few k, and all of B in L2
  bool parallel = false;
  int vectors = 2;                    // of a row of the tile: 2, or 4 when there are few rows
  std::size_t rows = 0, columns = 0;  // of the part of C that is worked on at a time
  std::size_t depth = 0;              // of k that is packed, of the shared operand, at a time
  std::size_t step = 0;               // of k a tile goes through at a time
  std::size_t block_rows = 0;         // of A, together in L2
  std::size_t tasks_across = 1;       // into how many the columns are cut
  std::size_t group = 0;              // columns that a task packs at a time; 0: one panel
  std::size_t shared_bytes = 0, own_bytes = 0;  // scratch; own: of each thread
  std::size_t a_bytes = 0;                      // and A, where both are shared

  std::size_t blocks(std::size_t of_rows) const { return ceil_div(of_rows, block_rows); }
};

GemmPlan plan_gemm(const Gemm& product, std::size_t threads, const GemmTile& tile);

// The same product, as a row instead of a column where it is one: its elements become the lanes
// of a vector. The bias of the column is then one for all (bias_step 0).
struct Oriented {
  Gemm product;
  std::size_t bias_step;
};
Oriented orient(const Gemm& product);

}  // namespace ebb::kernels
