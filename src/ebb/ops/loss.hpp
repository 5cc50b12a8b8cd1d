// Losses: a sum and a count, divided once per optimizer step, so that any split of a batch gives
// the gradient of the whole.
#pragma once

#include "ebb/kernels/loss.hpp"
#include "ebb/ops/op.hpp"
#include "ebb/ops/rows_rule.hpp"

namespace ebb {

struct Loss {
  Tensor sum;    // scalar; f32, or f64 for f64 predictions
  Tensor count;  // i64 scalar: rows (cross-entropies) or elements (the others); no gradient
  Tensor mean() const;
};

}  // namespace ebb

namespace ebb::ops {

// logits (…, classes), labels (…) of i32 or i64 → sum, count. Kept: both.
struct SparseCrossEntropy {
  static constexpr auto name = "sparse_cross_entropy";
  kernels::SparseTargets targets{};
  bool operator==(const SparseCrossEntropy&) const = default;
  std::array<Spec, 2> shape(const Spec& logits, const Spec& labels) const;
  Cost cost(const Spec& logits, const Spec& labels) const;
  std::size_t scratch(const Spec& logits, const Spec& labels) const;
  void run(In logits, In labels, Out sum, Out count, Scratch scratch) const;
  Needs needs(int) const { return Needs::input(0) | Needs::input(1); }
  void grad(Back& back) const;
  Rows rows(const Carried& batch, int) const {
    return rule::summed(batch, 0b11, 0, batch.in[0].rank() > 1);
  }
};

// logits, labels, gradient of the sum () → gradient of the logits.
struct SparseCrossEntropyBackward {
  static constexpr auto name = "sparse_cross_entropy_backward";
  kernels::SparseTargets targets{};
  bool operator==(const SparseCrossEntropyBackward&) const = default;
  Spec shape(const Spec& logits, const Spec& labels, const Spec& dsum) const;
  Cost cost(const Spec& logits, const Spec& labels, const Spec& dsum) const;
  void run(In logits, In labels, In dsum, Out dlogits, Scratch) const;
  Needs needs(int input) const {
    const Needs both = Needs::input(0) | Needs::input(1);
    return input == 0 ? both | Needs::input(2) : both;
  }
  void grad(Back& back) const;
  Rows rows(const Carried& batch, int) const { return rule::by_rows(batch, 0b011); }
  std::uint32_t overwrites(int) const { return 0b001; }
};

// logits (…, classes), targets (…, classes) → sum, count. Kept: both.
struct CrossEntropy {
  static constexpr auto name = "cross_entropy";
  bool operator==(const CrossEntropy&) const = default;
  std::array<Spec, 2> shape(const Spec& logits, const Spec& targets) const;
  Cost cost(const Spec& logits, const Spec& targets) const;
  std::size_t scratch(const Spec& logits, const Spec& targets) const;
  void run(In logits, In targets, Out sum, Out count, Scratch scratch) const;
  Needs needs(int input) const {
    return input == 0 ? Needs::input(0) | Needs::input(1) : Needs::input(0);
  }
  void grad(Back& back) const;
  Rows rows(const Carried& batch, int) const {
    return rule::summed(batch, 0b11, 0, batch.in[0].rank() > 1);
  }
};

struct CrossEntropyBackward {
  static constexpr auto name = "cross_entropy_backward";
  bool operator==(const CrossEntropyBackward&) const = default;
  Spec shape(const Spec& logits, const Spec& targets, const Spec& dsum) const;
  Cost cost(const Spec& logits, const Spec& targets, const Spec& dsum) const;
  void run(In logits, In targets, In dsum, Out dlogits, Scratch) const;
  Needs needs(int) const { return Needs::input(0) | Needs::input(1) | Needs::input(2); }
  void grad(Back& back) const;
  Rows rows(const Carried& batch, int) const { return rule::by_rows(batch, 0b011); }
  std::uint32_t overwrites(int) const { return 0b001; }
};

// Losses of pairs of elements (kernels/loss.hpp has the formulas). x, t of one shape → sum, count.
using PairKind = kernels::ElementLoss::Kind;
constexpr const char* pair_name(PairKind kind, bool backward) {
  switch (kind) {
    case PairKind::binary_cross_entropy:
      return backward ? "binary_cross_entropy_backward" : "binary_cross_entropy";
    case PairKind::squared:
      return backward ? "mse_backward" : "mse";
    case PairKind::absolute:
      return backward ? "mae_backward" : "mae";
    default:
      return backward ? "huber_backward" : "huber";
  }
}

template <PairKind kKind>
struct PairLoss {
  static constexpr auto name = pair_name(kKind, false);
  double delta = 1;
  bool operator==(const PairLoss&) const = default;
  std::array<Spec, 2> shape(const Spec& x, const Spec& t) const;
  Cost cost(const Spec& x, const Spec& t) const;
  std::size_t scratch(const Spec& x, const Spec& t) const;
  void run(In x, In t, Out sum, Out count, Scratch scratch) const;
  Needs needs(int input) const {
    const bool linear = kKind == PairKind::binary_cross_entropy && input == 1;  // in its targets
    return linear ? Needs::input(0) : Needs::input(0) | Needs::input(1);
  }
  void grad(Back& back) const;
  Rows rows(const Carried& batch, int) const { return rule::summed(batch, 0b11); }
};

template <PairKind kKind>
struct PairLossBackward {  // x, t, gradient of the sum () → gradient of x
  static constexpr auto name = pair_name(kKind, true);
  double delta = 1;
  bool operator==(const PairLossBackward&) const = default;
  Spec shape(const Spec& x, const Spec& t, const Spec& dsum) const;
  Cost cost(const Spec& x, const Spec& t, const Spec& dsum) const;
  void run(In x, In t, In dsum, Out dx, Scratch) const;
  Needs needs(int) const { return Needs::input(0) | Needs::input(1) | Needs::input(2); }
  void grad(Back& back) const;
  Rows rows(const Carried& batch, int) const { return rule::apart(batch, 0b011); }
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

Loss mse(const Tensor& prediction, const Tensor& target);
Loss mae(const Tensor& prediction, const Tensor& target);
Loss huber(const Tensor& prediction, const Tensor& target, double delta = 1);

}  // namespace ebb
