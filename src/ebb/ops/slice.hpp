// Putting tensors together along an axis, and taking them apart: concat, stack, slice, split.
#pragma once

#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

struct Concat {  // inputs one after the other along an axis
  static constexpr auto name = "concat";
  static constexpr bool half = true;
  int axis = 0;  // from the front
  bool operator==(const Concat&) const = default;
  Spec shape(Specs in) const;
  Cost cost(Specs in) const;
  void run(Ins in, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    if (batch.in.size() > 31) return BatchRule::mixed;
    const std::uint32_t all = (1u << batch.in.size()) - 1;
    return rule::per_example(batch, all, axis > 0) | rule::linear(batch, all);
  }
};

struct Slice {  // x[…, begin : end : step, …] along one axis; of the first axis, a view
  static constexpr auto name = "slice";
  static constexpr bool half = true;
  int axis = 0;  // from the front
  std::int64_t begin = 0, end = 0, step = 1;
  bool operator==(const Slice&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  Tensor view(const Tensor& x) const;
  void run(In x, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b1, axis > 0) | rule::linear(batch, 0b1);
  }
};

struct Unslice {  // zeros, or the accumulator, with x added at a slice: the way back of slice
  static constexpr auto name = "unslice";
  Slice at{};
  std::int64_t size = 0;  // of the axis
  bool accumulate = false;
  bool operator==(const Unslice&) const = default;
  Spec shape(Specs in) const;  // x, accumulator
  Cost cost(Specs in) const;
  void run(Ins in, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    const std::uint32_t all = 0b01 | overwrites(0);
    return rule::per_example(batch, all, at.axis > 0) | rule::linear(batch, all);
  }
  std::uint32_t overwrites(int) const { return accumulate ? 0b10 : 0; }
};

// x at a slice of an axis of `size`, zeros elsewhere; or added there to `into`.
Tensor unslice(const Tensor& x, const Slice& at, std::int64_t size, Tensor into = {});
// The first rows of a table: one call also where that is all of them, so that a compiled function which reads
// fewer for a shorter input does the same calls.
Tensor first_rows(const Tensor& table, std::int64_t rows);

}  // namespace ebb::ops

namespace ebb {

inline constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

using Dims = std::initializer_list<std::int64_t>;

Tensor concat(std::span<const Tensor> parts, int axis = 0);
inline Tensor concat(std::initializer_list<Tensor> parts, int axis = 0) {
  return concat(std::span(parts.begin(), parts.size()), axis);
}
Tensor stack(std::span<const Tensor> parts, int axis = 0);  // along a new axis
inline Tensor stack(std::initializer_list<Tensor> parts, int axis = 0) {
  return stack(std::span(parts.begin(), parts.size()), axis);
}
std::vector<Tensor> split(const Tensor& x, int parts, int axis = 0);  // of equal size
std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, int axis = 0);
inline std::vector<Tensor> split(const Tensor& x, Dims sizes, int axis = 0) {
  return split(x, std::span(sizes.begin(), sizes.size()), axis);
}

// [begin, end) of an axis, every step-th; negative positions count from the back. A position beyond
// either end is an Error: it is not moved to the end as in NumPy, whose name here is kEnd.
Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end = kEnd,
             std::int64_t step = 1);

}  // namespace ebb
