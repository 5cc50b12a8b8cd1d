// Conv2d, its two gradients, conv1d.
#include "ebb/ops/conv.hpp"

#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

struct Place {
  std::int64_t n, i, j, co, h, w, ci, kh, kw, c;  // x(n, h, w, ci) meets weight(co, kh, kw, c)
};

// f of every product that makes y(n, i, j, co).
template <class F>
void each_product(const Shape& x, const Shape& w, const Shape& y, const Conv2dOptions& o, F&& f) {
  for_each_index(y, [&](const Index& at) {
    for (std::int64_t kh = 0; kh < w[1]; ++kh)
      for (std::int64_t kw = 0; kw < w[2]; ++kw) {
        const std::int64_t h = at[1] * o.stride[0] - o.padding[0] + kh * o.dilation[0];
        const std::int64_t v = at[2] * o.stride[1] - o.padding[2] + kw * o.dilation[1];
        if (h < 0 || h >= x[1] || v < 0 || v >= x[2]) continue;
        const std::int64_t first = w[0] == 0 ? 0 : at[3] / (w[0] / o.groups) * w[3];
        for (std::int64_t c = 0; c < w[3]; ++c)
          f(Place{at[0], at[1], at[2], at[3], h, v, first + c, kh, kw, c});
      }
  });
}

Shape conv_shape(const Shape& x, const Shape& w, const Conv2dOptions& o) {
  const auto places = [&](int d, std::size_t s, std::int64_t kernel) {
    const std::int64_t padded = x[d] + o.padding[2 * s] + o.padding[2 * s + 1];
    return (padded - (kernel - 1) * o.dilation[s] - 1) / o.stride[s] + 1;
  };
  return {x[0], places(1, 0, w[1]), places(2, 1, w[2]), w[0]};
}

const Tolerance kHalf{.half = 2};
constexpr const char* kWhy = "a sum that cancels is off by a rounding of what went into it";

// A convolution, with and without bias, and its gradients as ops of their own.
void add_conv(const std::string& name, const Shape& x, const Shape& w,
              const Conv2dOptions& o = {}) {
  const Shape y = conv_shape(x, w, o);
  const auto forward = [=](const auto& in) {
    auto out = std::decay_t<decltype(in[0])>(y);
    if (in.size() == 3) for_each_index(y, [&](const Index& i) { out.at(i) = in[2](i[3]); });
    each_product(x, w, y, o, [&](const Place& p) {
      out(p.n, p.i, p.j, p.co) += in[0](p.n, p.h, p.w, p.ci) * in[1](p.co, p.kh, p.kw, p.c);
    });
    return out;
  };
  add_row({.name = "conv2d " + name,
           .op = "conv2d",
           .inputs = {Input{.shape = x}, Input{.shape = w}},
           .call = [o](const Tensors& in) { return conv2d(in[0], in[1], {}, o); },
           .reference = analytic(forward),
           .half = true,
           .tolerance = kHalf,
           .why = kWhy});
  add_row({.name = "conv2d with bias " + name,
           .op = "conv2d",
           .inputs = {Input{.shape = x}, Input{.shape = w}, f(w[0])},
           .call = [o](const Tensors& in) { return conv2d(in[0], in[1], in[2], o); },
           .reference = analytic(forward),
           .half = true,
           .tolerance = kHalf,
           .why = kWhy});
  add_row(
      {.name = "conv2d_input_grad " + name,
       .op = "conv2d_input_grad",
       .inputs = {Input{.shape = y}, Input{.shape = w}},
       .call = [=](const Tensors& in) { return conv2d_input_grad(in[0], in[1], x[1], x[2], o); },
       .reference = analytic([=](const auto& in) {
         auto dx = std::decay_t<decltype(in[0])>(x);
         each_product(x, w, y, o, [&](const Place& p) {
           dx(p.n, p.h, p.w, p.ci) += in[0](p.n, p.i, p.j, p.co) * in[1](p.co, p.kh, p.kw, p.c);
         });
         return dx;
       }),
       .half = true,
       .tolerance = kHalf,
       .why = kWhy});
  const auto weight_grad = [=](const auto& in, auto dw) {
    each_product(x, w, y, o, [&](const Place& p) {
      dw(p.co, p.kh, p.kw, p.c) += in[0](p.n, p.h, p.w, p.ci) * in[1](p.n, p.i, p.j, p.co);
    });
    return dw;
  };
  add_row(
      {.name = "conv2d_weight_grad " + name,
       .op = "conv2d_weight_grad",
       .inputs = {Input{.shape = x}, Input{.shape = y}},
       .call = [=](const Tensors& in) { return conv2d_weight_grad(in[0], in[1], w[1], w[2], o); },
       .reference = analytic(
           [=](const auto& in) { return weight_grad(in, std::decay_t<decltype(in[0])>(w)); }),
       .half = true,
       .tolerance = kHalf,
       .why = kWhy});
  add_row({.name = "conv2d_weight_grad into " + name,
           .op = "conv2d_weight_grad",
           .inputs = {Input{.shape = x}, Input{.shape = y}, Input{.shape = w}},
           .call =
               [=](const Tensors& in) {
                 return conv2d_weight_grad(in[0], in[1], w[1], w[2], o, in[2]);
               },
           .reference = analytic([=](const auto& in) { return weight_grad(in, in[2]); }),
           .half = true,
           .tolerance = kHalf,
           .why = kWhy});
}

[[maybe_unused]] const bool convolutions = [] {
  add_conv("3x3", {2, 5, 4, 3}, {5, 3, 3, 3}, {.padding = {1, 1, 1, 1}});
  add_conv("1x1", {2, 3, 3, 4}, {3, 1, 1, 4});
  add_conv("one of everything", {1, 1, 1, 1}, {1, 1, 1, 1});
  add_conv("2x3 without padding", {1, 4, 5, 2}, {3, 2, 3, 2});
  add_conv("stride", {2, 5, 6, 2}, {2, 3, 3, 2}, {.stride = {2, 3}, .padding = {1, 0, 0, 2}});
  add_conv("stride wider than the kernel", {1, 5, 5, 2}, {2, 1, 1, 2}, {.stride = {3, 2}});
  add_conv("dilation", {1, 6, 5, 2}, {2, 2, 3, 2}, {.padding = {0, 1, 1, 1}, .dilation = {3, 2}});
  add_conv("stride and dilation", {1, 7, 6, 1}, {2, 3, 2, 1},
           {.stride = {2, 2}, .padding = {2, 2, 1, 1}, .dilation = {2, 3}});
  add_conv("groups", {2, 3, 3, 4}, {6, 2, 2, 2}, {.padding = {1, 0, 0, 1}, .groups = 2});
  add_conv("depthwise", {2, 4, 3, 5}, {5, 3, 3, 1}, {.padding = {1, 1, 1, 1}, .groups = 5});
  add_conv("depthwise with stride", {1, 5, 5, 3}, {3, 3, 2, 1}, {.stride = {2, 2}, .groups = 3});
  add_conv("two filters a channel", {1, 3, 3, 2}, {4, 2, 2, 1}, {.groups = 2});
  add_conv("no examples", {0, 3, 3, 2}, {2, 2, 2, 2});
  add_conv("no input channels", {1, 3, 3, 0}, {2, 2, 2, 0});
  add_conv("no output channels", {1, 3, 3, 2}, {0, 2, 2, 2});
  add_conv("padding only", {1, 0, 0, 2}, {2, 2, 2, 2}, {.padding = {1, 1, 1, 1}});
  add_conv("blocks and threads", {2, 9, 13, 9}, {18, 3, 3, 9}, {.padding = {1, 1, 1, 1}});
  add_conv("winograd", {2, 8, 8, 17}, {20, 3, 3, 17}, {.padding = {1, 1, 1, 1}, .winograd = true});
  add_conv("winograd without padding", {1, 10, 6, 18}, {18, 3, 3, 18}, {.winograd = true});
  add_conv("winograd, too few channels", {1, 4, 4, 2}, {2, 3, 3, 2}, {.winograd = true});
  return true;
}();

void add_conv1d(const std::string& name, const Shape& x, const Shape& w,
                const Conv1dOptions& o = {}) {
  const std::int64_t length =
      (x[1] + o.padding[0] + o.padding[1] - (w[1] - 1) * o.dilation - 1) / o.stride + 1;
  add_row({.name = "conv1d " + name,
           .op = "conv2d",
           .inputs = {Input{.shape = x}, Input{.shape = w}, f(w[0])},
           .call = [o](const Tensors& in) { return conv1d(in[0], in[1], in[2], o); },
           .reference = analytic([=](const auto& in) {
             using T = typename std::decay_t<decltype(in[0])>::Element;
             return build<T>(Shape{x[0], length, w[0]}, [&](const Index& i) {
               T sum = in[2](i[2]);
               for (std::int64_t k = 0; k < w[1]; ++k) {
                 const std::int64_t at = i[1] * o.stride - o.padding[0] + k * o.dilation;
                 if (at < 0 || at >= x[1]) continue;
                 for (std::int64_t c = 0; c < w[2]; ++c)
                   sum += in[0](i[0], at, i[2] / (w[0] / o.groups) * w[2] + c) * in[1](i[2], k, c);
               }
               return sum;
             });
           })});
}

[[maybe_unused]] const bool lengths = [] {
  add_conv1d("causal", {2, 7, 3}, {4, 3, 3}, {.padding = {4, 0}, .dilation = 2});
  add_conv1d("stride and groups", {2, 8, 4}, {2, 3, 2},
             {.stride = 2, .padding = {1, 1}, .groups = 2});
  add_conv1d("one", {1, 1, 1}, {1, 1, 1});
  return true;
}();

OP_ROW(
    "conv2d in 16 bits", .op = "conv2d", .inputs = {f(2, 4, 4, 3), f(4, 3, 3, 3), f(4)},
    .call =
        [](const Tensors& in) {
          return conv2d(in[0], in[1], in[2], {.padding = {1, 1, 1, 1}});
        },
    .no_reference = "the values are checked above", .half = true);

OP_ROW(
    "conv2d refuses a matrix", .op = "conv2d", .inputs = {f(4, 4), f(3, 1, 1, 4)},
    .call = [](const Tensors& in) { return conv2d(in[0], in[1]); },
    .refused = "conv2d: x is f32(4, 4); expected (batch, height, width, channels)");
OP_ROW(
    "conv2d refuses a matrix as weight", .op = "conv2d", .inputs = {f(1, 4, 4, 4), f(3, 4)},
    .call = [](const Tensors& in) { return conv2d(in[0], in[1]); },
    .refused =
        "conv2d: the weight is f32(3, 4); expected (out channels, height, width, in "
        "channels / groups)");
OP_ROW(
    "conv2d refuses other channels", .op = "conv2d", .inputs = {f(1, 4, 4, 4), f(3, 1, 1, 2)},
    .call = [](const Tensors& in) { return conv2d(in[0], in[1]); },
    .refused =
        "conv2d: f32(1, 4, 4, 4) and f32(3, 1, 1, 2) do not go together: 4 channels in 1 "
        "group(s) need a weight with 4 of them, found 2");
OP_ROW(
    "conv2d refuses uneven groups", .op = "conv2d", .inputs = {f(1, 4, 4, 4), f(3, 1, 1, 2)},
    .call = [](const Tensors& in) { return conv2d(in[0], in[1], {}, {.groups = 2}); },
    .refused = "conv2d: 3 output channels do not divide into 2 groups");
OP_ROW(
    "conv2d refuses a large kernel", .op = "conv2d", .inputs = {f(1, 4, 4, 1), f(1, 5, 3, 1)},
    .call = [](const Tensors& in) { return conv2d(in[0], in[1]); },
    .refused = "conv2d: a kernel of 5x3 does not fit an image of 4x4");
OP_ROW(
    "conv2d refuses a stride of zero", .op = "conv2d", .inputs = {f(1, 4, 4, 1), f(1, 1, 1, 1)},
    .call =
        [](const Tensors& in) {
          return conv2d(in[0], in[1], {}, {.stride = {1, 0}});
        },
    .refused = "conv2d: stride 0 is out of range; expected 1 to 16777216");
OP_ROW(
    "conv2d refuses another bias", .op = "conv2d", .inputs = {f(1, 4, 4, 1), f(2, 1, 1, 1), f(3)},
    .call = [](const Tensors& in) { return conv2d(in[0], in[1], in[2]); },
    .refused = "conv2d: the bias is f32(3), expected (2) to go with the weight f32(2, 1, 1, 1)");
OP_ROW(
    "conv2d refuses integers", .op = "conv2d",
    .inputs = {ints({1, 2, 2, 1}, 0, 3, DType::i32), f(1, 1, 1, 1)},
    .call = [](const Tensors& in) { return conv2d(in[0], in[1]); },
    .refused = "conv2d: i32(1, 2, 2, 1) is not a floating type; cast it first");
OP_ROW(
    "conv2d refuses mixed types", .op = "conv2d",
    .inputs = {f(1, 2, 2, 1), f(1, 1, 1, 1).as(DType::f64)},
    .call = [](const Tensors& in) { return conv2d(in[0], in[1]); },
    .refused = "conv2d: f32(1, 2, 2, 1) and f64(1, 1, 1, 1) differ in type; cast one");
OP_ROW(
    "conv2d_input_grad refuses another dy", .op = "conv2d_input_grad",
    .inputs = {f(1, 3, 4, 2), f(2, 1, 1, 1)},
    .call = [](const Tensors& in) { return conv2d_input_grad(in[0], in[1], 4, 4); },
    .refused = "conv2d_input_grad: dy is f32(1, 3, 4, 2), expected (1, 4, 4, 2)");
OP_ROW(
    "conv2d_weight_grad refuses another accumulator", .op = "conv2d_weight_grad",
    .inputs = {f(1, 4, 4, 1), f(1, 4, 4, 2), f(2, 1)},
    .call = [](const Tensors& in) { return conv2d_weight_grad(in[0], in[1], 1, 1, {}, in[2]); },
    .refused = "conv2d_weight_grad: the accumulator is f32(2, 1), expected f32(2, 1, 1, 1)");
OP_ROW(
    "conv1d refuses an image", .op = "conv2d", .inputs = {f(1, 4, 4, 1), f(1, 1, 1)},
    .call = [](const Tensors& in) { return conv1d(in[0], in[1]); },
    .refused = "conv1d: x is f32(1, 4, 4, 1); expected (batch, length, channels)");

}  // namespace
}  // namespace ebb::table
