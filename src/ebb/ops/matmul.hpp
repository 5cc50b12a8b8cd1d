// Matrix products: matmul over the last two axes, and linear, the product of a dense layer with its
// bias and activation in one go.
//
// Types: both of one type, which is the result's too; or one of f32 and one of 16 bits, which gives
// f32. 16-bit values are widened as they are read and sums are kept in f32.
#pragma once

#include <optional>

#include "ebb/base/math_functions.hpp"
#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb {

struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;
};

}  // namespace ebb

namespace ebb::ops {

// (…, m, k) · (…, k, n) → (…, m, n); leading axes broadcast. Inputs: a, b and, with `accumulate`,
// what the sum starts from: one chain for each element, so that a sum over k in parts, each
// starting from the last, has the bits of the whole.
struct Matmul {
  static constexpr auto name = "matmul";
  static constexpr bool half = true;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  bool operator==(const Matmul&) const = default;
  Spec shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out y, Scratch scratch) const;
  Needs needs(int input) const { return input == 2 ? Needs::nothing() : Needs::input(1 - input); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const;
  std::uint32_t overwrites(int) const { return accumulate ? 0b100 : 0; }
  std::optional<std::uint32_t> row_block_inputs(Specs in) const;  // ebb/ops/row_block.hpp
  std::size_t row_block_scratch(Specs in, std::int64_t rows) const;
  void run_row_block(Ins in, Out rows, std::int64_t first, Scratch scratch) const;
};

// x (…, in) · weightᵀ (out, in) + bias (out), activated. Inputs: x, weight and, where there is one,
// bias. Kept for the activation's gradient: the result (relu, tanh, sigmoid).
struct Linear {
  static constexpr auto name = "linear";
  static constexpr bool half = true;
  Activation activation = Activation::none;
  bool operator==(const Linear&) const = default;
  Spec shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out y, Scratch scratch) const;
  Needs needs(int input) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const;
};

// As Linear, with a second result for the gradients that need it (gelu, silu): the value before the
// activation, of the result's type. `linear` makes it only while somebody records.
struct LinearKeepingPre {
  static constexpr auto name = "linear_keeping_pre";
  static constexpr bool half = true;
  Activation activation = Activation::gelu;
  bool operator==(const LinearKeepingPre&) const = default;
  std::array<Spec, 2> shape(Specs in) const;
  Cost cost(Specs in) const;
  std::size_t scratch(Specs in) const;
  void run(Ins in, Out y, Out pre, Scratch scratch) const;
  Needs needs(int input) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::along_last_axis(batch, 0b001);
  }
};

}  // namespace ebb::ops

namespace ebb {

Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {});

// into + a · b; `into` may be no tensor at all. Its bytes become the result's where nobody else
// holds them.
Tensor matmul_into(Tensor into, const Tensor& a, const Tensor& b, MatmulOptions options = {});

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              Activation activation = Activation::none);

}  // namespace ebb
