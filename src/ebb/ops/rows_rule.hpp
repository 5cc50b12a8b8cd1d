// The usual answers to Rows (ops/op.hpp). For the files that define ops, which join them by `|`:
//
//   Rows rows(const Carried& batch, int) const {
//     return rule::apart(batch, 0b01, axis > 0) | rule::linear(batch, 0b01);
//   }
//
// Sets of inputs are bits, as in Carried: bit i is input i.
#pragma once

#include "ebb/ops/op.hpp"

namespace ebb::ops {

// What either says; no two rules of an op hold at once.
constexpr Rows operator|(Rows a, Rows b) { return a == Rows::mixed ? b : a; }

namespace rule {

// Example by example, where these inputs carry the batch and the others are the same for all.
inline Rows apart(const Carried& batch, std::uint32_t inputs, bool holds = true) {
  return holds && batch.carry == inputs && batch.sums == 0 ? Rows::apart : Rows::mixed;
}

// The same for ops along the last axis of their first input: rows are what is in front of it.
inline Rows by_rows(const Carried& batch, std::uint32_t inputs) {
  return apart(batch, inputs, batch.in[0].rank() > 1);
}

// A sum over the examples of these inputs, going on from `accumulator` where there is one.
inline Rows summed(const Carried& batch, std::uint32_t inputs, std::uint32_t accumulator = 0,
                   bool holds = true) {
  return holds && batch.carry == inputs && batch.sums == accumulator ? Rows::summed : Rows::mixed;
}

// Linear in these inputs together: what it makes of sums is a sum.
inline Rows linear(const Carried& batch, std::uint32_t inputs, bool holds = true) {
  return summed(batch, 0, inputs, holds);
}

// All inputs, broadcast to one shape: those that carry the batch reach to its first axis and along
// it, the others do not.
inline Rows broadcast(const Carried& batch) {
  int rank = 0;
  for (const Spec& x : batch.in) rank = x.rank() > rank ? x.rank() : rank;
  if (rank == 0 || batch.carry == 0 || batch.sums != 0) return Rows::mixed;
  std::int64_t rows = 1;
  for (const Spec& x : batch.in)
    if (x.rank() == rank && x.shape[0] != 1) rows = x.shape[0];
  for (std::size_t i = 0; i < batch.in.size(); ++i) {
    const Spec& x = batch.in[i];
    const bool along = x.rank() == rank && x.shape[0] == rows;
    const bool beside = x.rank() < rank || x.shape[0] == 1;
    if (!(batch.carries(i) ? along : beside)) return Rows::mixed;
  }
  return Rows::apart;
}

}  // namespace rule
}  // namespace ebb::ops
