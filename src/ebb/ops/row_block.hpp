// Some ops can make a block of rows of their result (a range along its first axis) by themselves, in
// the bits these have in the whole. A gradient of which nobody needs the whole is then made block by
// block (ebb/trace/gradient_blocks.hpp).
//
// Elementwise ops can, and those with one result that add:
//
// clang-format off
//   std::optional<std::uint32_t> row_block_inputs(Specs in) const;     // bit i: of input i it reads the
//                                                                      // same rows alone; none: it cannot
//   std::size_t row_block_scratch(Specs in, std::int64_t rows) const;
//   void run_row_block(Ins in, Out rows, std::int64_t first, Scratch scratch) const;
// clang-format on
//
// Specs are those of the whole call. What run_row_block is given is cut: `rows` and the inputs that
// row_block_inputs names hold rows from `first` on, as many as `rows` has.
#pragma once

#include <optional>

#include "ebb/ops/op.hpp"

namespace ebb::ops {

std::optional<std::uint32_t> row_block_inputs(const AnyOp& op, Specs in);
std::size_t row_block_scratch(const AnyOp& op, Specs in, std::int64_t rows);
void run_row_block(const AnyOp& op, Ins in, Out rows, std::int64_t first, Scratch scratch);

}  // namespace ebb::ops
