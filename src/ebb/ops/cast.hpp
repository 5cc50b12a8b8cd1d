// Conversion between element types.
#pragma once

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

struct Cast {  // y = x in another type; the gradient is cast back
  static constexpr auto name = "cast";
  static constexpr bool elementwise = true;
  static constexpr bool half = true;
  DType to = DType::f32;
  bool operator==(const Cast&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::broadcast(batch) | rule::linear(batch, 0b1, is_float(to));
  }
};

}  // namespace ebb::ops

namespace ebb {

Tensor cast(const Tensor& x, DType to);  // x itself when it is of that type already

}  // namespace ebb
