// The last layer of a language model and its loss in one: cross-entropy of x · weightᵀ. The logits,
// far larger than x or the weight's gradient where there are many classes, never stand as a whole.
#pragma once

#include <optional>

#include "ebb/ops/loss.hpp"

namespace ebb::ops {

// x (…, width), weight (classes, width), labels (…) of i32 or i64[, sum so far ()] → sum, count.
// Kept: the first three. Sum and gradients are f32 where x and the weight are of 16 bits, which are
// never widened as a whole. With less scratch than it asks for, down to least_scratch, it takes longer; the bits are the same.
struct LinearCrossEntropy {
  static constexpr auto name = "linear_cross_entropy";
  static constexpr bool half = true;
  math::SparseTargets targets{};
  bool accumulate = false;  // a sum so far is given
  bool operator==(const LinearCrossEntropy&) const = default;
  std::array<Spec, 2> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  std::size_t least_scratch(Specs in) const;
  double slowdown(Specs in, std::size_t scratch) const;
  void run(Ins in, Out sum, Out count, Scratch scratch) const;
  Needs needs(int input) const {
    if (input > 2) return Needs::nothing();
    return Needs::input(0) | Needs::input(1) | Needs::input(2);
  }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::summed(batch, 0b101, overwrites(0), batch.in[0].rank() > 1);
  }
  std::uint32_t overwrites(int output) const { return accumulate && output == 0 ? 0b1000 : 0; }
  AnyOp accumulating(Specs in, int output) const;
};

// x, weight, labels, gradient of the sum ()[, dweight so far][, sum so far ()] → dweight, dx, sum,
// count. The last two are made on the way, so that whoever wants them and the gradients need not run
// the op above. Scratch is as above.
struct LinearCrossEntropyBackward {
  static constexpr auto name = "linear_cross_entropy_backward";
  static constexpr bool half = true;
  math::SparseTargets targets{};
  bool dweight_so_far = false, sum_so_far = false;  // is given
  bool operator==(const LinearCrossEntropyBackward&) const = default;
  std::array<Spec, 4> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  std::size_t least_scratch(Specs in) const;
  double slowdown(Specs in, std::size_t scratch) const;
  void run(Ins in, Out dweight, Out dx, Out sum, Out count, Scratch scratch) const;
  Needs needs(int input) const {
    if (input > 3) return Needs::nothing();
    return Needs::input(0) | Needs::input(1) | Needs::input(2) | Needs::input(3);
  }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int output) const;
  std::uint32_t overwrites(int output) const {
    if (output == 2 && sum_so_far) return 0b10000u << dweight_so_far;
    return output == 0 && dweight_so_far ? 0b10000 : 0;
  }
  AnyOp accumulating(Specs in, int output) const;
  Subsumed subsumes() const;
};

// The two halves of the op above, for whoever needs dweight later, or never as a whole; a pass puts
// them in its place (ebb/trace/gradient_blocks.hpp). Together they make the logits once more than it does.
//
// x, weight, labels, gradient of the sum () → dx, sum, count, row sums (rows, 2).
struct LinearCrossEntropyInputGrad {
  static constexpr auto name = "linear_cross_entropy_input_grad";
  static constexpr bool half = true;
  static constexpr bool unlisted = true;
  math::SparseTargets targets{};
  bool operator==(const LinearCrossEntropyInputGrad&) const = default;
  std::array<Spec, 4> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  std::size_t least_scratch(Specs in) const;
  double slowdown(Specs in, std::size_t scratch) const;
  void run(Ins in, Out dx, Out sum, Out count, Out row_sums, Scratch scratch) const;
};

// x, weight, labels, gradient of the sum (), row sums (rows, 2)[, dweight so far] → dweight.
struct LinearCrossEntropyWeightGrad {
  static constexpr auto name = "linear_cross_entropy_weight_grad";
  static constexpr bool half = true;
  static constexpr bool unlisted = true;
  math::SparseTargets targets{};
  std::int64_t classes = 0;     // of the whole weight
  bool dweight_so_far = false;  // is given
  bool operator==(const LinearCrossEntropyWeightGrad&) const = default;
  Spec shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const { return row_block_scratch(in, in[1].shape[0]); }
  void run(Ins in, Out dweight, Scratch scratch) const { run_row_block(in, dweight, 0, scratch); }
  std::uint32_t overwrites(int) const { return dweight_so_far ? 0b100000 : 0; }
  std::optional<std::uint32_t> row_block_inputs(Specs) const { return 0b10 | overwrites(0); }
  std::size_t row_block_scratch(Specs in, std::int64_t classes) const;
  void run_row_block(Ins in, Out dweight, std::int64_t first, Scratch scratch) const;
};

}  // namespace ebb::ops

namespace ebb {

// sparse_cross_entropy(linear(x, weight), labels, options) without the memory for the logits. The
// weight may be that of the embedding.
Loss linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& labels,
                          SparseCrossEntropyOptions options = {});

}  // namespace ebb
