// Losses: a sum and a count, divided once per optimizer step, so that any split of a batch gives
// the gradient of the whole.
//
// A loss of one's own is given one number for each row, or several:
//
//   const Tensor away = model(x) - y;                       // (rows, n)
//   adam.minimize(loss_of(away * away));                    // their sum, over rows · n
//   adam.minimize({sum(away * away), rows_of_x});           // the same by hand, i64 ()
//   adam.minimize(loss_of(away * away) + 0.1 * mae(model(x), y));
//
// The sum is to be a chain over the rows, so that a batch in parts has the bits of the whole:
// loss_of and the losses below are, as is sum() of a matrix, but not sum() of a vector, which goes by
// blocks: then parts are equal up to rounding. The count may be a constant that is made of the number
// of rows, such as Tensor::scalar(x.dim(0), DType::i64).
#pragma once

#include <iosfwd>

#include "ebb/base/math_functions.hpp"
#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb {

struct Loss {
  Tensor sum;    // scalar; f32, or f64 for f64 predictions
  Tensor count;  // i64 scalar: rows (cross-entropies) or elements (the others); no gradient
  Tensor mean() const;
  double item() const;  // the mean, as a number

  // Throws, naming `who`, where the sum is no floating scalar or the count no integer one.
  void check(const char* who) const;
};

// Losses over the same examples: the sum is that of both, the count theirs. Refuses counts that are
// known and differ, as there is no sum and count with the sum of their means; multiply one of the
// losses by what it is worth, and add those of one count. Inside compiled functions counts are not
// known: that of `a` is taken.
Loss operator+(const Loss& a, const Loss& b);
Loss operator*(const Loss& loss, double factor);  // its sum
Loss operator*(double factor, const Loss& loss);
std::ostream& operator<<(std::ostream& out, const Loss& loss);  // "0.125 (a sum of 8 over 64)"

// What a step does about a loss that is infinite or NaN.
enum class BadLoss : std::uint8_t {
  stop,  // an Error; parameters and state are as they were
  skip,  // the step is not taken, and counted as skipped
  allow  // it is taken
};

}  // namespace ebb

namespace ebb::ops {

// That as many inputs were given as the op takes, and that the sum so far is of the sum's type.
void check_so_far(const char* op, Specs in, std::size_t others, bool accumulate);
void check_so_far(const char* op, const Spec& so_far, DType sum);

// What the losses share. Each may be given one input more, a sum so far: its chain over the rows goes
// on from there, so that a batch in parts has the sum of the whole, to the bit. The count is that of
// these rows.
struct SumSoFar {
  bool accumulate = false;  // a sum so far is given
  bool operator==(const SumSoFar&) const = default;
  std::uint32_t overwrites(int output) const { return accumulate && output == 0 ? 0b100 : 0; }
};

// logits (…, classes), labels (…) of i32 or i64[, sum so far ()] → sum, count. Kept: the first two.
struct SparseCrossEntropy : SumSoFar {
  static constexpr auto name = "sparse_cross_entropy";
  math::SparseTargets targets{};
  bool operator==(const SparseCrossEntropy&) const = default;
  std::array<Spec, 2> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out sum, Out count, Scratch scratch) const;
  Needs needs(int input) const {
    return input == 0 ? Needs::input(0) | Needs::input(1) : Needs::nothing();
  }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::summed(batch, 0b11, overwrites(0), batch.in[0].rank() > 1);
  }
  AnyOp accumulating(Specs in, int output) const;
};

// logits, labels, gradient of the sum () → gradient of the logits.
struct SparseCrossEntropyBackward {
  static constexpr auto name = "sparse_cross_entropy_backward";
  math::SparseTargets targets{};
  bool operator==(const SparseCrossEntropyBackward&) const = default;
  Spec shape(const Spec& logits, const Spec& labels, const Spec& dsum) const;
  Cost cost(const Spec& logits, const Spec& labels, const Spec& dsum) const;
  void run(In logits, In labels, In dsum, Out dlogits, Scratch) const;
  Needs needs(int input) const {
    const Needs both = Needs::input(0) | Needs::input(1);
    return input == 0 ? both | Needs::input(2) : both;
  }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::along_last_axis(batch, 0b011);
  }
  std::uint32_t overwrites(int) const { return 0b001; }
};

// logits (…, classes), targets (…, classes)[, sum so far ()] → sum, count. Kept: the first two.
struct CrossEntropy : SumSoFar {
  static constexpr auto name = "cross_entropy";
  bool operator==(const CrossEntropy&) const = default;
  std::array<Spec, 2> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out sum, Out count, Scratch scratch) const;
  Needs needs(int input) const {
    if (input > 1) return Needs::nothing();
    return input == 0 ? Needs::input(0) | Needs::input(1) : Needs::input(0);
  }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::summed(batch, 0b11, overwrites(0), batch.in[0].rank() > 1);
  }
  AnyOp accumulating(Specs in, int output) const;
};

struct CrossEntropyBackward {
  static constexpr auto name = "cross_entropy_backward";
  bool operator==(const CrossEntropyBackward&) const = default;
  Spec shape(const Spec& logits, const Spec& targets, const Spec& dsum) const;
  Cost cost(const Spec& logits, const Spec& targets, const Spec& dsum) const;
  void run(In logits, In targets, In dsum, Out dlogits, Scratch) const;
  Needs needs(int) const { return Needs::input(0) | Needs::input(1) | Needs::input(2); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::along_last_axis(batch, 0b011);
  }
  std::uint32_t overwrites(int) const { return 0b001; }
};

// Losses of pairs of elements (math::PairLoss has the formulas). x, t of one shape[, sum so far ()]
// → sum, count.
constexpr const char* pair_name(math::PairLoss kind, bool backward) {
  switch (kind) {
    case math::PairLoss::binary_cross_entropy:
      return backward ? "binary_cross_entropy_backward" : "binary_cross_entropy";
    case math::PairLoss::squared:
      return backward ? "mse_backward" : "mse";
    case math::PairLoss::absolute:
      return backward ? "mae_backward" : "mae";
    default:
      return backward ? "huber_backward" : "huber";
  }
}

template <math::PairLoss kKind>
struct PairLoss : SumSoFar {
  static constexpr auto name = pair_name(kKind, false);
  double delta = 1;
  bool operator==(const PairLoss&) const = default;
  std::array<Spec, 2> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out sum, Out count, Scratch scratch) const;
  Needs needs(int input) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::summed(batch, 0b11, overwrites(0));
  }
  AnyOp accumulating(Specs in, int output) const;
};

template <math::PairLoss kKind>
struct PairLossBackward {  // x, t, gradient of the sum () → gradient of x
  static constexpr auto name = pair_name(kKind, true);
  double delta = 1;
  bool operator==(const PairLossBackward&) const = default;
  Spec shape(const Spec& x, const Spec& t, const Spec& dsum) const;
  Cost cost(const Spec& x, const Spec& t, const Spec& dsum) const;
  void run(In x, In t, In dsum, Out dx, Scratch) const;
  Needs needs(int) const { return Needs::input(0) | Needs::input(1) | Needs::input(2); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b011);
  }
  std::uint32_t overwrites(int) const { return 0b011; }
};

}  // namespace ebb::ops

namespace ebb {

struct SparseCrossEntropyOptions {
  std::int64_t ignore_index = -100;  // rows with this label count for nothing
  double label_smoothing = 0;
};
struct CrossEntropyOptions {
  double label_smoothing = 0;
};

// From logits: no softmax before them. A label is a class from 0 on.
Loss sparse_cross_entropy(const Tensor& logits, const Tensor& labels,
                          SparseCrossEntropyOptions options = {});
Loss cross_entropy(const Tensor& logits, const Tensor& targets, CrossEntropyOptions options = {});
Loss binary_cross_entropy(const Tensor& logits, const Tensor& targets);

// Of losses that are there already, (rows, …): their sum, in one chain over the rows, and how many.
Loss loss_of(const Tensor& losses);

Loss mse(const Tensor& prediction, const Tensor& target);
Loss mae(const Tensor& prediction, const Tensor& target);
Loss huber(const Tensor& prediction, const Tensor& target, double delta = 1);

}  // namespace ebb
