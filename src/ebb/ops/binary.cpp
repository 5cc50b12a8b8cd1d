#include "ebb/ops/binary.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/kernels/elementwise.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/tensor/constant.hpp"

namespace ebb {

using namespace ops;

Shape ops::broadcast_shape(const char* op, const Spec& a, const Spec& b) {
  if (a.shape == b.shape) return a.shape;
  const int rank = std::max(a.rank(), b.rank());
  std::int64_t dims[Shape::kMaxRank];
  for (int back = 1; back <= rank; ++back) {
    const std::int64_t m = back <= a.rank() ? a.shape[a.rank() - back] : 1;
    const std::int64_t n = back <= b.rank() ? b.shape[b.rank() - back] : 1;
    if (m != n && m != 1 && n != 1) {
      throw Error(fmt::format("{}: {} and {} do not broadcast: axis -{} is {} and {}", op,
                              to_string(a), to_string(b), back, m, n));
    }
    dims[rank - back] = m == 1 ? n : m;
  }
  return Shape(std::span<const std::int64_t>(dims, static_cast<std::size_t>(rank)));
}

namespace {

// A number beside a tensor: of its type.
Tensor number(const char* op, double value, const Tensor& beside) {
  check_constant(op, value, beside.dtype());
  return Tensor::scalar(value, beside.dtype());
}

Tensor zero_of(const Tensor& t) { return Tensor::scalar(0, t.dtype()); }

// Gives input i its gradient, summed over the axes it was broadcast along.
void give_summed(Back& back, int i, const Tensor& gradient) {
  const Shape& to = back.in_spec(i).shape;
  back.give(i, gradient.shape() == to ? gradient : sum_to(gradient, to, back.take(i)));
}

struct Facts {
  bool takes_integers;
  double flops;  // of one element, roughly, for the planner
};

// Each asks for its line here: there is no default.
constexpr Facts facts(math::Binary f) {
  using enum math::Binary;
  switch (f) {
    case add:
    case sub:
    case mul:
    case div:
    case minimum:
    case maximum:
      return {true, 1};
    case pow:
      return {false, 80};
  }
  return {false, 1};
}

}  // namespace

template <math::Binary kFunction>
Spec Binary<kFunction>::shape(const Spec& a, const Spec& b) const {
  if (a.dtype != b.dtype) {
    throw Error(
        fmt::format("{}: {} and {} differ in type; cast one", name, to_string(a), to_string(b)));
  }
  check_number(name, a, facts(kFunction).takes_integers);
  return {broadcast_shape(name, a, b), a.dtype};
}

template <math::Binary kFunction>
Cost Binary<kFunction>::cost(const Spec& a, const Spec& b) const {
  const Spec y{broadcast_shape(name, a, b), a.dtype};
  return {facts(kFunction).flops * static_cast<double>(y.size()),
          static_cast<double>(a.bytes() + b.bytes() + y.bytes())};
}

template <math::Binary kFunction>
void Binary<kFunction>::run(In a, In b, Out y, Scratch) const {
  const kernels::Broadcast<2> walk =
      a.shape() == b.shape()
          ? kernels::same_shape<2>(static_cast<std::size_t>(y.size()))
          : kernels::broadcast<2>(y.shape().dims(), {a.shape().dims(), b.shape().dims()});
  with_number<facts(kFunction).takes_integers>(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::binary(kFunction, walk, a.as<T>(), b.as<T>(), y.as<T>());
  });
}

template <math::Binary kFunction>
void Binary<kFunction>::grad(Back& back) const {
  const Tensor& d = back.d();
  const auto a = [&]() -> const Tensor& { return back.in(0); };
  const auto b = [&]() -> const Tensor& { return back.in(1); };
  if (back.wants(0)) {
    switch (kFunction) {
      case math::Binary::add:
      case math::Binary::sub:
        give_summed(back, 0, d);
        break;
      case math::Binary::mul:
        give_summed(back, 0, d * b());
        break;
      case math::Binary::div:
        give_summed(back, 0, d / b());
        break;
      case math::Binary::pow: {  // b a^(b - 1); 0 where b is, also of the bases 0 and NaN
        const Tensor zero = zero_of(d), one = Tensor::scalar(1, d.dtype());
        const Tensor apart = logical_or(less(a(), zero), greater(a(), zero));
        const Tensor flat = logical_and(equal(b(), zero), logical_not(apart));
        const Tensor slope = b() * pow(where(flat, one, a()), b() - 1.0);
        give_summed(back, 0, d * where(flat, zero, slope));
        break;
      }
      case math::Binary::minimum:
        give_summed(back, 0, where(less_equal(a(), b()), d, zero_of(d)));
        break;
      case math::Binary::maximum:
        give_summed(back, 0, where(greater_equal(a(), b()), d, zero_of(d)));
    }
  }
  if (back.wants(1)) {
    switch (kFunction) {
      case math::Binary::add:
        give_summed(back, 1, d);
        break;
      case math::Binary::sub:
        give_summed(back, 1, neg(d));
        break;
      case math::Binary::mul:
        give_summed(back, 1, d * a());
        break;
      case math::Binary::div:
        give_summed(back, 1, neg(d * back.out() / b()));
        break;
      case math::Binary::pow: {  // a^b log(a), which is 0 where a is 0 and b is not below it
        const Tensor zero = zero_of(d);
        const Tensor is_zero = logical_and(equal(a(), zero), greater_equal(b(), zero));
        const Tensor base = where(is_zero, Tensor::scalar(1, d.dtype()), a());
        give_summed(back, 1, d * where(is_zero, zero, pow(base, b()) * log(base)));
        break;
      }
      case math::Binary::minimum:
        give_summed(back, 1, where(less_equal(a(), b()), zero_of(d), d));
        break;
      case math::Binary::maximum:
        give_summed(back, 1, where(greater_equal(a(), b()), zero_of(d), d));
    }
  }
}

template struct ops::Binary<math::Binary::add>;
template struct ops::Binary<math::Binary::sub>;
template struct ops::Binary<math::Binary::mul>;
template struct ops::Binary<math::Binary::div>;
template struct ops::Binary<math::Binary::pow>;
template struct ops::Binary<math::Binary::minimum>;
template struct ops::Binary<math::Binary::maximum>;

Tensor add(const Tensor& a, const Tensor& b) { return apply(Add{}, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return apply(Sub{}, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return apply(Mul{}, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return apply(Div{}, a, b); }
Tensor pow(const Tensor& a, const Tensor& b) { return apply(Pow{}, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return apply(Minimum{}, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return apply(Maximum{}, a, b); }
Tensor pow(const Tensor& a, double b) { return pow(a, Tensor::scalar(b, a.dtype())); }

Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
Tensor operator-(const Tensor& a) { return neg(a); }
Tensor operator+(const Tensor& a, double b) { return add(a, number("add", b, a)); }
Tensor operator-(const Tensor& a, double b) { return sub(a, number("sub", b, a)); }
Tensor operator*(const Tensor& a, double b) { return mul(a, number("mul", b, a)); }
Tensor operator/(const Tensor& a, double b) { return div(a, number("div", b, a)); }
Tensor operator+(double a, const Tensor& b) { return add(number("add", a, b), b); }
Tensor operator-(double a, const Tensor& b) { return sub(number("sub", a, b), b); }
Tensor operator*(double a, const Tensor& b) { return mul(number("mul", a, b), b); }
Tensor operator/(double a, const Tensor& b) { return div(number("div", a, b), b); }

Tensor& operator+=(Tensor& a, const Tensor& b) { return a = a + b; }
Tensor& operator-=(Tensor& a, const Tensor& b) { return a = a - b; }
Tensor& operator*=(Tensor& a, const Tensor& b) { return a = a * b; }
Tensor& operator/=(Tensor& a, const Tensor& b) { return a = a / b; }
Tensor& operator+=(Tensor& a, double b) { return a = a + b; }
Tensor& operator-=(Tensor& a, double b) { return a = a - b; }
Tensor& operator*=(Tensor& a, double b) { return a = a * b; }
Tensor& operator/=(Tensor& a, double b) { return a = a / b; }

}  // namespace ebb
