// Arithmetic of two tensors, comparisons, logic, where, cast.
#include "ebb/ops/binary.hpp"

#include <cmath>

#include "ebb/ops/cast.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

using Pair = Tensor (*)(const Tensor&, const Tensor&);

struct Layout {
  const char* name;
  Shape a, b;
  bool half = false;
};
const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"same", {3, 5}, {3, 5}, true}, {"scalars", {}, {}},           {"bias", {4, 7}, {7}, true},
      {"column", {4, 7}, {4, 1}},     {"both ways", {4, 1}, {1, 7}}, {"outer", {3, 1, 5}, {2, 1}},
      {"scalar left", {}, {2, 3}},    {"one", {1}, {1, 1}},          {"of nothing", {0, 3}, {3}},
      {"no rows", {2, 0}, {2, 1}}};
  return all;
}

Input operand(const Shape& shape, double lo, double hi) { return Input{.shape = shape}.in(lo, hi); }

template <class MakeReference>
void add_layouts(const std::string& op, Pair call, MakeReference reference, double lo, double hi) {
  for (const Layout& l : layouts()) {
    add_row({.name = op + " " + l.name,
             .op = op,
             .inputs = {operand(l.a, lo, hi), operand(l.b, lo, hi)},
             .call = [call](const Tensors& in) { return call(in[0], in[1]); },
             .reference = reference(),
             .half = l.half,
             .tolerance = {.half = 3},
             .why = "half: the inputs are rounded too"});
  }
}

template <class F>
void add_arithmetic(const std::string& op, Pair call, F f, double lo = -2, double hi = 2) {
  add_layouts(
      op, call, [f] { return analytic([f](const auto& in) { return map(in[0], in[1], f); }); }, lo,
      hi);
}

// b is one of four values, and a is never near one of them: no choice is close.
const std::vector<double> kCorners = {-1.5, -0.5, 0.5, 1.5};
Input corners(const Shape& shape) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.size(); ++i)
    values.push_back(kCorners[static_cast<std::size_t>(i * 3 % 4)]);
  return values.empty() ? Input{.shape = shape} : Input{.shape = shape}.of(values);
}

template <class F>
void add_choice(const std::string& op, Pair call, F f) {
  for (const Layout& l : layouts()) {
    add_row({.name = op + " " + l.name,
             .op = op,
             .inputs = {operand(l.a, -2, 2).away_from(kCorners), corners(l.b)},
             .call = [call](const Tensors& in) { return call(in[0], in[1]); },
             .reference = [f](const Arrays<double>& in) { return map(in[0], in[1], f); }});
  }
}

template <class F>
void add_truth(const std::string& op, Pair call, F f, bool of_bools) {
  const Reference reference([f](const Arrays<double>& in) {
    return map(in[0], in[1], [f](double a, double b) { return f(a, b) ? 1.0 : 0.0; });
  });
  for (const Layout& l : layouts()) {
    add_row({.name = op + " " + l.name,
             .op = op,
             .inputs = {of_bools ? bools(l.a) : ints(l.a, -2, 3, DType::i64),
                        of_bools ? bools(l.b) : ints(l.b, -2, 3, DType::i64)},
             .call = [call](const Tensors& in) { return call(in[0], in[1]); },
             .reference = reference});
  }
  if (of_bools) return;
  const DType integers[] = {DType::i64, DType::i32, DType::u8, DType::boolean};
  for (const DType left : integers)
    for (const DType right : integers) {
      if (left == right) continue;
      add_row({.name = op + " of " + name(left) + " and " + name(right),
               .op = op,
               .inputs = {ints({3, 5}, 0, left == DType::boolean ? 2 : 4, left),
                          ints({5}, 0, right == DType::boolean ? 2 : 4, right)},
               .call = [call](const Tensors& in) { return call(in[0], in[1]); },
               .reference = reference});
    }
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::u8}) {
    add_row({.name = op + " of " + name(dtype),
             .op = op,
             .inputs = {Input{.shape = {6}}.of({0, 1, 2, 3, 1, 0}).as(dtype),
                        Input{.shape = {6}}.of({1, 1, 0, 3, 2, 0}).as(dtype)},
             .call = [call](const Tensors& in) { return call(in[0], in[1]); },
             .reference = reference});
  }
}

[[maybe_unused]] const bool arithmetic = [] {
  add_arithmetic("add", add, [](auto a, auto b) { return a + b; });
  add_arithmetic("sub", sub, [](auto a, auto b) { return a - b; });
  add_arithmetic("mul", mul, [](auto a, auto b) { return a * b; });
  add_arithmetic(
      "div", div, [](auto a, auto b) { return a / b; }, 0.5, 2);
  add_arithmetic(
      "pow", pow, [](auto a, auto b) { return std::pow(a, b); }, 0.4, 2);
  add_choice("minimum", minimum, [](double a, double b) { return std::fmin(a, b); });
  add_choice("maximum", maximum, [](double a, double b) { return std::fmax(a, b); });
  add_truth(
      "equal", equal, [](double a, double b) { return a == b; }, false);
  add_truth(
      "not_equal", not_equal, [](double a, double b) { return a != b; }, false);
  add_truth(
      "less", less, [](double a, double b) { return a < b; }, false);
  add_truth(
      "less_equal", less_equal, [](double a, double b) { return a <= b; }, false);
  add_truth(
      "greater", greater, [](double a, double b) { return a > b; }, false);
  add_truth(
      "greater_equal", greater_equal, [](double a, double b) { return a >= b; }, false);
  add_truth(
      "logical_and", logical_and, [](double a, double b) { return a != 0 && b != 0; }, true);
  add_truth(
      "logical_or", logical_or, [](double a, double b) { return a != 0 || b != 0; }, true);
  add_truth(
      "logical_xor", logical_xor, [](double a, double b) { return (a != 0) != (b != 0); }, true);
  return true;
}();

OP_ROW(
    "add threads", .op = "add", .inputs = {f(300, 411), f(411)},
    .call = [](const Tensors& in) { return add(in[0], in[1]); },
    .reference = analytic([](const auto& in) {
      return map(in[0], in[1], [](auto a, auto b) { return a + b; });
    }));
OP_ROW(
    "operators with numbers", .op = "sub", .inputs = {f(5).in(0.5, 2)},
    .call =
        [](const Tensors& in) {
          return 1.5 - (2.0 * in[0] + 1.0) / 4.0 + (-in[0]) * 0.5 - 1.0 + 1.0 / in[0];
        },
    .reference = analytic([](const auto& in) {
      return map(in[0],
                 [](auto x) { return 1.5 - (2.0 * x + 1.0) / 4.0 - x * 0.5 - 1.0 + 1.0 / x; });
    }));
OP_ROW(
    "compound assignment", .op = "div", .inputs = {f(3, 5).in(0.5, 2), f(5).in(0.5, 2)},
    .call =
        [](const Tensors& in) {
          Tensor x = in[0];
          x += in[1];
          x *= in[0];
          x -= in[1];
          x /= in[1];
          x += 3.0;
          x *= 2.0;
          x -= 1.0;
          x /= 4.0;
          return x;
        },
    .reference = analytic([](const auto& in) {
      return map(in[0], in[1],
                 [](auto a, auto b) { return ((((a + b) * a - b) / b + 3.0) * 2.0 - 1.0) / 4.0; });
    }));
OP_ROW(
    "pow by a number, negative base", .op = "pow", .inputs = {f(6).away_from({0})},
    .call = [](const Tensors& in) { return pow(in[0], 3); },
    .reference = analytic([](const auto& in) {
      return map(in[0], [](auto x) { return x * x * x; });
    }));
OP_ROW(
    "pow by zero", .op = "pow", .inputs = {Input{.shape = {3}}.of({0, 1.5, -2})},
    .call = [](const Tensors& in) { return pow(in[0], 0); },
    .reference = [](const Arrays<double>& in) { return map(in[0], [](double) { return 1.0; }); });
// The gradient by the base, and by the exponent, for an output's gradient of 1.
template <int kBy>
Tensor pow_slope(const Tensors& in) {
  Tape tape;
  for (const Tensor& x : in) tape.watch(x);
  return tape.gradient(pow(in[0], in[1]), in[kBy]);
}
Reference exactly(std::vector<double> values) {
  return [values](const Arrays<double>& in) {
    Array<double> y(in[0].shape);
    y.data = values;
    return y;
  };
}
OP_ROW("pow by the exponent at zero", .op = "pow",
       .inputs = {f(4).fixed().of({0, 0, 0, 0}), f(4).fixed().of({-1, -0.5, 0, 2})},
       .call = pow_slope<1>, .reference = exactly({-INFINITY, -INFINITY, 0, 0}));
OP_ROW("pow by the base to the zero", .op = "pow",
       .inputs = {f(5).fixed().of({NAN, 0, INFINITY, -2, 3}), f(5).fixed().of({0, 0, 0, 0, 0})},
       .call = pow_slope<0>, .reference = exactly({0, 0, 0, 0, 0}));
OP_ROW("pow by the base of nan", .op = "pow",
       .inputs = {f(2).fixed().of({NAN, NAN}), f(2).fixed().of({2, -1})}, .call = pow_slope<0>,
       .reference = exactly({NAN, NAN}));
// A number beside a tensor of integers becomes one of them.
void add_refused_number(const std::string& op, DType dtype, Call call, std::string refused) {
  add_row({.name = op + " of " + ebb::name(dtype) + " with a number that is none",
           .op = op,
           .inputs = {ids({3}, 5, dtype)},
           .call = std::move(call),
           .refused = std::move(refused)});
}
[[maybe_unused]] const bool refused_numbers = [] {
  using T = const Tensors&;
  add_refused_number(
      "add", DType::i32, [](T in) { return in[0] + 0.5; },
      "add: 0.5 is no element of i32; expected a whole number");
  add_refused_number(
      "sub", DType::i64, [](T in) { return 0x1p63 - in[0]; },
      "sub: 9.223372036854776e+18 is no element of i64; expected a whole number");
  add_refused_number(
      "mul", DType::i32, [](T in) { return in[0] * 3e9; },
      "mul: 3000000000 is no element of i32; expected a whole number");
  add_refused_number(
      "div", DType::i32, [](T in) { return in[0] / NAN; },
      "div: nan is no element of i32; expected a whole number");
  return true;
}();
OP_ROW(
    "div of integers", .op = "div",
    .inputs = {ints({40}, -9, 10, DType::i32), ints({40}, -3, 4, DType::i32)},
    .call = [](const Tensors& in) { return div(in[0], in[1]); },
    .reference =
        [](const Arrays<double>& in) {
          return map(in[0], in[1],
                     [](double a, double b) { return b == 0 ? 0.0 : std::trunc(a / b); });
        });
OP_ROW(
    "add shapes", .op = "add", .inputs = {f(4, 64), f(4, 32)},
    .call = [](const Tensors& in) { return add(in[0], in[1]); },
    .refused = "add: f32(4, 64) and f32(4, 32) do not broadcast: axis -1 is 64 and 32");
OP_ROW(
    "add types", .op = "add", .inputs = {f(3), ids({3}, 4)},
    .call = [](const Tensors& in) { return add(in[0], in[1]); },
    .refused = "add: f32(3) and i64(3) differ in type; cast one");
OP_ROW(
    "pow of integers", .op = "pow", .inputs = {ids({3}, 4), ids({3}, 4)},
    .call = [](const Tensors& in) { return pow(in[0], in[1]); },
    .refused = "pow: i64(3) is not a floating type; cast it first");
OP_ROW(
    "mul of bools", .op = "mul", .inputs = {bools({3}), bools({3})},
    .call = [](const Tensors& in) { return mul(in[0], in[1]); },
    .refused = "(3) is not a floating, i32 or i64 type; cast it first");
OP_ROW(
    "less types", .op = "less", .inputs = {f(3), ids({3}, 4)},
    .call = [](const Tensors& in) { return less(in[0], in[1]); },
    .refused = "less: f32(3) and i64(3) differ in type; cast one");
OP_ROW(
    "logical_and of floats", .op = "logical_and", .inputs = {f(3), f(3)},
    .call = [](const Tensors& in) { return logical_and(in[0], in[1]); },
    .refused = "logical_and: f32(3) is not bool; cast it first");

// where
template <class T>
Array<T> where_of(const Arrays<T>& in) {
  const Shape shape = broadcast_shape(broadcast_shape(in[0].shape, in[1].shape), in[2].shape);
  return build<T>(shape, [&](const Index& i) {
    return whole(broadcast_at(in[0], i, shape.rank())) != 0 ? broadcast_at(in[1], i, shape.rank())
                                                            : broadcast_at(in[2], i, shape.rank());
  });
}
[[maybe_unused]] const bool choices = [] {
  const auto add_where = [](const char* name, Input c, Input a, Input b, bool half = false) {
    add_row({.name = std::string("where ") + name,
             .op = "where",
             .inputs = {c, a, b},
             .call = [](const Tensors& in) { return where(in[0], in[1], in[2]); },
             .reference = analytic([](const auto& in) { return where_of(in); }),
             .half = half});
  };
  add_where("same", bools({3, 5}), f(3, 5), f(3, 5), true);
  add_where("scalars", bools({3, 5}), f(), f());
  add_where("condition by row", bools({3, 1}), f(3, 5), f(5));
  add_where("one condition", bools({}), f(4), f(4));
  add_where("of nothing", bools({0, 2}), f(2), f());
  return true;
}();
OP_ROW(
    "where of numbers", .op = "where", .inputs = {f(3), f(3), f(3)},
    .call = [](const Tensors& in) { return where(in[0], in[1], in[2]); },
    .refused = "where: f32(3) is not bool; cast it first");
OP_ROW(
    "where types", .op = "where", .inputs = {bools({3}), f(3), ids({3}, 4)},
    .call = [](const Tensors& in) { return where(in[0], in[1], in[2]); },
    .refused = "where: f32(3) and i64(3) differ in type; cast one");

// cast
OP_ROW(
    "cast to f64", .op = "cast", .inputs = {f(3, 7)},
    .call = [](const Tensors& in) { return cast(cast(in[0], DType::bf16), DType::f64); },
    .reference =
        [](const Arrays<double>& in) {
          return map(in[0], [](double x) {
            return static_cast<double>(to_float(to_bf16(static_cast<float>(x))));
          });
        },
    .order = 0, .why = "rounding has no derivative; cast's is checked below");
OP_ROW(
    "cast and back", .op = "cast", .inputs = {f(3, 7)},
    .call =
        [](const Tensors& in) {
          const Tensor x = in[0];
          return cast(mul(cast(x, DType::f64), cast(x, DType::f64)), x.dtype());
        },
    .reference =
        [](const Arrays<double>& in) { return map(in[0], [](double x) { return x * x; }); });
OP_ROW(
    "cast to integers", .op = "cast", .inputs = {f(40).fixed()},
    .call = [](const Tensors& in) { return cast(in[0], DType::i32); },
    .reference =
        [](const Arrays<double>& in) {
          return map(in[0], [](double x) { return std::trunc(x); });
        });
OP_ROW(
    "cast of nothing", .op = "cast", .inputs = {ids({0, 3}, 2)},
    .call = [](const Tensors& in) { return cast(in[0], DType::f32); },
    .reference = [](const Arrays<double>& in) { return in[0]; });

}  // namespace
}  // namespace ebb::table
