// How a matrix product is cut: which blocks stay in which cache, what is packed, what is a task.
// A function of sizes, types, transposes and the thread count, the same for every vector width.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ebb/kernels/gemm.hpp"

namespace ebb::kernels {

enum class PanelsOfB : std::uint8_t {
  in_place,  // few rows of C: packing costs as much as the product itself
  own,       // one block of rows: whoever computes a panel packs it, just before
  shared     // several blocks of rows use a panel: packed once, by all threads, for all
};

struct GemmPlan {
  PanelsOfB panels = PanelsOfB::in_place;
  bool pack_a = false;
  bool keep_a = false, keep_b = false;  // packed over all of k, once, for every part of C
  bool parallel = false;
  int vectors = 2;                   // of a row of the tile: 2, or 4 when there are few rows
  std::size_t rows = 0, columns = 0;  // of the part of C that is worked on at a time
  std::size_t depth = 0;             // of k packed at a time
  std::size_t step = 0;              // of k a tile goes through at a time
  std::size_t block_rows = 0;        // of A, together in L2
  std::size_t tasks_across = 1;      // into how many the columns are cut
  std::size_t a_bytes = 0, b_bytes = 0, own_bytes = 0;  // scratch; own: of each thread
};

// Columns of B are packed in multiples of this: the widest panel of any target, 4 vectors.
inline constexpr std::size_t kWidestPanel = 64, kWidestBytes = 256;

GemmPlan plan_gemm(const Gemm& product, std::size_t threads);

// The same product, as a row instead of a column where it is one: its elements become the lanes
// of a vector. The bias of the column is then one for all (bias_step 0).
struct Oriented {
  Gemm product;
  std::size_t bias_step;
};
Oriented orient(const Gemm& product);

}  // namespace ebb::kernels
