#include "ebb/ops/unary.hpp"

#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/kernels/elementwise.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/element_cases.hpp"

namespace ebb {

using namespace ops;

namespace {

constexpr bool takes_integers(math::Unary f) {
  using enum math::Unary;
  return f == neg || f == abs || f == sign || f == square || f == relu || f == clip;
}

// Rough flops of one element, for the planner.
constexpr double flops(math::Unary f) {
  using enum math::Unary;
  switch (f) {
    case neg:
    case abs:
    case sign:
    case square:
    case relu:
    case leaky_relu:
    case clip:
      return 1;
    case sqrt:
    case rsqrt:
    case reciprocal:
      return 4;
    case gelu:
    case erf:
      return 50;
    default:
      return 25;
  }
}

Tensor scalar_like(const Tensor& x, double value) { return Tensor::scalar(value, x.dtype()); }

template <math::UnaryGrad kFunction>
Tensor backward(const Tensor& saved, Tensor dy, double a = 0, double b = 0) {
  const Tensor* in[] = {&saved, &dy};
  return apply_all(UnaryBackward<kFunction>{a, b}, in, 1);
}

constexpr double kInvSqrt2Pi = 0.398942280401432678, kTwoOverSqrtPi = 1.12837916709551257;
constexpr double kGeluA = 1.59576912160573071,
                 kGeluB = 0.0713548162726002488;  // sigmoid(Ax + Bx^3)

// The derivative of a backward op's factor by what it saved; never asked for where it is zero.
Tensor slope_by_saved(math::UnaryGrad f, const Tensor& s) {
  const auto sigmoid_slope = [](const Tensor& y) { return y * (1.0 - y); };
  switch (f) {
    case math::UnaryGrad::tanh:
      return -2.0 * s;
    case math::UnaryGrad::sigmoid:
      return 1.0 - 2.0 * s;
    case math::UnaryGrad::elu:
      return where(greater(s, scalar_like(s, 0)), scalar_like(s, 0), scalar_like(s, 1));
    case math::UnaryGrad::softplus:
      return sigmoid_slope(sigmoid(s));
    case math::UnaryGrad::gelu:
      return kInvSqrt2Pi * exp(-0.5 * square(s)) * (2.0 - square(s));
    case math::UnaryGrad::gelu_tanh: {
      const Tensor y = sigmoid(s * (kGeluA + kGeluB * square(s))), slope = sigmoid_slope(y);
      const Tensor v1 = kGeluA + (3 * kGeluB) * square(s), v2 = (6 * kGeluB) * s;
      return slope * (2.0 * v1 + s * ((1.0 - 2.0 * y) * square(v1) + v2));
    }
    case math::UnaryGrad::silu: {
      const Tensor y = sigmoid(s);
      return sigmoid_slope(y) * (2.0 + s * (1.0 - 2.0 * y));
    }
    case math::UnaryGrad::erf:
      return (-2 * kTwoOverSqrtPi) * s * exp(-square(s));
    default:
      return {};
  }
}

constexpr bool is_linear(math::UnaryGrad f) {
  using enum math::UnaryGrad;
  return f == relu || f == leaky_relu || f == abs || f == clip;
}

}  // namespace

template <math::Unary kFunction>
Spec Unary<kFunction>::shape(const Spec& x) const {
  check_number(name, x, takes_integers(kFunction));
  if (kFunction == math::Unary::clip && !(a <= b))
    throw Error(fmt::format("clip: the limits {} and {} are not in order", a, b));
  if (kFunction == math::Unary::clip && !is_float(x.dtype) && std::ceil(a) > std::floor(b))
    throw Error(
        fmt::format("clip: no {} lies between the limits {} and {}", ebb::name(x.dtype), a, b));
  if (kFunction == math::Unary::leaky_relu && !(a >= 0))
    throw Error(fmt::format("leaky_relu: the slope is {}; expected 0 or more", a));
  if (kFunction == math::Unary::elu && !(a >= 0))
    throw Error(fmt::format("elu: alpha is {}; expected 0 or more", a));
  return x;
}

template <math::Unary kFunction>
Cost Unary<kFunction>::cost(const Spec& x) const {
  return {flops(kFunction) * static_cast<double>(x.size()), 2.0 * static_cast<double>(x.bytes())};
}

template <math::Unary kFunction>
void Unary<kFunction>::run(In x, Out y, Scratch) const {
  with_number<takes_integers(kFunction)>(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::unary(kFunction, x.as<T>(), y.as<T>(), static_cast<std::size_t>(x.size()), {a, b});
  });
}

template <math::Unary kFunction>
void Unary<kFunction>::grad(Back& back) const {
  if (!back.wants(0)) return;
  Tensor d = back.take_d();
  const auto x = [&]() -> const Tensor& { return back.in(0); };
  const auto y = [&]() -> const Tensor& { return back.out(); };
  switch (kFunction) {
    case math::Unary::neg:
      return back.give(0, neg(d));
    case math::Unary::abs:
      return back.give(0, backward<math::UnaryGrad::abs>(x(), std::move(d)));
    case math::Unary::sign:
      return;
    case math::Unary::exp:
      return back.give(0, d * y());
    case math::Unary::log:
      return back.give(0, d / x());
    case math::Unary::log1p:
      return back.give(0, d / (x() + 1.0));
    case math::Unary::expm1:
      return back.give(0, d * (y() + 1.0));
    case math::Unary::sqrt:
      return back.give(0, d * 0.5 / y());
    case math::Unary::rsqrt:
      return back.give(0, d * -0.5 * y() * square(y()));
    case math::Unary::square:
      return back.give(0, d * 2.0 * x());
    case math::Unary::reciprocal:
      return back.give(0, -(d * square(y())));
    case math::Unary::sin:
      return back.give(0, d * cos(x()));
    case math::Unary::cos:
      return back.give(0, -(d * sin(x())));
    case math::Unary::tanh:
      return back.give(0, backward<math::UnaryGrad::tanh>(y(), std::move(d)));
    case math::Unary::erf:
      return back.give(0, backward<math::UnaryGrad::erf>(x(), std::move(d)));
    case math::Unary::sigmoid:
      return back.give(0, backward<math::UnaryGrad::sigmoid>(y(), std::move(d)));
    case math::Unary::softplus:
      return back.give(0, backward<math::UnaryGrad::softplus>(x(), std::move(d)));
    case math::Unary::relu:
      return back.give(0, backward<math::UnaryGrad::relu>(y(), std::move(d)));
    case math::Unary::leaky_relu:
      return back.give(0, backward<math::UnaryGrad::leaky_relu>(y(), std::move(d), a));
    case math::Unary::elu:
      return back.give(0, backward<math::UnaryGrad::elu>(y(), std::move(d), a));
    case math::Unary::gelu:
      return back.give(0, backward<math::UnaryGrad::gelu>(x(), std::move(d)));
    case math::Unary::gelu_tanh:
      return back.give(0, backward<math::UnaryGrad::gelu_tanh>(x(), std::move(d)));
    case math::Unary::silu:
      return back.give(0, backward<math::UnaryGrad::silu>(x(), std::move(d)));
    case math::Unary::clip:
      return back.give(0, backward<math::UnaryGrad::clip>(x(), std::move(d), a, b));
  }
}

template <math::UnaryGrad kFunction>
Spec UnaryBackward<kFunction>::shape(const Spec& saved, const Spec& dy) const {
  if (saved != dy)
    throw Error(fmt::format("{}: {} and {} differ", name, to_string(saved), to_string(dy)));
  if (!is_float(saved.dtype))
    throw Error(
        fmt::format("{}: {} is not a floating type; cast it first", name, to_string(saved)));
  return dy;
}

template <math::UnaryGrad kFunction>
Cost UnaryBackward<kFunction>::cost(const Spec& saved, const Spec&) const {
  return {30.0 * static_cast<double>(saved.size()), 3.0 * static_cast<double>(saved.bytes())};
}

template <math::UnaryGrad kFunction>
void UnaryBackward<kFunction>::run(In saved, In dy, Out dx, Scratch) const {
  with_number<false>(saved.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::unary_grad(kFunction, saved.as<T>(), dy.as<T>(), dx.as<T>(),
                        static_cast<std::size_t>(saved.size()), {a, b});
  });
}

template <math::UnaryGrad kFunction>
void UnaryBackward<kFunction>::grad(Back& back) const {
  if (back.wants(1)) back.give(1, apply(*this, back.in(0), back.d()));
  if constexpr (!is_linear(kFunction)) {
    if (back.wants(0)) back.give(0, back.d() * back.in(1) * slope_by_saved(kFunction, back.in(0)));
  }
}

Spec LogicalNot::shape(const Spec& x) const {
  if (x.dtype != DType::boolean)
    throw Error(fmt::format("logical_not: {} is not bool; cast it first", to_string(x)));
  return x;
}
Cost LogicalNot::cost(const Spec& x) const {
  return {static_cast<double>(x.size()), 2.0 * static_cast<double>(x.bytes())};
}
void LogicalNot::run(In x, Out y, Scratch) const {
  kernels::logical_not(x.as<bool>(), y.as<bool>(), static_cast<std::size_t>(x.size()));
}

#define EBB_UNARY(function)                          \
  template struct ops::Unary<math::Unary::function>; \
  Tensor function(const Tensor& x) { return apply(Unary<math::Unary::function>{}, x); }
EBB_UNARY(neg)
EBB_UNARY(abs)
EBB_UNARY(sign)
EBB_UNARY(exp)
EBB_UNARY(log)
EBB_UNARY(log1p)
EBB_UNARY(expm1)
EBB_UNARY(sqrt)
EBB_UNARY(rsqrt)
EBB_UNARY(square)
EBB_UNARY(reciprocal)
EBB_UNARY(sin)
EBB_UNARY(cos)
EBB_UNARY(tanh)
EBB_UNARY(erf)
EBB_UNARY(sigmoid)
EBB_UNARY(softplus)
EBB_UNARY(relu)
EBB_UNARY(gelu)
EBB_UNARY(gelu_tanh)
EBB_UNARY(silu)
#undef EBB_UNARY
template struct ops::Unary<math::Unary::leaky_relu>;
template struct ops::Unary<math::Unary::elu>;
template struct ops::Unary<math::Unary::clip>;
Tensor leaky_relu(const Tensor& x, double slope) {
  return apply(Unary<math::Unary::leaky_relu>{slope, 0}, x);
}
Tensor elu(const Tensor& x, double alpha) { return apply(Unary<math::Unary::elu>{alpha, 0}, x); }
Tensor clip(const Tensor& x, double lo, double hi) {
  return apply(Unary<math::Unary::clip>{lo, hi}, x);
}
Tensor logical_not(const Tensor& x) { return apply(LogicalNot{}, x); }

Tensor ops::unary_backward(math::UnaryGrad f, const Tensor& saved, Tensor dy, double a, double b) {
  switch (f) {
    case math::UnaryGrad::relu:
      return backward<math::UnaryGrad::relu>(saved, std::move(dy));
    case math::UnaryGrad::leaky_relu:
      return backward<math::UnaryGrad::leaky_relu>(saved, std::move(dy), a);
    case math::UnaryGrad::elu:
      return backward<math::UnaryGrad::elu>(saved, std::move(dy), a);
    case math::UnaryGrad::tanh:
      return backward<math::UnaryGrad::tanh>(saved, std::move(dy));
    case math::UnaryGrad::sigmoid:
      return backward<math::UnaryGrad::sigmoid>(saved, std::move(dy));
    case math::UnaryGrad::softplus:
      return backward<math::UnaryGrad::softplus>(saved, std::move(dy));
    case math::UnaryGrad::gelu:
      return backward<math::UnaryGrad::gelu>(saved, std::move(dy));
    case math::UnaryGrad::gelu_tanh:
      return backward<math::UnaryGrad::gelu_tanh>(saved, std::move(dy));
    case math::UnaryGrad::silu:
      return backward<math::UnaryGrad::silu>(saved, std::move(dy));
    case math::UnaryGrad::erf:
      return backward<math::UnaryGrad::erf>(saved, std::move(dy));
    case math::UnaryGrad::abs:
      return backward<math::UnaryGrad::abs>(saved, std::move(dy));
    case math::UnaryGrad::clip:
      return backward<math::UnaryGrad::clip>(saved, std::move(dy), a, b);
  }
  return {};
}

}  // namespace ebb
