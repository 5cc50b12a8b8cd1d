// Dropout: no mask is kept, it is drawn again on the way back.
#pragma once

#include "ebb/ops/op.hpp"

namespace ebb {

struct DropoutOp {  // x, key i64(3) = (seed, step, row0): y = x / (1 - rate) where kept, else 0
  static constexpr auto name = "dropout";
  float rate = 0;
  std::uint64_t stream = 0;
  bool operator==(const DropoutOp&) const = default;
  Spec shape(const Spec& x, const Spec& key) const;
  Cost cost(const Spec& x, const Spec& key) const;
  void run(In x, In key, Out y, Scratch) const;
  Needs needs(int) const { return Needs::input(1); }
  void grad(Back& back) const;
};

// Drops each element with probability `rate`, as this thread's random state says (ops/random.hpp).
Tensor dropout(const Tensor& x, double rate);

}  // namespace ebb
