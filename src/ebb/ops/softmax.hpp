// Softmax and its logarithm. Kept for the way back: the result.
#pragma once

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

template <bool kLog>
struct SoftmaxOf {  // over the last axis
  static constexpr auto name = kLog ? "log_softmax" : "softmax";
  bool operator==(const SoftmaxOf&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  Needs needs(int) const { return Needs::output(); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::along_last_axis(batch, 0b1);
  }
  std::uint32_t overwrites(int) const { return 0b1; }
};
using Softmax = SoftmaxOf<false>;
using LogSoftmax = SoftmaxOf<true>;

template <bool kLog>
struct SoftmaxOfBackward {  // y, dy: y * (dy - sum(y * dy)), or dy - e^y * sum(dy) of the logarithm
  static constexpr auto name = kLog ? "log_softmax_backward" : "softmax_backward";
  bool operator==(const SoftmaxOfBackward&) const = default;
  Spec shape(const Spec& y, const Spec& dy) const;
  Cost cost(const Spec& y, const Spec& dy) const;
  void run(In y, In dy, Out dx, Scratch) const;
  Needs needs(int input) const {
    return input == 0 ? Needs::input(0) | Needs::input(1) : Needs::input(0);
  }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::along_last_axis(batch, 0b11);
  }
  std::uint32_t overwrites(int) const { return 0b11; }
};
using SoftmaxBackward = SoftmaxOfBackward<false>;
using LogSoftmaxBackward = SoftmaxOfBackward<true>;

// From the result y of the forward op, over the last axis.
Tensor softmax_backward(const Tensor& y, const Tensor& dy);
Tensor log_softmax_backward(const Tensor& y, const Tensor& dy);

}  // namespace ebb::ops

namespace ebb {

Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);

}  // namespace ebb
