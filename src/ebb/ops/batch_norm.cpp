#include "ebb/ops/batch_norm.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/kernels/batch_norm.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/last_axis.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"

namespace ebb {

using namespace ops;

namespace {

std::size_t scratch_for(const Spec& x) {
  const LastAxis r(x.shape);
  return x.dtype == DType::f64 ? kernels::batch_norm_scratch<double>(r.count, r.size)
                               : kernels::batch_norm_scratch<float>(r.count, r.size);
}

// What sums over rows are divided by: of no rows a sum is 0, and so is its mean.
double row_count(const Spec& x) {
  return static_cast<double>(std::max<std::size_t>(LastAxis(x.shape).count, 1));
}

}  // namespace

// ---- training ----

std::array<Spec, 3> BatchNormTrain::shape(const Spec& x, const Spec& weight,
                                          const Spec& bias) const {
  check_parameter(name, "weight", weight, x);
  check_parameter(name, "bias", bias, x);
  return {x, weight, weight};
}
Cost BatchNormTrain::cost(const Spec& x, const Spec& weight, const Spec& bias) const {
  return reduction_cost(8, x, {&x, &x, &x, &weight, &bias});
}
std::size_t BatchNormTrain::scratch(const Spec& x, const Spec&, const Spec&) const {
  return scratch_for(x);
}

void BatchNormTrain::run(In x, In weight, In bias, Out y, Out mean, Out var,
                         Scratch scratch) const {
  const LastAxis r(x.shape());
  with_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (r.count == 0) {
      std::fill_n(mean.as<T>(), r.size, T(0));
      std::fill_n(var.as<T>(), r.size, T(0));
      return;
    }
    kernels::batch_norm_stats(x.as<T>(), mean.as<T>(), var.as<T>(), r.count, r.size, scratch);
    kernels::batch_norm_apply(x.as<T>(), mean.as<T>(), var.as<T>(), weight.as<T>(), bias.as<T>(),
                              y.as<T>(), r.count, r.size, eps);
  });
}

void BatchNormTrain::grad(Back& b) const {
  if (!b.wants(0) && !b.wants(1)) {
    if (b.wants(2)) b.give(2, sum_to(b.d(0), b.in_spec(2).shape));
    return;
  }
  if (b.has(0)) {
    const auto d = batch_norm_backward(b.in(0), b.in(1), b.d(0), b.out(1), b.out(2), eps);
    for (int i = 0; i < 3; ++i)
      if (b.wants(i)) b.give(i, d[static_cast<std::size_t>(i)]);
  }
  if (!b.wants(0)) return;
  const double rows = row_count(b.in_spec(0));
  if (b.has(1)) b.give(0, broadcast_to(b.d(1) / rows, b.in_spec(0).shape));
  if (b.has(2)) b.give(0, (b.in(0) - b.out(1)) * (b.d(2) * (2 / rows)));
}

// ---- the way back ----

std::array<Spec, 3> BatchNormBackward::shape(const Spec& x, const Spec& weight, const Spec& dy,
                                             const Spec& mean, const Spec& var) const {
  check_parameter(name, "weight", weight, x);
  check_parameter(name, "mean", mean, x);
  check_parameter(name, "var", var, x);
  if (dy != x) throw Error(fmt::format("{}: {} and {} differ", name, to_string(x), to_string(dy)));
  return {x, weight, weight};
}
Cost BatchNormBackward::cost(const Spec& x, const Spec& weight, const Spec& dy, const Spec&,
                             const Spec&) const {
  return reduction_cost(12, x, {&x, &dy, &x, &dy, &x, &weight});
}
std::size_t BatchNormBackward::scratch(const Spec& x, const Spec&, const Spec&, const Spec&,
                                       const Spec&) const {
  return scratch_for(x);
}

void BatchNormBackward::run(In x, In weight, In dy, In mean, In var, Out dx, Out dweight, Out dbias,
                            Scratch scratch) const {
  const LastAxis r(x.shape());
  with_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::batch_norm_backward(x.as<T>(), mean.as<T>(), var.as<T>(), weight.as<T>(), dy.as<T>(),
                                 dx.as<T>(), dweight.as<T>(), dbias.as<T>(), r.count, r.size, eps,
                                 scratch);
  });
}

// With a, u and v the gradients of dx, dweight and dbias, xh = (x - mean) * r, r = (var + eps)^-1/2
// and E the mean over rows, the sum whose gradient is wanted is
//   w r Q + sum(u dy xh + v dy),   Q = sum(a dy) - rows * (E(a) E(dy) + E(a xh) E(dy xh))
// where mean and var are inputs of their own: what they owe to x, batch_norm_train passes on.
void BatchNormBackward::grad(Back& b) const {
  const Tensor &x = b.in(0), &w = b.in(1), &dy = b.in(2), &mean = b.in(3), &var = b.in(4);
  const Shape& channels = w.shape();
  const double rows = row_count(x.spec());
  const auto total = [&](const Tensor& t) { return sum_to(t, channels); };
  const auto average = [&](const Tensor& t) { return total(t) / rows; };

  const Tensor r = rsqrt(var + eps), xh = (x - mean) * r;
  const Tensor zero = Tensor::zeros(channels, w.dtype());
  const Tensor a = b.has(0) ? b.d(0) : Tensor::zeros(x.shape(), x.dtype());
  const Tensor u = b.has(1) ? b.d(1) : zero, v = b.has(2) ? b.d(2) : zero;
  const Tensor a_mean = average(a), a_along = average(a * xh), dy_along = average(dy * xh);
  const Tensor scale = w * r;

  if (b.wants(2)) b.give(2, scale * (a - a_mean - xh * a_along) + u * xh + v);
  const Tensor q = total(a * dy) - (a_mean * average(dy) + a_along * dy_along) * rows;
  if (b.wants(1)) b.give(1, r * q);
  if (!b.wants(0) && !b.wants(3) && !b.wants(4)) return;
  const Tensor along_xh = dy * (u - scale * a_along) - a * (scale * dy_along);
  if (b.wants(0)) b.give(0, r * along_xh);
  if (b.wants(3)) b.give(3, -(r * total(along_xh)));
  if (b.wants(4)) b.give(4, square(r) * r * (total(along_xh * (x - mean)) + w * q) * -0.5);
}

// ---- inference ----

Spec BatchNorm::shape(const Spec& x, const Spec& weight, const Spec& bias, const Spec& mean,
                      const Spec& var) const {
  check_parameter(name, "weight", weight, x);
  check_parameter(name, "bias", bias, x);
  check_parameter(name, "mean", mean, x);
  check_parameter(name, "var", var, x);
  return x;
}
Cost BatchNorm::cost(const Spec& x, const Spec& weight, const Spec&, const Spec&,
                     const Spec&) const {
  return reduction_cost(3, x, {&x, &x, &weight});
}

void BatchNorm::run(In x, In weight, In bias, In mean, In var, Out y, Scratch) const {
  const LastAxis r(x.shape());
  with_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::batch_norm_apply(x.as<T>(), mean.as<T>(), var.as<T>(), weight.as<T>(), bias.as<T>(),
                              y.as<T>(), r.count, r.size, eps);
  });
}

void BatchNorm::grad(Back& b) const {
  const Tensor& dy = b.d();
  const Shape& channels = b.in_spec(1).shape;
  if (b.wants(2)) b.give(2, sum_to(dy, channels, b.take(2)));
  if (!b.wants(0) && !b.wants(1) && !b.wants(3) && !b.wants(4)) return;
  const Tensor r = rsqrt(b.in(4) + eps);
  if (b.wants(0)) b.give(0, dy * (b.in(1) * r));
  if (b.wants(1)) b.give(1, sum_to(dy * ((b.in(0) - b.in(3)) * r), channels, b.take(1)));
  if (b.wants(3)) b.give(3, -(sum_to(dy, channels) * b.in(1) * r));
  if (b.wants(4)) {
    const Tensor along = sum_to(dy * (b.in(0) - b.in(3)), channels);
    b.give(4, along * b.in(1) * (square(r) * r) * -0.5);
  }
}

BatchNormResult batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 double eps) {
  auto [y, mean, var] = apply(BatchNormTrain{eps}, x, weight, bias);
  return {std::move(y), std::move(mean), std::move(var)};
}

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                  const Tensor& var, double eps) {
  return apply(BatchNorm{eps}, x, weight, bias, mean, var);
}

std::array<Tensor, 3> ops::batch_norm_backward(const Tensor& x, const Tensor& weight,
                                               const Tensor& dy, const Tensor& mean,
                                               const Tensor& var, double eps) {
  return apply(BatchNormBackward{eps}, x, weight, dy, mean, var);
}

}  // namespace ebb
