#include "ebb/ops/pooling.hpp"

#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/kernels/pool2d.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/last_axis.hpp"
#include "ebb/ops/shape.hpp"

namespace ebb {

using namespace ops;

namespace {

using kernels::Pool2dShape;

std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

void check_image(const char* op, const char* what, const Spec& x) {
  check_float(op, x);
  if (x.rank() != 4)
    throw Error(fmt::format("{}: {} is {}; expected (batch, height, width, channels)", op, what,
                            to_string(x)));
}

// The kernel's sizes for x; throws where the windows do not fit.
Pool2dShape sizes(const char* op, const Pool2dOptions& o, const Shape& x) {
  constexpr std::int64_t kMost = 1 << 24;  // keeps sums of sizes far from overflow
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t window = o.window[d];
    if (window < 1 || window > kMost)
      throw Error(
          fmt::format("{}: window {} is out of range; expected 1 to {}", op, window, kMost));
    if (o.stride[d] < 0 || o.stride[d] > kMost)
      throw Error(fmt::format("{}: stride {} is out of range; expected 0 (the window's) to {}", op,
                              o.stride[d], kMost));
    for (const std::int64_t pad : {o.padding[2 * d], o.padding[2 * d + 1]}) {
      if (pad < 0 || pad >= window)
        throw Error(
            fmt::format("{}: padding {} is out of range; expected 0 to {}, less than the "
                        "window",
                        op, pad, window - 1));
    }
  }
  Pool2dShape s{.batch = count(x[0]),
                .in_h = count(x[1]),
                .in_w = count(x[2]),
                .channels = count(x[3]),
                .window_h = count(o.window[0]),
                .window_w = count(o.window[1]),
                .stride_h = count(o.stride[0] == 0 ? o.window[0] : o.stride[0]),
                .stride_w = count(o.stride[1] == 0 ? o.window[1] : o.stride[1]),
                .pad_top = count(o.padding[0]),
                .pad_bottom = count(o.padding[1]),
                .pad_left = count(o.padding[2]),
                .pad_right = count(o.padding[3])};
  if (s.out_h() == 0 || s.out_w() == 0)
    throw Error(
        fmt::format("{}: a window of {}x{} does not fit an image of {}x{} with this padding", op,
                    o.window[0], o.window[1], x[1], x[2]));
  return s;
}

Spec out_spec(const Pool2dShape& s, DType dtype) {
  return {Shape{static_cast<std::int64_t>(s.batch), static_cast<std::int64_t>(s.out_h()),
                static_cast<std::int64_t>(s.out_w()), static_cast<std::int64_t>(s.channels)},
          dtype};
}

Spec pooled(const char* op, const Pool2dOptions& o, const Spec& x) {
  check_image(op, "x", x);
  return out_spec(sizes(op, o, x.shape), x.dtype);
}

void check_dy(const char* op, const Spec& dy, const Spec& expected) {
  if (dy != expected)
    throw Error(fmt::format("{}: dy is {}, expected {}", op, to_string(dy), to_string(expected)));
}

// One operation for each cell of each window, and the bytes of all the specs.
Cost window_cost(const Pool2dOptions& o, const Spec& y, std::initializer_list<const Spec*> moved) {
  return reduction_cost(static_cast<double>(o.window[0] * o.window[1]), y, moved);
}

// A pool over lengths as one over images of one row.
Pool2dOptions over_length(const char* op, const Tensor& x, const Pool1dOptions& o) {
  if (x.rank() != 3)
    throw Error(
        fmt::format("{}: x is {}; expected (batch, length, channels)", op, to_string(x.spec())));
  return {.window = {1, o.window},
          .stride = {1, o.stride},
          .padding = {0, 0, o.padding[0], o.padding[1]},
          .count_padding = o.count_padding};
}

Tensor with_row(const Tensor& x) { return reshape(x, {x.dim(0), 1, x.dim(1), x.dim(2)}); }
Tensor without_row(const Tensor& y) { return reshape(y, {y.dim(0), y.dim(2), y.dim(3)}); }

}  // namespace

// ---- max ----

Spec MaxPool2d::shape(const Spec& x) const { return pooled(name, options, x); }
Cost MaxPool2d::cost(const Spec& x) const {
  const Spec y = shape(x);
  return window_cost(options, y, {&x, &y});
}

void MaxPool2d::run(In x, Out y, Scratch) const {
  const Pool2dShape s = sizes(name, options, x.shape());
  with_float(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::max_pool2d<T>(s, x.as<T>(), y.as<T>());
  });
}

void MaxPool2d::grad(Back& b) const {
  if (b.wants(0)) b.give(0, max_pool2d_backward(b.in(0), b.d(), options));
}

Spec MaxPool2dBackward::shape(const Spec& x, const Spec& dy) const {
  check_dy(name, dy, pooled(name, options, x));
  return x;
}
Cost MaxPool2dBackward::cost(const Spec& x, const Spec& dy) const {
  return window_cost(options, dy, {&x, &dy, &x});
}

void MaxPool2dBackward::run(In x, In dy, Out dx, Scratch) const {
  const Pool2dShape s = sizes(name, options, x.shape());
  with_float(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::max_pool2d_grad<T>(s, x.as<T>(), dy.as<T>(), dx.as<T>());
  });
}

void MaxPool2dBackward::grad(Back& b) const {  // where x is largest does not move with x
  if (b.wants(1)) b.give(1, max_pool2d_pick(b.in(0), b.d(), options));
}

Spec MaxPool2dPick::shape(const Spec& x, const Spec& v) const {
  if (x != v) throw Error(fmt::format("{}: {} and {} differ", name, to_string(x), to_string(v)));
  return pooled(name, options, x);
}
Cost MaxPool2dPick::cost(const Spec& x, const Spec& v) const {
  const Spec y = shape(x, v);
  return window_cost(options, y, {&x, &v, &y});
}

void MaxPool2dPick::run(In x, In v, Out y, Scratch) const {
  const Pool2dShape s = sizes(name, options, x.shape());
  with_float(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::max_pool2d_pick<T>(s, x.as<T>(), v.as<T>(), y.as<T>());
  });
}

void MaxPool2dPick::grad(Back& b) const {
  if (b.wants(1)) b.give(1, max_pool2d_backward(b.in(0), b.d(), options));
}

// ---- average ----

Spec AvgPool2d::shape(const Spec& x) const { return pooled(name, options, x); }
Cost AvgPool2d::cost(const Spec& x) const {
  const Spec y = shape(x);
  return window_cost(options, y, {&x, &y});
}

void AvgPool2d::run(In x, Out y, Scratch) const {
  const Pool2dShape s = sizes(name, options, x.shape());
  with_float(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::avg_pool2d<T>(s, x.as<T>(), y.as<T>(), options.count_padding);
  });
}

void AvgPool2d::grad(Back& b) const {
  const Shape& x = b.in_spec(0).shape;
  if (b.wants(0)) b.give(0, avg_pool2d_backward(b.d(), x[1], x[2], options));
}

Spec AvgPool2dBackward::shape(const Spec& dy) const {
  check_image(name, "dy", dy);
  const Spec x{{dy.shape[0], in_h, in_w, dy.shape[3]}, dy.dtype};
  check_dy(name, dy, pooled(name, options, x));
  return x;
}
Cost AvgPool2dBackward::cost(const Spec& dy) const {
  const Spec x = shape(dy);
  return window_cost(options, dy, {&dy, &x});
}

void AvgPool2dBackward::run(In dy, Out dx, Scratch) const {
  const Pool2dShape s = sizes(name, options, dx.shape());
  with_float(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::avg_pool2d_grad<T>(s, dy.as<T>(), dx.as<T>(), options.count_padding);
  });
}

void AvgPool2dBackward::grad(Back& b) const {
  if (b.wants(0)) b.give(0, avg_pool2d(b.d(), options));
}

// ---- functions ----

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& o) { return apply(MaxPool2d{o}, x); }
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& o) { return apply(AvgPool2d{o}, x); }

Tensor max_pool1d(const Tensor& x, const Pool1dOptions& o) {
  const Pool2dOptions over = over_length("max_pool1d", x, o);
  return without_row(max_pool2d(with_row(x), over));
}
Tensor avg_pool1d(const Tensor& x, const Pool1dOptions& o) {
  const Pool2dOptions over = over_length("avg_pool1d", x, o);
  return without_row(avg_pool2d(with_row(x), over));
}

Tensor ops::max_pool2d_backward(const Tensor& x, const Tensor& dy, const Pool2dOptions& o) {
  return apply(MaxPool2dBackward{o}, x, dy);
}
Tensor ops::max_pool2d_pick(const Tensor& x, const Tensor& v, const Pool2dOptions& o) {
  return apply(MaxPool2dPick{o}, x, v);
}
Tensor ops::avg_pool2d_backward(const Tensor& dy, std::int64_t in_h, std::int64_t in_w,
                                const Pool2dOptions& o) {
  return apply(AvgPool2dBackward{o, in_h, in_w}, dy);
}

}  // namespace ebb
