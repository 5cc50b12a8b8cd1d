#include "ebb/ops/row_block.hpp"

#include "ebb/ops/apply.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/linear_cross_entropy.hpp"
#include "ebb/ops/matmul.hpp"

namespace ebb::ops {
namespace {

// f(the op's own struct), if it is one that says how it makes some rows.
template <class F, class... Op>
bool with_one_of(const AnyOp& op, F& f) {
  const auto is = [&]<class Is>(const Is*) {
    if (&op.type() != &op_type<Is>()) return false;
    f(*static_cast<const Is*>(op.attributes()));
    return true;
  };
  return (is(static_cast<const Op*>(nullptr)) || ...);
}
template <class F>
bool with_op(const AnyOp& op, F f) {
  return with_one_of<F, Matmul, ScatterAdd, LinearCrossEntropyDweight>(op, f);
}

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
  if (op.type().elementwise) return cut_elementwise(op, in);
  std::optional<std::uint32_t> cut;
  with_op(op, [&](const auto& o) { cut = o.row_block_inputs(in); });
  return cut;
}

std::size_t row_block_scratch(const AnyOp& op, Specs in, std::int64_t rows) {
  std::size_t bytes = 0;
  with_op(op, [&](const auto& o) { bytes = o.row_block_scratch(in, rows); });
  return bytes;
}

void run_row_block(const AnyOp& op, Ins in, Out rows, std::int64_t first, Scratch scratch) {
  if (!with_op(op, [&](const auto& o) { o.run_row_block(in, rows, first, scratch); }))
    op.type().run(op.attributes(), in, {&rows, 1}, scratch);
}

}  // namespace ebb::ops
