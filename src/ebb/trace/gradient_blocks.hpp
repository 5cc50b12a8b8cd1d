// The gradient of a large parameter that nothing but its update reads need not stand anywhere as a
// whole. Where the calls that make it can make any rows of it by themselves
// (ebb/ops/row_block.hpp), they and the update become one call, which takes block after block of
// rows: makes the gradient of a block in its scratch and updates these rows at once.
//
//   %5, %6, … = linear_cross_entropy_backward(x, w, labels, d)      // %5: of w
//   %8 = scatter_add(ids, %7, %5); w', m', v' = adam(rule, scale, %8, w, m, v)
//   becomes
//   %6, …, %9 = linear_cross_entropy_input_grad(x, w, labels, d)
//   w', m', v' = gradient_blocks[linear_cross_entropy_weight_grad scatter_add adam](rule, scale, x, labels, d,
//                                                                        %9, ids, %7, w, m, v)
//
// An element of the gradient comes from the same kernels in the same order: the bits are the same.
// It may cost time (here the logits are made once more), so it is done where memory is short. For a
// batch that is taken as a whole: over micro-batches the sum has to stand somewhere.
#pragma once

#include "ebb/trace/trace.hpp"

namespace ebb::trace {

// `only`: of these parameters, where they are given, and not where it seems worth it.
Trace with_gradient_blocks(const Trace& trace, const std::vector<Variable>* only = nullptr);
// The parameters whose gradients are made so.
std::vector<Variable> parameters_in_blocks(const Trace& trace);

// What an update in blocks does. Places are what its members read and write: first the inputs of
// the call, then blocks of gradient in its scratch.
struct GradientBlocks {
  static constexpr std::size_t kMostInputs = 32, kMostOperands = 8, kMostOutputs = 3;
  struct Member {
    ops::AnyOp op;
    std::vector<Id> in;
    Id out = 0;
    bool operator==(const Member&) const = default;
  };
  std::vector<Member> members;  // the last one leaves the gradient that the update reads
  ops::AnyOp update;
  Spec gradient;             // as a whole
  std::size_t cut_from = 0;  // the inputs from here on are cut: parameter, state, and others
  std::size_t inputs = 0;
  std::int64_t at_once = 0;      // rows of a block
  std::uint64_t block = 0;       // bytes of one in the scratch, …
  std::uint64_t blocks = 0;      // … and how many there are
  std::uint64_t scratch = 0;     // bytes the members need besides
  std::vector<ops::Cost> costs;  // of the members and the update, one after the other
  bool operator==(const GradientBlocks& o) const {
    return members == o.members && update == o.update && gradient == o.gradient &&
           cut_from == o.cut_from && at_once == o.at_once;
  }
};

ops::AnyOp gradient_blocks_op(const GradientBlocks* what, std::size_t outputs);
const GradientBlocks* gradient_blocks_of(const Call& call);  // null: it is none

// The op of such a call, to be run on rows from `first` on of all that is cut.
ops::AnyOp at_row(const ops::AnyOp& op, std::int64_t first);

}  // namespace ebb::trace
