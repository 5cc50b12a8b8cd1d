// Softmax and its logarithm. Kept for the way back: the result.
#pragma once

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

struct Softmax {  // over the last axis
  static constexpr auto name = "softmax";
  bool operator==(const Softmax&) const = default;
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

struct SoftmaxBackward {  // y, dy: y * (dy - sum(y * dy))
  static constexpr auto name = "softmax_backward";
  bool operator==(const SoftmaxBackward&) const = default;
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

struct LogSoftmax {  // over the last axis
  static constexpr auto name = "log_softmax";
  bool operator==(const LogSoftmax&) const = default;
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

struct LogSoftmaxBackward {  // y, dy: dy - e^y * sum(dy)
  static constexpr auto name = "log_softmax_backward";
  bool operator==(const LogSoftmaxBackward&) const = default;
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

// From the result y of the forward op, over the last axis.
Tensor softmax_backward(const Tensor& y, const Tensor& dy);
Tensor log_softmax_backward(const Tensor& y, const Tensor& dy);

}  // namespace ebb::ops

namespace ebb {

Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);

}  // namespace ebb
