// All are one struct template over math::Binary; a new one is a line in each switch here and in binary.cpp.
//
// Arithmetic of two tensors of one type, broadcast as in NumPy: axes are aligned at the last, and
// a size of 1 stands for any. Kept for the way back: nothing of add and sub, the other operand of
// mul.
#pragma once

#include "ebb/base/math_functions.hpp"
#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

// The shape two operands broadcast to. Throws, naming `op` and both, where they do not.
Shape broadcast_shape(const char* op, const Spec& a, const Spec& b);

namespace binary_detail {

constexpr const char* name_of(math::Binary f) {
  using enum math::Binary;
  switch (f) {
    case add:
      return "add";
    case sub:
      return "sub";
    case mul:
      return "mul";
    case div:
      return "div";
    case pow:
      return "pow";
    case minimum:
      return "minimum";
    case maximum:
      return "maximum";
  }
  return "";
}

// Of sums: their sum and difference, and what a factor makes of them.
inline BatchRule rule_of_sums(math::Binary f, const BatchInputs& batch) {
  using enum math::Binary;
  const bool scales = f == mul || (f == div && is_float(batch.in[0].dtype));
  return rule::linear(batch, 0b11, f == add || f == sub) | rule::linear(batch, 0b01, scales) |
         rule::linear(batch, 0b10, f == mul);
}

constexpr Needs needs_of(math::Binary f, int input) {
  using enum math::Binary;
  switch (f) {
    case add:
    case sub:
      return Needs::nothing();
    case mul:
      return Needs::input(1 - input);
    case div:
      return input == 0 ? Needs::input(1) : Needs::input(1) | Needs::output();
    default:
      return Needs::input(0) | Needs::input(1);
  }
}

}  // namespace binary_detail

template <math::Binary kFunction>
struct Binary {  // y = f(a, b)
  static constexpr auto name = binary_detail::name_of(kFunction);
  static constexpr bool elementwise = true;
  static constexpr bool half = true;
  bool operator==(const Binary&) const = default;
  Spec shape(const Spec& a, const Spec& b) const;
  Cost cost(const Spec& a, const Spec& b) const;
  void run(In a, In b, Out y, Scratch) const;
  Needs needs(int input) const { return binary_detail::needs_of(kFunction, input); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::broadcast(batch) | binary_detail::rule_of_sums(kFunction, batch);
  }
  std::uint32_t overwrites(int) const { return 0b11; }
};

using Add = Binary<math::Binary::add>;
using Sub = Binary<math::Binary::sub>;
using Mul = Binary<math::Binary::mul>;
using Div = Binary<math::Binary::div>;
using Pow = Binary<math::Binary::pow>;
using Minimum = Binary<math::Binary::minimum>;
using Maximum = Binary<math::Binary::maximum>;

}  // namespace ebb::ops

namespace ebb {

// All but pow also take i32 and i64; their div is toward zero, and 0 where the divisor is.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);  // of equals the gradient goes to a
Tensor maximum(const Tensor& a, const Tensor& b);

Tensor pow(const Tensor& a, double b);

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a);

// A number takes the tensor's type; of integers it must be one of them (Tensor::full).
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);

// a becomes a handle to the result: whoever else holds a's value keeps it as it is.
Tensor& operator+=(Tensor& a, const Tensor& b);
Tensor& operator-=(Tensor& a, const Tensor& b);
Tensor& operator*=(Tensor& a, const Tensor& b);
Tensor& operator/=(Tensor& a, const Tensor& b);
Tensor& operator+=(Tensor& a, double b);
Tensor& operator-=(Tensor& a, double b);
Tensor& operator*=(Tensor& a, double b);
Tensor& operator/=(Tensor& a, double b);

}  // namespace ebb
