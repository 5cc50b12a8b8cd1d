// Reductions over any set of axes. The order of every sum is fixed (ebb/kernels/reduce.hpp).
#pragma once

#include <array>
#include <initializer_list>
#include <span>

#include "ebb/base/math_functions.hpp"
#include "ebb/ops/batch_rule.hpp"
#include "ebb/ops/op.hpp"

namespace ebb {

// Which axes to reduce: {0, -1}; without any, all of them.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : Axes({axis}) {}
  Axes(std::initializer_list<int> axes) : Axes(std::span(axes.begin(), axes.size())) {}
  explicit Axes(std::span<const int> axes);
  // Bit i: axis i. Throws, naming `op`, for an axis that is not there or is named twice.
  std::uint32_t mask(const char* op, int rank) const;

 private:
  std::array<int, Shape::kMaxRank> axes_{};
  int count_ = 0;
};

}  // namespace ebb

namespace ebb::ops {

namespace reduce_detail {
constexpr const char* name_of(math::Reduce f) {
  using enum math::Reduce;
  switch (f) {
    case sum:
      return "sum";
    case mean:
      return "mean";
    case max:
      return "max";
    case min:
      return "min";
    case prod:
      return "prod";
    case logsumexp:
      return "logsumexp";
    case var:
      return "var";
  }
  return "";
}
constexpr Needs needs_of(math::Reduce f) {
  using enum math::Reduce;
  switch (f) {
    case sum:
    case mean:
      return Needs::nothing();
    case max:
    case min:
    case logsumexp:
      return Needs::input(0) | Needs::output();
    default:
      return Needs::input(0);
  }
}
}  // namespace reduce_detail

template <math::Reduce kFunction>
struct Reduce {
  static constexpr auto name = reduce_detail::name_of(kFunction);
  static constexpr bool half = true;
  std::uint32_t axes = 0;  // bit i: axis i is reduced
  bool keepdims = false;
  double correction = 0;  // var divides by count - correction
  bool operator==(const Reduce&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  Needs needs(int) const { return reduce_detail::needs_of(kFunction); }
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    using enum math::Reduce;
    const bool over_examples = axes & 1;
    return rule::per_example(batch, 0b1, !over_examples) |
           rule::summed(batch, 0b1, 0, over_examples && kFunction == sum) |
           rule::linear(batch, 0b1, kFunction == sum || kFunction == mean);
  }
  AnyOp accumulating(Specs in, int output) const;
};

struct SumTo {  // x summed over the axes along which `to` was broadcast; added to the last input
  static constexpr auto name = "sum_to";
  static constexpr bool half = true;
  Shape to;
  bool accumulate = false;  // there is a second input, from whose value each chain starts
  bool operator==(const SumTo&) const = default;
  Spec shape(Specs in) const;
  Cost cost(Specs in) const;
  void run(Ins in, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const;
  std::uint32_t overwrites(int) const { return accumulate ? 0b10 : 0; }
  AnyOp for_examples(std::int64_t from, std::int64_t n) const;
  AnyOp accumulating(Specs, int output) const;
};

struct Argmax {  // i64: the place of the first largest element along an axis
  static constexpr auto name = "argmax";
  static constexpr bool half = true;
  int axis = 0;
  bool keepdims = false;
  bool operator==(const Argmax&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b1, axis > 0);
  }
};

struct Cumsum {  // running sums along an axis, from the front or from the back
  static constexpr auto name = "cumsum";
  static constexpr bool half = true;
  int axis = 0;
  bool reverse = false;
  bool operator==(const Cumsum&) const = default;
  Spec shape(const Spec& x) const;
  Cost cost(const Spec& x) const;
  void run(In x, Out y, Scratch) const;
  void grad(Back& back) const;
  BatchRule batch_rule(const BatchInputs& batch, int) const {
    return rule::per_example(batch, 0b1, axis > 0) | rule::linear(batch, 0b1);
  }
};

}  // namespace ebb::ops

namespace ebb {

// sum, max, min and prod also take i32 and i64.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdims = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdims = false);
Tensor max(const Tensor& x, const Axes& axes = {},
           bool keepdims = false);  // equals share the gradient
Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdims = false);
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdims = false);
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdims = false);
struct VarOptions {
  double correction = 0;  // 1 for the estimate from a sample
  bool keepdims = false;
};
Tensor var(const Tensor& x, const Axes& axes = {}, VarOptions options = {});
Tensor argmax(const Tensor& x, int axis = -1, bool keepdims = false);
Tensor cumsum(const Tensor& x, int axis, bool reverse = false);

// The inverse of broadcasting: x summed to a shape that broadcasts to x's, plus `into` where given.
// x itself when the shapes agree and there is nothing to add.
Tensor sum_to(const Tensor& x, const Shape& to, Tensor into = {});

}  // namespace ebb
