// Functions of one tensor and their ways back.
#include "ebb/ops/unary.hpp"

#include <cmath>

#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

struct Range {
  double lo = -2, hi = 2;
  std::vector<double> kinks{};
};

Input input(const Shape& shape, const Range& r) {
  return Input{.shape = shape}.in(r.lo, r.hi).away_from(r.kinks);
}

// One function in the shapes every function is run in.
template <class Call, class MakeReference>
void add_shapes(const std::string& op, Call call, const Range& range, MakeReference reference,
                int order = 2) {
  const auto one = [&](const std::string& name, const Shape& shape, bool half) {
    add_row({.name = op + " " + name,
             .op = op,
             .inputs = {input(shape, range)},
             .call = [call](const Tensors& in) { return call(in[0]); },
             .reference = reference(),
             .half = half,
             .order = order,
             .tolerance = {.half = 2},
             .why = "half: rounded once going in and once coming out"});
  };
  one("scalar", {}, false);
  one("odd", {3, 7}, true);
  one("of nothing", {0, 3}, false);
  one("one", {1, 1}, false);
}

template <class Call, class F>
void add_analytic(const std::string& op, Call call, F f, Range range = {}) {
  add_shapes(op, call, range,
             [f] { return analytic([f](const auto& in) { return map(in[0], f); }); });
}
template <class Call, class F>
void add_plain(const std::string& op, Call call, F f, Range range = {}) {
  add_shapes(op, call, range,
             [f] { return Reference([f](const Arrays<double>& in) { return map(in[0], f); }); });
}

const auto gelu_tanh_of = [](auto x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
};
double cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double pdf(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

[[maybe_unused]] const bool functions = [] {
  using T = Tensor;
  add_analytic(
      "neg", [](const T& x) { return neg(x); }, [](auto x) { return -x; });
  add_analytic(
      "exp", [](const T& x) { return exp(x); }, [](auto x) { return std::exp(x); });
  add_analytic(
      "log", [](const T& x) { return log(x); }, [](auto x) { return std::log(x); }, {0.3, 3});
  add_analytic(
      "log1p", [](const T& x) { return log1p(x); }, [](auto x) { return std::log(1.0 + x); },
      {-0.6, 3});
  add_analytic(
      "expm1", [](const T& x) { return expm1(x); }, [](auto x) { return std::exp(x) - 1.0; });
  add_analytic(
      "sqrt", [](const T& x) { return sqrt(x); }, [](auto x) { return std::sqrt(x); }, {0.3, 3});
  add_analytic(
      "rsqrt", [](const T& x) { return rsqrt(x); }, [](auto x) { return 1.0 / std::sqrt(x); },
      {0.3, 3});
  add_analytic(
      "square", [](const T& x) { return square(x); }, [](auto x) { return x * x; });
  add_analytic(
      "reciprocal", [](const T& x) { return reciprocal(x); }, [](auto x) { return 1.0 / x; },
      {0.4, 3});
  add_analytic(
      "sin", [](const T& x) { return sin(x); }, [](auto x) { return std::sin(x); });
  add_analytic(
      "cos", [](const T& x) { return cos(x); }, [](auto x) { return std::cos(x); });
  add_analytic(
      "tanh", [](const T& x) { return tanh(x); }, [](auto x) { return std::tanh(x); });
  add_analytic(
      "sigmoid", [](const T& x) { return sigmoid(x); },
      [](auto x) { return 1.0 / (1.0 + std::exp(-x)); });
  add_analytic(
      "softplus", [](const T& x) { return softplus(x); },
      [](auto x) { return std::log(1.0 + std::exp(x)); });
  add_analytic(
      "silu", [](const T& x) { return silu(x); }, [](auto x) { return x / (1.0 + std::exp(-x)); });
  add_analytic(
      "gelu_tanh", [](const T& x) { return gelu_tanh(x); }, gelu_tanh_of);
  add_plain(
      "gelu", [](const T& x) { return gelu(x); }, [](double x) { return x * cdf(x); });
  add_plain(
      "erf", [](const T& x) { return erf(x); }, [](double x) { return std::erf(x); });
  add_plain(
      "abs", [](const T& x) { return abs(x); }, [](double x) { return std::fabs(x); },
      {-2, 2, {0}});
  add_plain(
      "sign", [](const T& x) { return sign(x); },
      [](double x) { return x > 0   ? 1.0
                            : x < 0 ? -1.0
                                    : 0.0; }, {-2, 2, {0}});
  add_plain(
      "relu", [](const T& x) { return relu(x); }, [](double x) { return std::fmax(x, 0.0); },
      {-2, 2, {0}});
  add_plain(
      "leaky_relu", [](const T& x) { return leaky_relu(x, 0.25); },
      [](double x) { return x < 0 ? 0.25 * x : x; }, {-2, 2, {0}});
  add_plain(
      "elu", [](const T& x) { return elu(x, 0.7); },
      [](double x) { return x < 0 ? 0.7 * std::expm1(x) : x; }, {-2, 2, {0}});
  add_plain(
      "clip", [](const T& x) { return clip(x, -0.5, 1); },
      [](double x) { return std::fmin(1.0, std::fmax(-0.5, x)); }, {-2, 2, {-0.5, 1}});
  return true;
}();

// The ways back, as functions of (saved, dy).
template <class F>
void add_backward(const std::string& name, math::UnaryGrad function, F slope, Range range = {},
                  double a = 0, double b = 0) {
  const auto one = [&](const std::string& kind, const Shape& shape, bool half) {
    add_row(
        {.name = name + "_backward " + kind,
         .op = name + "_backward",
         .inputs = {input(shape, range), Input{.shape = shape}},
         .call = [=](const Tensors& in) { return unary_backward(function, in[0], in[1], a, b); },
         .reference =
             [slope](const Arrays<double>& in) {
               return map(in[0], in[1], [&](double s, double d) { return d * slope(s); });
             },
         .half = half,
         .tolerance = {.half = 3},
         .why = "half: the inputs are rounded too"});
  };
  one("odd", {3, 7}, true);
  one("scalar", {}, false);
  one("of nothing", {2, 0}, false);
}

[[maybe_unused]] const bool backwards = [] {
  using enum math::UnaryGrad;
  add_backward("relu", relu, [](double y) { return y > 0 ? 1.0 : 0.0; }, {-2, 2, {0}});
  add_backward(
      "leaky_relu", leaky_relu, [](double y) { return y > 0 ? 1.0 : 0.25; }, {-2, 2, {0}}, 0.25);
  add_backward(
      "elu", elu, [](double y) { return y > 0 ? 1.0 : y + 0.7; }, {-0.6, 2, {0}}, 0.7);
  add_backward("tanh", tanh, [](double y) { return 1 - y * y; }, {-0.9, 0.9});
  add_backward("sigmoid", sigmoid, [](double y) { return y * (1 - y); }, {0.1, 0.9});
  add_backward("softplus", softplus, [](double x) { return logistic(x); });
  add_backward("gelu", gelu, [](double x) { return cdf(x) + x * pdf(x); });
  add_backward("gelu_tanh", gelu_tanh, [](double x) {
    const double s = logistic(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    return s + x * s * (1 - s) * 2 * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  });
  add_backward("silu", silu, [](double x) { return logistic(x) * (1 + x * logistic(-x)); });
  add_backward("erf", erf, [](double x) { return 2 / std::sqrt(M_PI) * std::exp(-x * x); });
  add_backward("abs", abs, [](double x) { return x > 0 ? 1.0 : -1.0; }, {-2, 2, {0}});
  add_backward(
      "clip", clip, [](double x) { return x >= -0.5 && x <= 1 ? 1.0 : 0.0; }, {-2, 2, {-0.5, 1}},
      -0.5, 1);
  return true;
}();

OP_ROW(
    "gelu threads", .op = "gelu", .inputs = {f(311, 257)},
    .call = [](const Tensors& in) { return gelu(in[0]); },
    .reference =
        [](const Arrays<double>& in) { return map(in[0], [](double x) { return x * cdf(x); }); });
OP_ROW(
    "neg of integers", .op = "neg", .inputs = {ints({5}, -4, 5, DType::i32)},
    .call = [](const Tensors& in) { return neg(in[0]); },
    .reference = [](const Arrays<double>& in) { return map(in[0], [](double x) { return -x; }); });
OP_ROW(
    "clip of integers", .op = "clip", .inputs = {ints({9}, -4, 5, DType::i64)},
    .call = [](const Tensors& in) { return clip(in[0], -1, 2); },
    .reference =
        [](const Arrays<double>& in) {
          return map(in[0], [](double x) { return std::fmin(2.0, std::fmax(-1.0, x)); });
        });
// A limit of integers is a limit, not an element: it may lie between two of them, or beyond all.
void add_integer_clip(const std::string& name, DType dtype, std::vector<double> x, double lo,
                      double hi, std::vector<double> expected) {
  const Shape shape{static_cast<std::int64_t>(x.size())};
  add_row({.name = "clip of integers " + name,
           .op = "clip",
           .inputs = {Input{.shape = shape}.as(dtype).of(std::move(x))},
           .call = [=](const Tensors& in) { return clip(in[0], lo, hi); },
           .reference =
               [=](const Arrays<double>&) {
                 Array<double> y(shape);
                 y.data = expected;
                 return y;
               }});
}
[[maybe_unused]] const bool integer_clips = [] {
  const double inf = INFINITY, top = 2147483647, low = -2147483648.0;
  for (const DType t : {DType::i32, DType::i64}) {
    const std::string type = std::string(" ") + ebb::name(t);
    add_integer_clip("no upper limit" + type, t, {-3, 0, 7, top}, 0, inf, {0, 0, 7, top});
    add_integer_clip("no lower limit" + type, t, {-3, low, 7}, -inf, 2, {-3, low, 2});
    add_integer_clip("no limit" + type, t, {low, 0, top}, -inf, inf, {low, 0, top});
    add_integer_clip("fractions" + type, t, {-9, -1, 0, 2, 9}, -1.5, 2.5, {-1, -1, 0, 2, 2});
    add_integer_clip("fractions above" + type, t, {-9, 1, 9}, 0.5, 3.99, {1, 1, 3});
    add_integer_clip("limits beyond" + type, t, {low, 0, top}, -1e30, 1e30, {low, 0, top});
  }
  add_integer_clip("lower limit above all", DType::i32, {low, 0}, 3e9, 4e9, {top, top});
  add_integer_clip("upper limit at 2 to the 63", DType::i64, {0, 7}, 1, 0x1p63, {1, 7});
  return true;
}();
OP_ROW(
    "clip of integers to none", .op = "clip", .inputs = {ids({3}, 5, DType::i32)},
    .call = [](const Tensors& in) { return clip(in[0], 0.25, 0.75); },
    .refused = "clip: no i32 lies between the limits 0.25 and 0.75");
OP_ROW(
    "clip of integers to nan", .op = "clip", .inputs = {ids({3}, 5, DType::i32)},
    .call = [](const Tensors& in) { return clip(in[0], 0, NAN); },
    .refused = "clip: the limits 0 and nan are not in order");
OP_ROW(
    "logical_not", .op = "logical_not", .inputs = {bools({3, 5})},
    .call = [](const Tensors& in) { return logical_not(in[0]); },
    .reference =
        [](const Arrays<double>& in) {
          return map(in[0], [](double x) { return x != 0 ? 0.0 : 1.0; });
        });

OP_ROW(
    "logical_not of nothing", .op = "logical_not", .inputs = {bools({0, 3})},
    .call = [](const Tensors& in) { return logical_not(in[0]); },
    .reference = [](const Arrays<double>& in) { return in[0]; });

OP_ROW(
    "log of integers", .op = "log", .inputs = {ids({3}, 5, DType::i32)},
    .call = [](const Tensors& in) { return log(in[0]); },
    .refused = "log: i32(3) is not a floating type; cast it first");
OP_ROW(
    "abs of bools", .op = "abs", .inputs = {bools({3})},
    .call = [](const Tensors& in) { return abs(in[0]); },
    .refused = "is not a floating, i32 or i64 type; cast it first");
OP_ROW(
    "clip limits", .op = "clip", .inputs = {f(3)},
    .call = [](const Tensors& in) { return clip(in[0], 2, 1); },
    .refused = "clip: the limits 2 and 1 are not in order");
OP_ROW(
    "leaky_relu slope", .op = "leaky_relu", .inputs = {f(3)},
    .call = [](const Tensors& in) { return leaky_relu(in[0], -1); },
    .refused = "leaky_relu: the slope is -1; expected 0 or more");
OP_ROW(
    "elu alpha", .op = "elu", .inputs = {f(3)},
    .call = [](const Tensors& in) { return elu(in[0], -1); },
    .refused = "elu: alpha is -1; expected 0 or more");
OP_ROW(
    "logical_not of floats", .op = "logical_not", .inputs = {f(3)},
    .call = [](const Tensors& in) { return logical_not(in[0]); },
    .refused = "logical_not: f32(3) is not bool; cast it first");
OP_ROW(
    "relu_backward shapes", .op = "relu_backward", .inputs = {f(3), f(4)},
    .call = [](const Tensors& in) { return unary_backward(math::UnaryGrad::relu, in[0], in[1]); },
    .refused = "relu_backward: f32(3) and f32(4) differ");

}  // namespace
}  // namespace ebb::table
