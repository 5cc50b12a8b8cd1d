#include "ebb/ops/compare.hpp"

#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/kernels/elementwise.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/tensor/with_type.hpp"

namespace ebb {

using namespace ops;

namespace {

void check_bool(const char* op, const Spec& x) {
  if (x.dtype != DType::boolean)
    throw Error(fmt::format("{}: {} is not bool; cast it first", op, to_string(x)));
}

Cost moved(const Spec& a, const Spec& b, const Spec& y) {
  return {static_cast<double>(y.size()), static_cast<double>(a.bytes() + b.bytes() + y.bytes())};
}

kernels::Broadcast<2> walk_of(const In& a, const In& b, const Out& y) {
  return kernels::broadcast<2>(y.shape().dims(), {a.shape().dims(), b.shape().dims()});
}

}  // namespace

template <math::Compare kFunction>
Spec Compare<kFunction>::shape(const Spec& a, const Spec& b) const {
  check_same_type(name, a, b);
  return {broadcast_shape(name, a, b), DType::boolean};
}
template <math::Compare kFunction>
Cost Compare<kFunction>::cost(const Spec& a, const Spec& b) const {
  return moved(a, b, shape(a, b));
}
template <math::Compare kFunction>
void Compare<kFunction>::run(In a, In b, Out y, Scratch) const {
  with_type(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::compare(kFunction, walk_of(a, b, y), a.as<T>(), b.as<T>(), y.as<bool>());
  });
}

template <math::Logic kFunction>
Spec Logic<kFunction>::shape(const Spec& a, const Spec& b) const {
  check_bool(name, a);
  check_bool(name, b);
  return {broadcast_shape(name, a, b), DType::boolean};
}
template <math::Logic kFunction>
Cost Logic<kFunction>::cost(const Spec& a, const Spec& b) const {
  return moved(a, b, shape(a, b));
}
template <math::Logic kFunction>
void Logic<kFunction>::run(In a, In b, Out y, Scratch) const {
  kernels::logic(kFunction, walk_of(a, b, y), a.as<bool>(), b.as<bool>(), y.as<bool>());
}

Spec Where::shape(const Spec& condition, const Spec& a, const Spec& b) const {
  check_bool(name, condition);
  check_same_type(name, a, b);
  const Spec values{broadcast_shape(name, a, b), a.dtype};
  return {broadcast_shape(name, condition, values), a.dtype};
}
Cost Where::cost(const Spec& condition, const Spec& a, const Spec& b) const {
  Cost cost = moved(a, b, shape(condition, a, b));
  cost.bytes += static_cast<double>(condition.bytes());
  return cost;
}
void Where::run(In condition, In a, In b, Out y, Scratch) const {
  const auto walk = kernels::broadcast<3>(
      y.shape().dims(), {condition.shape().dims(), a.shape().dims(), b.shape().dims()});
  kernels::where(walk, size_of(y.dtype()), condition.as<bool>(), a.data, b.data, y.data);
}
void Where::grad(Back& back) const {
  const Tensor& d = back.d();
  const Tensor zero = Tensor::scalar(0, d.dtype());
  for (const int i : {1, 2}) {
    if (!back.wants(i)) continue;
    const Tensor g = i == 1 ? where(back.in(0), d, zero) : where(back.in(0), zero, d);
    const Shape& to = back.in_spec(i).shape;
    back.give(i, g.shape() == to ? g : sum_to(g, to, back.take(i)));
  }
}

namespace {

// Integers of different types, bool among them, are compared as i64.
template <math::Compare kFunction>
Tensor compare(const Tensor& a, const Tensor& b) {
  constexpr Compare<kFunction> op;
  if (a.dtype() == b.dtype() || is_float(a.dtype()) || is_float(b.dtype())) return apply(op, a, b);
  return apply(op, cast(a, DType::i64), cast(b, DType::i64));
}

}  // namespace

Tensor equal(const Tensor& a, const Tensor& b) { return compare<math::Compare::eq>(a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return compare<math::Compare::ne>(a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return compare<math::Compare::lt>(a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return compare<math::Compare::le>(a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return compare<math::Compare::gt>(a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return compare<math::Compare::ge>(a, b); }
Tensor logical_and(const Tensor& a, const Tensor& b) {
  return apply(Logic<math::Logic::and_>{}, a, b);
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return apply(Logic<math::Logic::or_>{}, a, b);
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return apply(Logic<math::Logic::xor_>{}, a, b);
}
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return apply(Where{}, condition, a, b);
}

}  // namespace ebb
