#include "ebb/ops/conv.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/kernels/conv.hpp"
#include "ebb/kernels/copy.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/conv_pieces.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/products.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"

namespace ebb {

using namespace ops;

namespace {

using kernels::conv2d_work;
using kernels::Conv2dShape;

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

void check_options(const char* op, const Conv2dOptions& o) {
  constexpr std::int64_t kMost = 1 << 24;  // keeps sums and products of sizes far from overflow
  const auto check = [&](const char* what, std::int64_t value, std::int64_t least) {
    if (value < least || value > kMost)
      throw Error(fmt::format("{}: {} {} is out of range; expected {} to {}", op, what, value,
                              least, kMost));
  };
  for (const std::int64_t v : o.stride) check("stride", v, 1);
  for (const std::int64_t v : o.dilation) check("dilation", v, 1);
  for (const std::int64_t v : o.padding) check("padding", v, 0);
  check("groups", o.groups, 1);
}

void check_rank(const char* op, const char* what, const Spec& s, const char* expected) {
  check_float(op, s);
  if (s.rank() != 4)
    throw Error(fmt::format("{}: {} is {}; expected {}", op, what, to_string(s), expected));
}

void check_image(const char* op, const char* what, const Spec& x) {
  check_rank(op, what, x, "(batch, height, width, channels)");
}

// From shapes to the kernel's sizes; throws where they do not go together.
Conv2dShape sizes(const char* op, const Conv2dOptions& o, const Shape& x, const Shape& w,
                  const std::string& found) {
  check_options(op, o);
  if (w[3] * o.groups != x[3])
    throw Error(
        fmt::format("{}: {} do not go together: {} channels in {} group(s) need a weight "
                    "with {} of them, found {}",
                    op, found, x[3], o.groups, x[3] / o.groups, w[3]));
  if (w[0] % o.groups != 0)
    throw Error(
        fmt::format("{}: {} output channels do not divide into {} groups", op, w[0], o.groups));
  Conv2dShape s{.batch = count(x[0]),
                .in_h = count(x[1]),
                .in_w = count(x[2]),
                .in_c = count(x[3]),
                .out_c = count(w[0]),
                .kernel_h = count(w[1]),
                .kernel_w = count(w[2]),
                .stride_h = count(o.stride[0]),
                .stride_w = count(o.stride[1]),
                .dilation_h = count(o.dilation[0]),
                .dilation_w = count(o.dilation[1]),
                .pad_top = count(o.padding[0]),
                .pad_bottom = count(o.padding[1]),
                .pad_left = count(o.padding[2]),
                .pad_right = count(o.padding[3]),
                .groups = count(o.groups),
                .winograd = o.winograd};
  if (s.out_h() == 0 || s.out_w() == 0)
    throw Error(
        fmt::format("{}: a kernel of {}x{} does not fit an image of {}x{} with this padding "
                    "and dilation",
                    op, w[1], w[2], x[1], x[2]));
  return s;
}

Shape out_shape(const Conv2dShape& s) {
  return {static_cast<std::int64_t>(s.batch), static_cast<std::int64_t>(s.out_h()),
          static_cast<std::int64_t>(s.out_w()), static_cast<std::int64_t>(s.out_c)};
}

std::string pair(const Spec& a, const Spec& b) {
  return fmt::format("{} and {}", to_string(a), to_string(b));
}

Conv2dShape forward_sizes(const char* op, const Conv2dOptions& o, const Spec& x, const Spec& w) {
  check_image(op, "x", x);
  check_rank(op, "the weight", w, "(out channels, height, width, in channels / groups)");
  products::result_type(op, x, w);
  return sizes(op, o, x.shape, w.shape, pair(x, w));
}

void check_dy(const char* op, const Spec& dy, const Conv2dShape& s) {
  if (dy.shape != out_shape(s))
    throw Error(
        fmt::format("{}: dy is {}, expected {}", op, to_string(dy), to_string(out_shape(s))));
}

Conv2dShape input_grad_sizes(const Conv2dInputGrad& g, const Spec& dy, const Spec& w) {
  check_image(g.name, "dy", dy);
  check_rank(g.name, "the weight", w, "(out channels, height, width, in channels / groups)");
  products::result_type(g.name, dy, w);
  const Shape x{dy.shape[0], g.in_h, g.in_w, w.shape[3] * g.options.groups};
  const Conv2dShape s = sizes(g.name, g.options, x, w.shape, pair(dy, w));
  check_dy(g.name, dy, s);
  return s;
}

Conv2dShape weight_grad_sizes(const Conv2dWeightGrad& g, Specs in) {
  const Spec &x = in[0], &dy = in[1];
  check_image(g.name, "x", x);
  check_image(g.name, "dy", dy);
  products::result_type(g.name, x, dy);
  check_options(g.name, g.options);
  const std::int64_t groups = g.options.groups;
  if (x.shape[3] % groups != 0)
    throw Error(
        fmt::format("{}: {} channels do not divide into {} groups", g.name, x.shape[3], groups));
  const Shape w{dy.shape[3], g.kernel_h, g.kernel_w, x.shape[3] / groups};
  const Conv2dShape s = sizes(g.name, g.options, x.shape, w, pair(x, dy));
  check_dy(g.name, dy, s);
  return s;
}

double size(const Spec& s) { return static_cast<double>(s.bytes()); }

// Of a convolution that reads two and makes one.
Cost cost_of(double multiply_adds, const Spec& a, const Spec& b, const Spec& made,
             const Conv2dShape& s) {
  constexpr std::size_t kFew = 4;  // channels: products of these are no products of matrices
  const bool few = s.groups > 1 && std::min(s.in_c, s.out_c) / s.groups < kFew;
  return {2 * multiply_adds, size(a) + size(b) + size(made),
          few ? Work::depthwise : Work::convolution};
}

bool is_double(const Spec& s) { return s.dtype == DType::f64; }

}  // namespace

// ---- forward ----

Spec Conv2d::shape(Specs in) const {
  if (in.size() < 2 || in.size() > 3)
    throw Error(
        fmt::format("conv2d: takes x, a weight and perhaps a bias, found {} inputs", in.size()));
  const Conv2dShape s = forward_sizes(name, options, in[0], in[1]);
  const DType made = products::result_type(name, in[0], in[1]);
  if (in.size() == 3) {
    if (in[2].dtype != made && !(made == DType::f32 && is_half(in[2].dtype)))
      throw Error(fmt::format("conv2d: the bias is {}, expected {} to go with {}", to_string(in[2]),
                              ebb::name(made), pair(in[0], in[1])));
    if (in[2].shape != Shape{in[1].shape[0]})
      throw Error(fmt::format("conv2d: the bias is {}, expected ({}) to go with the weight {}",
                              to_string(in[2]), in[1].shape[0], to_string(in[1])));
  }
  return {out_shape(s), made};
}

Cost Conv2d::cost(Specs in) const {
  const Conv2dShape s = forward_sizes(name, options, in[0], in[1]);
  return cost_of(conv2d_work(s).forward, in[0], in[1], shape(in), s);
}

std::size_t Conv2d::scratch(Specs in) const {
  const Conv2dShape s = forward_sizes(name, options, in[0], in[1]);
  if (is_double(in[0])) return kernels::conv2d_scratch_bytes<double>(s);
  return conv::Pieces(s, in[0].dtype, in[1].dtype, shape(in).dtype)
      .forward_scratch(in.size() == 3 ? in[2].dtype : DType::f32);
}

void Conv2d::run(Ins in, Out y, Scratch scratch) const {
  const Conv2dShape s = forward_sizes(name, options, *in[0].spec, *in[1].spec);
  const In* bias = in.size() == 3 ? &in[2] : nullptr;
  if (y.dtype() == DType::f64) {
    return kernels::conv2d<double>(s, in[0].as<double>(), in[1].as<double>(),
                                   bias ? bias->as<double>() : nullptr, y.as<double>(), scratch);
  }
  conv::Pieces(s, in[0].dtype(), in[1].dtype(), y.dtype())
      .forward(in[0].data, in[1].data, bias, y.data, scratch);
}

// The weight's and the bias's gradients are sums over examples: they go on from what there is, where
// they are of the type that the sums have.
void Conv2d::grad(Back& b) const {
  const Spec &x = b.in_spec(0), &w = b.in_spec(1);
  if (b.wants(0))
    b.give(0, cast(conv2d_input_grad(b.d(), b.in(1), x.shape[1], x.shape[2], options), x.dtype));
  if (b.wants(1)) {
    const bool same = w.dtype == b.out_spec().dtype;
    const Tensor dw = conv2d_weight_grad(b.in(0), b.d(), w.shape[1], w.shape[2], options,
                                         same ? b.take(1) : Tensor());
    b.give(1, cast(dw, w.dtype));
  }
  if (b.inputs() == 3 && b.wants(2)) {
    const Spec& bias = b.in_spec(2);
    const bool same = bias.dtype == b.out_spec().dtype;
    b.give(2, cast(sum_to(b.d(), bias.shape, same ? b.take(2) : Tensor()), bias.dtype));
  }
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  const Tensor* in[] = {&x, &weight, &bias};
  return apply_all(Conv2d{options}, std::span(in, bias ? 3 : 2));
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& o) {
  if (x.rank() != 3)
    throw Error(
        fmt::format("conv1d: x is {}; expected (batch, length, channels)", to_string(x.spec())));
  if (weight.rank() != 3)
    throw Error(
        fmt::format("conv1d: the weight is {}; expected (out channels, length, in channels "
                    "/ groups)",
                    to_string(weight.spec())));
  const Shape &a = x.shape(), &w = weight.shape();
  const Tensor y =
      conv2d(reshape(x, {a[0], 1, a[1], a[2]}), reshape(weight, {w[0], 1, w[1], w[2]}), bias,
             {.stride = {1, o.stride},
              .padding = {0, 0, o.padding[0], o.padding[1]},
              .dilation = {1, o.dilation},
              .groups = o.groups});
  return reshape(y, {y.dim(0), y.dim(2), y.dim(3)});
}

// ---- gradient of the input ----

Spec Conv2dInputGrad::shape(const Spec& dy, const Spec& weight) const {
  const Conv2dShape s = input_grad_sizes(*this, dy, weight);
  return {Shape{dy.shape[0], in_h, in_w, static_cast<std::int64_t>(s.in_c)},
          products::result_type(name, dy, weight)};
}

Cost Conv2dInputGrad::cost(const Spec& dy, const Spec& weight) const {
  const Conv2dShape s = input_grad_sizes(*this, dy, weight);
  return cost_of(conv2d_work(s).input_grad, dy, weight, shape(dy, weight), s);
}

std::size_t Conv2dInputGrad::scratch(const Spec& dy, const Spec& weight) const {
  const Conv2dShape s = input_grad_sizes(*this, dy, weight);
  if (is_double(dy)) return kernels::conv2d_input_grad_scratch_bytes<double>(s);
  return conv::Pieces(s, shape(dy, weight).dtype, weight.dtype, dy.dtype).input_grad_scratch();
}

void Conv2dInputGrad::run(In dy, In weight, Out dx, Scratch scratch) const {
  const Conv2dShape s = input_grad_sizes(*this, *dy.spec, *weight.spec);
  if (dx.dtype() == DType::f64) {
    return kernels::conv2d_input_grad<double>(s, dy.as<double>(), weight.as<double>(),
                                              dx.as<double>(), scratch);
  }
  conv::Pieces(s, dx.dtype(), weight.dtype(), dy.dtype())
      .input_grad(dy.data, weight.data, dx.data, scratch);
}

void Conv2dInputGrad::grad(Back& b) const {
  const Shape& w = b.in_spec(1).shape;
  const DType of_dy = b.in_spec(0).dtype, of_w = b.in_spec(1).dtype;
  if (b.wants(0)) b.give(0, cast(conv2d(b.d(), b.in(1), {}, options), of_dy));
  if (b.wants(1)) {
    const bool same = of_w == b.out_spec().dtype;
    b.give(1, cast(conv2d_weight_grad(b.d(), b.in(0), w[1], w[2], options,
                                      same ? b.take(1) : Tensor()),
                   of_w));
  }
}

Tensor ops::conv2d_input_grad(const Tensor& dy, const Tensor& weight, std::int64_t in_h,
                              std::int64_t in_w, const Conv2dOptions& options) {
  return apply(Conv2dInputGrad{options, in_h, in_w}, dy, weight);
}

// ---- gradient of the weight ----

Spec Conv2dWeightGrad::shape(Specs in) const {
  const std::size_t expected = accumulate ? 3 : 2;
  if (in.size() != expected)
    throw Error(fmt::format("conv2d_weight_grad: takes {} inputs, found {}", expected, in.size()));
  weight_grad_sizes(*this, in);
  const Spec dw{{in[1].shape[3], kernel_h, kernel_w, in[0].shape[3] / options.groups},
                products::result_type(name, in[0], in[1])};
  if (accumulate && in[2] != dw)
    throw Error(fmt::format("conv2d_weight_grad: the accumulator is {}, expected {}",
                            to_string(in[2]), to_string(dw)));
  return dw;
}

Cost Conv2dWeightGrad::cost(Specs in) const {
  const Conv2dShape s = weight_grad_sizes(*this, in);
  return cost_of(conv2d_work(s).weight_grad, in[0], in[1], shape(in), s);
}

std::size_t Conv2dWeightGrad::scratch(Specs in) const {
  const Conv2dShape s = weight_grad_sizes(*this, in);
  if (is_double(in[0])) return kernels::conv2d_weight_grad_scratch_bytes<double>(s);
  return conv::Pieces(s, in[0].dtype, shape(in).dtype, in[1].dtype).weight_grad_scratch();
}

void Conv2dWeightGrad::run(Ins in, Out dw, Scratch scratch) const {
  const Spec specs[] = {*in[0].spec, *in[1].spec};
  const Conv2dShape s = weight_grad_sizes(*this, specs);
  if (accumulate && in[2].data != dw.data)
    kernels::copy_bytes(in[2].data, dw.data, dw.spec->bytes());
  if (dw.dtype() == DType::f64) {
    return kernels::conv2d_weight_grad<double>(s, in[0].as<double>(), in[1].as<double>(),
                                               dw.as<double>(), accumulate, scratch);
  }
  conv::Pieces(s, in[0].dtype(), dw.dtype(), in[1].dtype())
      .weight_grad(in[0].data, in[1].data, dw.data, accumulate, scratch);
}

void Conv2dWeightGrad::grad(Back& b) const {
  const Shape& x = b.in_spec(0).shape;
  const DType of_x = b.in_spec(0).dtype, of_dy = b.in_spec(1).dtype;
  if (b.wants(0)) b.give(0, cast(conv2d_input_grad(b.in(1), b.d(), x[1], x[2], options), of_x));
  if (b.wants(1)) b.give(1, cast(conv2d(b.in(0), b.d(), {}, options), of_dy));
  if (accumulate && b.wants(2)) b.give(2, b.d());
}

Tensor ops::conv2d_weight_grad(const Tensor& x, const Tensor& dy, std::int64_t kernel_h,
                               std::int64_t kernel_w, const Conv2dOptions& options, Tensor into) {
  const Tensor* in[] = {&x, &dy, &into};
  const bool add = static_cast<bool>(into);
  return apply_all(Conv2dWeightGrad{options, kernel_h, kernel_w, add}, std::span(in, add ? 3 : 2),
                   add ? 2 : -1);
}

}  // namespace ebb
