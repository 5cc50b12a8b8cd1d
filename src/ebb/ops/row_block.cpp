#include "ebb/ops/row_block.hpp"

namespace ebb::ops {
namespace {

// Inputs of an elementwise call are as long as its result, or the same for all of its rows.
std::optional<std::uint32_t> cut_elementwise(const AnyOp& op, Specs in) {
  Spec out;
  op.type().shape(op.attributes(), in, &out);
  if (out.rank() == 0 || out.shape[0] == 1 || in.size() > 32) return {};
  std::uint32_t cut = 0;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in[i].rank() == out.rank() && in[i].shape[0] == out.shape[0]) cut |= 1u << i;
  return cut;
}

}  // namespace

std::optional<std::uint32_t> row_block_inputs(const AnyOp& op, Specs in) {
  const OpType& type = op.type();
  if (type.elementwise) return cut_elementwise(op, in);
  return type.row_block_inputs ? type.row_block_inputs(op.attributes(), in) : std::nullopt;
}

std::size_t row_block_scratch(const AnyOp& op, Specs in, std::int64_t rows) {
  const OpType& type = op.type();
  return type.row_block_scratch ? type.row_block_scratch(op.attributes(), in, rows) : 0;
}

void run_row_block(const AnyOp& op, Ins in, Out rows, std::int64_t first, Scratch scratch) {
  const OpType& type = op.type();
  if (type.run_row_block) return type.run_row_block(op.attributes(), in, rows, first, scratch);
  type.run(op.attributes(), in, {&rows, 1}, scratch);
}

}  // namespace ebb::ops
