#include <fmt/core.h>

#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/layout.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/products.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"

namespace ebb {

using namespace ops;

namespace {

Spec result_of(const char* op, Specs in) {
  const Spec &x = in[0], &weight = in[1];
  const DType dtype = products::result_type(op, x, weight);
  if (weight.rank() != 2 || x.rank() < 1 || x.shape[x.rank() - 1] != weight.shape[1]) {
    throw Error(fmt::format("{}: {} and weight {} do not fit: expected (…, in) and (out, in)", op,
                            to_string(x), to_string(weight)));
  }
  if (in.size() > 2 && in[2] != Spec{{weight.shape[0]}, dtype}) {
    throw Error(fmt::format("{}: bias is {}, expected {}", op, to_string(in[2]),
                            to_string(Spec{{weight.shape[0]}, dtype})));
  }
  return {x.with_axis(x.rank() - 1, weight.shape[0]).shape, dtype};
}

Cost cost_of(const Spec& y, Specs in, int results) {
  double bytes = results * static_cast<double>(y.bytes());
  for (const Spec& s : in) bytes += static_cast<double>(s.bytes());
  return {2 * static_cast<double>(y.size()) * static_cast<double>(in[1].shape[1]), bytes,
          Work::product};
}

// One product with as many rows as x has, whatever its leading axes. Only whether there are a bias
// and a place for what comes before the activation counts for the scratch: those may be anywhere.
kernels::Gemm product_of(const Spec& x, const Spec& weight, DType result, const void* bias,
                         Activation activation, void* pre) {
  const auto in = static_cast<std::size_t>(weight.shape[1]);
  const auto out = static_cast<std::size_t>(weight.shape[0]);
  std::size_t rows = 1;
  for (int d = 0; d + 1 < x.rank(); ++d) rows *= static_cast<std::size_t>(x.shape[d]);
  return {.m = rows,
          .n = out,
          .k = in,
          .a = {nullptr, products::storage(x.dtype), in, false},
          .b = {nullptr, products::storage(weight.dtype), in, true},
          .c = nullptr,
          .ldc = out,
          .c_type = products::storage(result),
          .accumulate = false,
          .bias = bias,
          .activation = activation,
          .pre = pre};
}

std::size_t scratch_of(Specs in, DType result, Activation activation, bool keeping_pre) {
  const void* bias = in.size() > 2 ? &in : nullptr;
  void* pre = keeping_pre ? &in : nullptr;
  return products::scratch(product_of(in[0], in[1], result, bias, activation, pre));
}

void run_product(Ins in, Out y, void* pre, Activation activation, Scratch scratch) {
  if (y.size() == 0) return;
  kernels::Gemm g = product_of(*in[0].spec, *in[1].spec, y.dtype(),
                               in.size() > 2 ? in[2].data : nullptr, activation, pre);
  g.a.data = in[0].data;
  g.b.data = in[1].data;
  g.c = y.data;
  products::run(g, scratch);
}

// dy · activation', from the result (relu, tanh, sigmoid) or the argument (the others).
Tensor through(Activation activation, const Tensor& kept, Tensor dy) {
  switch (activation) {
    case Activation::none:
      return dy;
    case Activation::relu:
      return unary_backward(math::UnaryGrad::relu, kept, std::move(dy));
    case Activation::tanh:
      return unary_backward(math::UnaryGrad::tanh, kept, std::move(dy));
    case Activation::sigmoid:
      return unary_backward(math::UnaryGrad::sigmoid, kept, std::move(dy));
    case Activation::gelu:
      return unary_backward(math::UnaryGrad::gelu, kept, std::move(dy));
    case Activation::gelu_tanh:
      return unary_backward(math::UnaryGrad::gelu_tanh, kept, std::move(dy));
    case Activation::silu:
      return unary_backward(math::UnaryGrad::silu, kept, std::move(dy));
  }
  return dy;
}

bool needs_pre(Activation activation) { return activation >= Activation::gelu; }

Needs needs_of(int input, Needs activation) {
  return input == 2 ? activation : activation | Needs::input(1 - input);
}

// Gradients from d, that of the value before the activation. The weight's and the bias's are sums
// over rows, of examples: they go on from what there is. They come first: x's gradient is as large as
// x, and is not there yet while their scratch is.
void give_all(Back& back, const Tensor& d) {
  if (back.wants(1)) {
    const Tensor& x = back.in(0);
    std::int64_t count = 1;
    for (int i = 0; i + 1 < x.rank(); ++i) count *= x.shape()[i];
    const Shape x_rows{count, x.dim(-1)}, d_rows{count, d.dim(-1)};
    const Tensor left = d.shape() == d_rows ? d : reshape(d, d_rows);
    const Tensor right = x.shape() == x_rows ? x : reshape(x, x_rows);
    if (back.in_spec(1).dtype == back.out_spec().dtype) {
      back.give(1, matmul_into(back.take(1), left, right, {true, false}));
    } else {
      back.give(1, cast(matmul(left, right, {true, false}), back.in_spec(1).dtype));
    }
  }
  if (back.inputs() > 2 && back.wants(2))
    back.give(2, sum_to(d, back.in_spec(2).shape, back.take(2)));
  if (back.wants(0)) {
    const Tensor g = d.rank() == 1 ? reshape(matmul(reshape(d, Shape{1, d.dim(0)}), back.in(1)),
                                             back.in_spec(0).shape)
                                   : matmul(d, back.in(1));
    back.give(0, cast(g, back.in_spec(0).dtype));
  }
}

}  // namespace

Spec Linear::shape(Specs in) const { return result_of(name, in); }
Cost Linear::cost(Specs in) const { return cost_of(shape(in), in, 1); }
std::size_t Linear::scratch(Specs in) const {
  return scratch_of(in, shape(in).dtype, activation, false);
}
void Linear::run(Ins in, Out y, Scratch scratch) const {
  run_product(in, y, nullptr, activation, scratch);
}
Needs Linear::needs(int input) const {
  return needs_of(input, activation == Activation::none ? Needs::nothing() : Needs::output());
}
BatchRule Linear::batch_rule(const BatchInputs& batch, int) const {
  const bool product = activation == Activation::none && batch.in.size() == 2;
  return rule::along_last_axis(batch, 0b001) | rule::linear(batch, 0b001, product) |
         rule::linear(batch, 0b010, product);
}
void Linear::grad(Back& back) const {
  if (activation == Activation::none) return give_all(back, back.d());
  give_all(back, through(activation, back.out(), back.take_d()));
}

std::array<Spec, 2> LinearKeepingPre::shape(Specs in) const {
  const Spec y = result_of(name, in);
  return {y, y};
}
Cost LinearKeepingPre::cost(Specs in) const { return cost_of(shape(in)[0], in, 2); }
std::size_t LinearKeepingPre::scratch(Specs in) const {
  return scratch_of(in, shape(in)[0].dtype, activation, true);
}
void LinearKeepingPre::run(Ins in, Out y, Out pre, Scratch scratch) const {
  run_product(in, y, pre.data, activation, scratch);
}
Needs LinearKeepingPre::needs(int input) const { return needs_of(input, Needs::output(1)); }
void LinearKeepingPre::grad(Back& back) const {
  const Tensor d = through(activation, back.out(1), back.take_d());
  give_all(back, back.has(1) ? add(d, back.d(1)) : d);  // pre has a gradient of second order
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  // Weight and bias of 16 bits on an x in f32: the product is f32, and so is what is added to it.
  const bool wide = bias && is_half(bias.dtype()) &&
                    products::result_type(Linear::name, x.spec(), weight.spec()) == DType::f32;
  const Tensor added = wide ? cast(bias, DType::f32) : bias;
  const Tensor* in[] = {&x, &weight, &added};
  const std::span<const Tensor* const> given(in, bias ? 3 : 2);
  if (needs_pre(activation) && recording())
    return apply_all(LinearKeepingPre{activation}, given)[0];
  return apply_all(Linear{activation}, given);
}

}  // namespace ebb
