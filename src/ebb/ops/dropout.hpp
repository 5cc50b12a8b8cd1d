// Dropout: no mask is kept, it is drawn again on the way back.
#pragma once

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

struct Dropout {  // x, key (ops/random.hpp): y = x / (1 - rate) where kept, else 0
  static constexpr auto name = "dropout";
  float rate = 0;
  std::uint64_t stream = 0;
  bool operator==(const Dropout&) const = default;
  Spec shape(const Spec& x, const Spec& key) const;
  Cost cost(const Spec& x, const Spec& key) const;
  void run(In x, In key, Out y, Scratch) const;
  Needs needs(int) const { return Needs::input(1); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    // The key, which knows the rows, may count as carrying the batch or not.
    return batch.carries(0) && batch.sums == 0 ? BatchRule::per_example : BatchRule::mixed;
  }
  std::uint32_t overwrites(int) const { return 0b1; }
};

}  // namespace ebb::ops

namespace ebb {

// Drops each element with probability `rate`, as this thread's random state says (ops/random.hpp).
Tensor dropout(const Tensor& x, double rate);

}  // namespace ebb
