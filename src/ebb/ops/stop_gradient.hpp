// The same value, with no way back.
#pragma once

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

struct StopGradient {  // y = x; no gradient passes
  static constexpr auto name = "stop_gradient";
  static constexpr bool half = true;
  bool operator==(const StopGradient&) const = default;
  Spec shape(const Spec& x) const { return x; }
  Cost cost(const Spec& x) const { return {0, 2.0 * static_cast<double>(x.bytes())}; }
  Tensor view(const Tensor& x) const { return x.viewed(x.shape()); }
  void run(In x, Out y, Scratch) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::broadcast(batch) | rule::linear(batch, 0b1);
  }
};

}  // namespace ebb::ops

namespace ebb {

Tensor stop_gradient(const Tensor& x);

}  // namespace ebb
