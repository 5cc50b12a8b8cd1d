// The usual answers to BatchRule (ops/op.hpp). For the files that define ops, which join them by `|`:
//
//   BatchRule batch_rule(const BatchInputs& batch, int) const {
//     return rule::per_example(batch, 0b01, axis > 0) | rule::linear(batch, 0b01);
//   }
//
// Sets of inputs are bits, as in BatchInputs: bit i is input i.
#pragma once

#include "ebb/ops/op.hpp"

namespace ebb::ops {

// What either says; no two rules of an op hold at once.
constexpr BatchRule operator|(BatchRule a, BatchRule b) { return a == BatchRule::mixed ? b : a; }

namespace rule {

// Example by example, where these inputs carry the batch and the others are the same for all.
inline BatchRule per_example(const BatchInputs& batch, std::uint32_t inputs, bool holds = true) {
  return holds && batch.carry == inputs && batch.sums == 0 ? BatchRule::per_example
                                                           : BatchRule::mixed;
}

// The same for ops along the last axis of their first input: the examples are in front of it.
inline BatchRule along_last_axis(const BatchInputs& batch, std::uint32_t inputs) {
  return per_example(batch, inputs, batch.in[0].rank() > 1);
}

// A sum over the examples of these inputs, going on from `accumulator` where there is one.
inline BatchRule summed(const BatchInputs& batch, std::uint32_t inputs,
                        std::uint32_t accumulator = 0, bool holds = true) {
  return holds && batch.carry == inputs && batch.sums == accumulator ? BatchRule::summed
                                                                     : BatchRule::mixed;
}

// Linear in these inputs together: what it makes of sums is a sum.
inline BatchRule linear(const BatchInputs& batch, std::uint32_t inputs, bool holds = true) {
  return summed(batch, 0, inputs, holds);
}

// All inputs, broadcast to one shape: those that carry the batch reach to its first axis and along
// it, the others do not.
inline BatchRule broadcast(const BatchInputs& batch) {
  int rank = 0;
  for (const Spec& x : batch.in) rank = x.rank() > rank ? x.rank() : rank;
  if (rank == 0 || batch.carry == 0 || batch.sums != 0) return BatchRule::mixed;
  std::int64_t length = 1;
  for (const Spec& x : batch.in)
    if (x.rank() == rank && x.shape[0] != 1) length = x.shape[0];
  for (std::size_t i = 0; i < batch.in.size(); ++i) {
    const Spec& x = batch.in[i];
    const bool along = x.rank() == rank && x.shape[0] == length;
    const bool beside = x.rank() < rank || x.shape[0] == 1;
    if (!(batch.carries(i) ? along : beside)) return BatchRule::mixed;
  }
  return BatchRule::per_example;
}

// A shape whose first axis holds `from` examples, for `to` of them; none where it holds no whole ones.
inline std::optional<Shape> resized(const Shape& shape, std::int64_t from, std::int64_t to) {
  if (shape.rank() == 0 || shape[0] * to % from != 0) return {};
  return Spec{shape}.with_axis(0, shape[0] * to / from).shape;
}

}  // namespace rule
}  // namespace ebb::ops
