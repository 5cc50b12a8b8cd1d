// Functions of one tensor, element by element.
//
// All are one struct template over the kernel's function; what sets one apart is a line in each of
// the small tables in unary.cpp. Kept for the way back: as stated at `needs`, the output where it
// suffices, else the input.
#pragma once

#include "ebb/base/math_functions.hpp"
#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

namespace unary_detail {

constexpr const char* name_of(math::Unary f) {
  using enum math::Unary;
  switch (f) {
    case neg:
      return "neg";
    case abs:
      return "abs";
    case sign:
      return "sign";
    case exp:
      return "exp";
    case log:
      return "log";
    case log1p:
      return "log1p";
    case expm1:
      return "expm1";
    case sqrt:
      return "sqrt";
    case rsqrt:
      return "rsqrt";
    case square:
      return "square";
    case reciprocal:
      return "reciprocal";
    case sin:
      return "sin";
    case cos:
      return "cos";
    case tanh:
      return "tanh";
    case erf:
      return "erf";
    case sigmoid:
      return "sigmoid";
    case softplus:
      return "softplus";
    case relu:
      return "relu";
    case leaky_relu:
      return "leaky_relu";
    case elu:
      return "elu";
    case gelu:
      return "gelu";
    case gelu_tanh:
      return "gelu_tanh";
    case silu:
      return "silu";
    case clip:
      return "clip";
  }
  return "";
}

constexpr const char* name_of(math::UnaryGrad f) {
  using enum math::UnaryGrad;
  switch (f) {
    case relu:
      return "relu_backward";
    case leaky_relu:
      return "leaky_relu_backward";
    case elu:
      return "elu_backward";
    case tanh:
      return "tanh_backward";
    case sigmoid:
      return "sigmoid_backward";
    case softplus:
      return "softplus_backward";
    case gelu:
      return "gelu_backward";
    case gelu_tanh:
      return "gelu_tanh_backward";
    case silu:
      return "silu_backward";
    case erf:
      return "erf_backward";
    case abs:
      return "abs_backward";
    case clip:
      return "clip_backward";
  }
  return "";
}

// What the gradient reads: nothing of neg and sign; the output where that suffices; else the input.
constexpr Needs needs_of(math::Unary f) {
  using enum math::Unary;
  switch (f) {
    case neg:
    case sign:
      return Needs::nothing();
    case exp:
    case expm1:
    case sqrt:
    case rsqrt:
    case reciprocal:
    case tanh:
    case sigmoid:
    case relu:
    case leaky_relu:
    case elu:
      return Needs::output();
    default:
      return Needs::input(0);
  }
}

}  // namespace unary_detail

template <math::Unary kFunction>
struct Unary {  // y = f(x)
  static constexpr auto name = unary_detail::name_of(kFunction);
  static constexpr bool elementwise = true;
  static constexpr bool half = true;
  double a = 0, b = 0;  // slope, alpha or limits, where the function has such
  bool operator==(const Unary&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  Needs needs(int) const { return unary_detail::needs_of(kFunction); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::broadcast(batch) | rule::linear(batch, 0b1, kFunction == math::Unary::neg);
  }
  std::uint32_t overwrites(int) const { return 0b1; }
};

template <math::UnaryGrad kFunction>
struct UnaryBackward {  // saved, dy: dx = dy * f'. Saved is what f's `needs` says
  static constexpr auto name = unary_detail::name_of(kFunction);
  static constexpr bool elementwise = true;
  static constexpr bool half = true;
  double a = 0, b = 0;
  bool operator==(const UnaryBackward&) const = default;
  Spec shape(const Spec& saved, const Spec& dy) const;
  Cost cost(const Spec& saved, const Spec& dy) const;
  void run(In saved, In dy, Out dx, Scratch) const;
  Needs needs(int input) const {
    return input == 0 ? Needs::input(0) | Needs::input(1) : Needs::input(0);
  }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::broadcast(batch) | rule::linear(batch, 0b10);
  }
  std::uint32_t overwrites(int) const { return 0b11; }
};

struct LogicalNot {  // of bools
  static constexpr auto name = "logical_not";
  static constexpr bool elementwise = true;
  bool operator==(const LogicalNot&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const { return rule::broadcast(batch); }
  std::uint32_t overwrites(int) const { return 0b1; }
};

// dy f'(...), from what the function keeps: see math::UnaryGrad.
Tensor unary_backward(math::UnaryGrad f, const Tensor& saved, Tensor dy, double a = 0,
                      double b = 0);

}  // namespace ebb::ops

namespace ebb {

// neg, abs, sign, square, relu and clip also take integers.
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);  // -1, 0 or 1
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor softplus(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1);
Tensor gelu(const Tensor& x);                        // x Phi(x)
Tensor gelu_tanh(const Tensor& x);                   // its approximation by tanh
Tensor silu(const Tensor& x);                        // x sigmoid(x)
Tensor clip(const Tensor& x, double lo, double hi);  // limits of integers: see Tensor::full
Tensor logical_not(const Tensor& x);

}  // namespace ebb
