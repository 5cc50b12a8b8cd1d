#include "ebb/ops/norm.hpp"

#include <fmt/core.h>

#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/kernels/norm.hpp"
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

void check_dy(const char* op, const Spec& x, const Spec& dy) {
  if (dy != x) throw Error(fmt::format("{}: {} and {} differ", op, to_string(x), to_string(dy)));
}

void check_accumulator(const char* op, const Spec& given, const Spec& weight) {
  if (given != weight)
    throw Error(fmt::format("{}: the accumulator is {}, expected {}", op, to_string(given),
                            to_string(weight)));
}

// The accumulator's value, or zeros, for the kernel to go on from.
template <class T>
T* started(Out out, const In* from) {
  if (from == nullptr) {
    std::memset(out.data, 0, out.spec->bytes());
  } else if (from->data != out.data) {
    std::memcpy(out.data, from->data, out.spec->bytes());
  }
  return out.as<T>();
}

Tensor row_mean(const Tensor& v) { return mean(v, {-1}, true); }

// The second order of both norms. For a row, with xh the normalised x and P(v) = v - mean(v) -
// xh * mean(v * xh) (without the mean of v for rms_norm), the way back is
//   dx = rstd * P(g), g = dy * weight;   dweight = sum(dy * xh);   dbias = sum(dy)
// P is symmetric, and moves with x as the products below say.
struct SecondOrder {
  bool centered;
  Tensor rstd, xh;

  SecondOrder(const Tensor& x, double eps, bool layer) : centered(layer) {
    const Tensor away = layer ? x - row_mean(x) : x;
    rstd = rsqrt(row_mean(square(away)) + eps);
    xh = away * rstd;
  }
  Tensor project(const Tensor& v) const {
    const Tensor flat = v - xh * row_mean(v * xh);
    return centered ? flat - row_mean(v) : flat;
  }
  // Gradient of <a, dx> with respect to x.
  Tensor along_x(const Tensor& a, const Tensor& g) const {
    Tensor both = row_mean(a * g);
    if (centered) both = both - row_mean(a) * row_mean(g);
    const Tensor of_a = row_mean(a * xh), of_g = row_mean(g * xh);
    return -(square(rstd) * (xh * (both - of_a * of_g) + of_a * project(g) + of_g * project(a)));
  }

  // Gives the gradients of inputs 0 to 2: x, weight, dy.
  void give(Back& b) const {
    const Tensor &weight = b.in(1), &dy = b.in(2);
    const Tensor g = dy * weight;
    const bool from_dx = b.has(0), from_dweight = b.has(1), from_dbias = centered && b.has(2);
    if (b.wants(0)) {
      if (from_dx) b.give(0, along_x(b.d(0), g));
      if (from_dweight) b.give(0, rstd * project(dy * b.d(1)));
    }
    if (b.wants(1) && from_dx)
      b.give(1, sum_to(dy * (rstd * project(b.d(0))), weight.shape(), b.take(1)));
    if (b.wants(2)) {
      if (from_dx) b.give(2, weight * (rstd * project(b.d(0))));
      if (from_dweight) b.give(2, xh * b.d(1));
      if (from_dbias) b.give(2, broadcast_to(b.d(2), dy.shape()));
    }
  }
};

}  // namespace

namespace {

// Of x, weight, dy[, sums so far] → dx, sums. Each output asks for its own sum only.
BatchRule backward_rows(const BatchInputs& batch, int output, std::uint32_t so_far) {
  const bool rows = batch.carry == 0b101 && batch.in[0].rank() > 1 && (batch.sums & 0b111) == 0;
  if (!rows || (batch.sums & so_far) != so_far) return BatchRule::mixed;
  return output == 0 ? BatchRule::per_example : BatchRule::summed;
}

}  // namespace

// ---- layer_norm ----

Spec LayerNorm::shape(const Spec& x, const Spec& weight, const Spec& bias) const {
  check_parameter(name, "weight", weight, x);
  check_parameter(name, "bias", bias, x);
  return x;
}
Cost LayerNorm::cost(const Spec& x, const Spec& weight, const Spec& bias) const {
  return reduction_cost(8, x, {&x, &weight, &bias, &x});
}

void LayerNorm::run(In x, In weight, In bias, Out y, Scratch) const {
  const LastAxis r(x.shape());
  with_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::layer_norm(x.as<T>(), weight.as<T>(), bias.as<T>(), y.as<T>(), r.count, r.size, eps);
  });
}

void LayerNorm::grad(Back& b) const {
  if (!b.wants(0) && !b.wants(1)) {
    if (b.wants(2)) b.give(2, sum_to(b.d(), b.in_spec(2).shape, b.take(2)));
    return;
  }
  const auto so_far = [&](int i) { return b.wants(i) ? b.take(i) : Tensor(); };
  const auto d = layer_norm_backward(b.in(0), b.in(1), b.d(), eps, so_far(1), so_far(2));
  for (int i = 0; i < 3; ++i)
    if (b.wants(i)) b.give(i, d[static_cast<std::size_t>(i)]);
}

std::array<Spec, 3> LayerNormBackward::shape(Specs in) const {
  check_parameter(name, "weight", in[1], in[0]);
  check_dy(name, in[0], in[2]);
  const std::size_t expected = 3u + dweight_so_far + dbias_so_far;
  if (in.size() != expected)
    throw Error(fmt::format("{}: {} inputs were given, expected {}", name, in.size(), expected));
  for (std::size_t i = 3; i < expected; ++i) check_accumulator(name, in[i], in[1]);
  return {in[0], in[1], in[1]};
}
Cost LayerNormBackward::cost(Specs in) const {
  return reduction_cost(20, in[0], {&in[0], &in[2], &in[0], &in[1], &in[1], &in[1]});
}

void LayerNormBackward::run(Ins in, Out dx, Out dweight, Out dbias, Scratch) const {
  const LastAxis r(in[0].shape());
  with_float(in[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::layer_norm_backward(in[0].as<T>(), in[1].as<T>(), in[2].as<T>(), dx.as<T>(),
                                 started<T>(dweight, dweight_so_far ? &in[3] : nullptr),
                                 started<T>(dbias, dbias_so_far ? &in.back() : nullptr), r.count,
                                 r.size, eps);
  });
}

BatchRule LayerNormBackward::batch_rule(const BatchInputs& batch, int output) const {
  return backward_rows(batch, output, overwrites(output));
}

void LayerNormBackward::grad(Back& b) const {
  if (b.wants(0) || b.wants(1) || b.wants(2)) SecondOrder(b.in(0), eps, true).give(b);
  if (dweight_so_far && b.wants(3)) b.give(3, b.d(1));
  const int last = 3 + dweight_so_far;
  if (dbias_so_far && b.wants(last)) b.give(last, b.d(2));
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return apply(LayerNorm{eps}, x, weight, bias);
}

std::array<Tensor, 3> ops::layer_norm_backward(const Tensor& x, const Tensor& weight,
                                               const Tensor& dy, double eps, const Tensor& dweight,
                                               const Tensor& dbias) {
  const Tensor* in[5] = {&x, &weight, &dy};
  std::size_t count = 3;
  for (const Tensor* sum : {&dweight, &dbias})
    if (*sum) in[count++] = sum;
  const LayerNormBackward op{eps, static_cast<bool>(dweight), static_cast<bool>(dbias)};
  return apply_all(op, std::span(in, count));
}

// ---- rms_norm ----

Spec RmsNorm::shape(const Spec& x, const Spec& weight) const {
  check_parameter(name, "weight", weight, x);
  return x;
}
Cost RmsNorm::cost(const Spec& x, const Spec& weight) const {
  return reduction_cost(5, x, {&x, &weight, &x});
}

void RmsNorm::run(In x, In weight, Out y, Scratch) const {
  const LastAxis r(x.shape());
  with_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::rms_norm(x.as<T>(), weight.as<T>(), y.as<T>(), r.count, r.size, eps);
  });
}

void RmsNorm::grad(Back& b) const {
  const auto d = rms_norm_backward(b.in(0), b.in(1), b.d(), eps, b.wants(1) ? b.take(1) : Tensor());
  if (b.wants(0)) b.give(0, d[0]);
  if (b.wants(1)) b.give(1, d[1]);
}

std::array<Spec, 2> RmsNormBackward::shape(Specs in) const {
  check_parameter(name, "weight", in[1], in[0]);
  check_dy(name, in[0], in[2]);
  if (accumulate) check_accumulator(name, in[3], in[1]);
  return {in[0], in[1]};
}
Cost RmsNormBackward::cost(Specs in) const {
  return reduction_cost(15, in[0], {&in[0], &in[2], &in[0], &in[1], &in[1]});
}

void RmsNormBackward::run(Ins in, Out dx, Out dweight, Scratch) const {
  const LastAxis r(in[0].shape());
  with_float(in[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::rms_norm_backward(in[0].as<T>(), in[1].as<T>(), in[2].as<T>(), dx.as<T>(),
                               started<T>(dweight, accumulate ? &in[3] : nullptr), r.count, r.size,
                               eps);
  });
}

BatchRule RmsNormBackward::batch_rule(const BatchInputs& batch, int output) const {
  return backward_rows(batch, output, overwrites(output));
}

void RmsNormBackward::grad(Back& b) const {
  if (b.wants(0) || b.wants(1) || b.wants(2)) SecondOrder(b.in(0), eps, false).give(b);
  if (accumulate && b.wants(3)) b.give(3, b.d(1));
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return apply(RmsNorm{eps}, x, weight);
}

std::array<Tensor, 2> ops::rms_norm_backward(const Tensor& x, const Tensor& weight,
                                             const Tensor& dy, double eps, const Tensor& dweight) {
  const Tensor* in[] = {&x, &weight, &dy, &dweight};
  const bool add = static_cast<bool>(dweight);
  return apply_all(RmsNormBackward{eps, add}, std::span(in, add ? 4 : 3));
}

}  // namespace ebb
