// Picking rows by index, and the way back: adding rows where they were picked.
//
// Indices are i32, i64 or u8 and count from 0; one that is out of range is refused when it is met.
// What is added to one element is added in the order of the indices, starting from what is there.
#pragma once

#include <optional>

#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

struct Gather {  // x (front…, n, rest…), indices (i…) → (front…, i…, rest…)
  static constexpr auto name = "gather";
  static constexpr bool half = true;
  int axis = 0;  // of x, from the front
  bool operator==(const Gather&) const = default;
  Spec shape(const Spec& x, const Spec& indices) const;
  Cost cost(const Spec& x, const Spec& indices) const;
  void run(In x, In indices, Out y, Scratch) const;
  Needs needs(int) const { return Needs::input(1); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const;
};

struct ScatterAdd {  // indices (i…), updates (front…, i…, rest…)[, accumulator] → (front…, size,
                     // rest…)
  static constexpr auto name = "scatter_add";
  static constexpr bool half = true;
  int axis = 0;           // of the result, from the front
  std::int64_t size = 0;  // of that axis
  bool accumulate = false;
  bool operator==(const ScatterAdd&) const = default;
  Spec shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out y, Scratch scratch) const;
  Needs needs(int input) const { return input == 1 ? Needs::input(0) : Needs::nothing(); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const;
  std::uint32_t overwrites(int) const { return accumulate ? 0b100 : 0; }
  std::optional<std::uint32_t> row_block_inputs(Specs in) const;  // ebb/ops/row_block.hpp
  std::size_t row_block_scratch(Specs, std::int64_t) const { return 0; }
  void run_row_block(Ins in, Out rows, std::int64_t first, Scratch) const;
};

struct TakeAlong {  // y[…, j, …] = x[…, indices[…, j, …], …]; shapes agree beside the axis
  static constexpr auto name = "take_along";
  static constexpr bool half = true;
  int axis = 0;  // from the front
  bool operator==(const TakeAlong&) const = default;
  Spec shape(const Spec& x, const Spec& indices) const;
  Cost cost(const Spec& x, const Spec& indices) const;
  void run(In x, In indices, Out y, Scratch) const;
  Needs needs(int) const { return Needs::input(1); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b11, axis > 0) | rule::linear(batch, 0b01);
  }
};

struct PutAlongAdd {  // indices, updates[, accumulator]: y[…, indices[…, j, …], …] += updates[…, j,
                      // …]
  static constexpr auto name = "put_along_add";
  int axis = 0;           // from the front
  std::int64_t size = 0;  // of that axis of the result
  bool accumulate = false;
  bool operator==(const PutAlongAdd&) const = default;
  Spec shape(Specs in) const;
  Cost cost(Specs in) const;
  void run(Ins in, Out y, Scratch) const;
  Needs needs(int input) const { return input == 1 ? Needs::input(0) : Needs::nothing(); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const;
  std::uint32_t overwrites(int) const { return accumulate ? 0b100 : 0; }
};

struct OneHot {  // ids (i…) → (i…, depth): 1 at the id, 0 elsewhere; no gradient
  static constexpr auto name = "one_hot";
  std::int64_t depth = 0;
  DType dtype = DType::f32;
  bool operator==(const OneHot&) const = default;
  Spec shape(const Spec& ids) const;
  Cost cost(const Spec& ids) const;
  void run(In ids, Out y, Scratch) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b1);
  }
};

}  // namespace ebb::ops

namespace ebb {

Tensor gather(const Tensor& x, const Tensor& indices, int axis = 0);
Tensor embedding(const Tensor& weight, const Tensor& ids);  // rows of weight (rows, width)

// base with updates (i…, rest…) added to the rows indices (i…) of its first axis.
Tensor scatter_add(Tensor base, const Tensor& indices, const Tensor& updates);
// The same along any axis of `size`, starting from zeros or from `into`.
Tensor scatter_add_along(const Tensor& indices, const Tensor& updates, int axis, std::int64_t size,
                         Tensor into = {});

Tensor take_along(const Tensor& x, const Tensor& indices, int axis);
Tensor put_along_add(const Tensor& indices, const Tensor& updates, int axis, std::int64_t size,
                     Tensor into = {});

Tensor one_hot(const Tensor& ids, std::int64_t depth, DType dtype = DType::f32);

}  // namespace ebb
