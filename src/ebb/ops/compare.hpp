// Comparisons, logic, and choosing by a condition; broadcast. Truth values have no gradient.
#pragma once

#include "ebb/base/math_functions.hpp"
#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

namespace compare_detail {

constexpr const char* name_of(math::Compare f) {
  using enum math::Compare;
  switch (f) {
    case eq:
      return "equal";
    case ne:
      return "not_equal";
    case lt:
      return "less";
    case le:
      return "less_equal";
    case gt:
      return "greater";
    case ge:
      return "greater_equal";
  }
  return "";
}
constexpr const char* name_of(math::Logic f) {
  using enum math::Logic;
  return f == and_ ? "logical_and" : f == or_ ? "logical_or" : "logical_xor";
}

}  // namespace compare_detail

template <math::Compare kFunction>
struct Compare {  // of two tensors of one type, any; gives bools
  static constexpr auto name = compare_detail::name_of(kFunction);
  static constexpr bool elementwise = true;
  static constexpr bool half = true;
  bool operator==(const Compare&) const = default;
  Spec shape(const Spec& a, const Spec& b) const;
  Cost cost(const Spec& a, const Spec& b) const;
  void run(In a, In b, Out y, Scratch) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const { return rule::broadcast(batch); }
  std::uint32_t overwrites(int) const { return 0b11; }
};

template <math::Logic kFunction>
struct Logic {  // of bools
  static constexpr auto name = compare_detail::name_of(kFunction);
  static constexpr bool elementwise = true;
  bool operator==(const Logic&) const = default;
  Spec shape(const Spec& a, const Spec& b) const;
  Cost cost(const Spec& a, const Spec& b) const;
  void run(In a, In b, Out y, Scratch) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const { return rule::broadcast(batch); }
  std::uint32_t overwrites(int) const { return 0b11; }
};

struct Where {  // y = condition ? a : b. Kept: the condition
  static constexpr auto name = "where";
  static constexpr bool elementwise = true;
  static constexpr bool half = true;
  bool operator==(const Where&) const = default;
  Spec shape(const Spec& condition, const Spec& a, const Spec& b) const;
  Cost cost(const Spec& condition, const Spec& a, const Spec& b) const;
  void run(In condition, In a, In b, Out y, Scratch) const;
  Needs needs(int) const { return Needs::input(0); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const { return rule::broadcast(batch); }
  std::uint32_t overwrites(int) const { return 0b111; }
};

}  // namespace ebb::ops

namespace ebb {

// NaN is unequal to everything, itself included, and neither less nor greater than anything.
// Integers of different types, bool among them, are compared as i64; floats only with their own.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

}  // namespace ebb
