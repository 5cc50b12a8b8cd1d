// Reductions, sum_to, argmax, cumsum.
#include "ebb/ops/reduce.hpp"

#include <cmath>

#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

struct Layout {
  const char* name;
  Shape shape;
  std::vector<int> axes;  // none: all
  bool keepdims = false;
};
const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {{"all", {3, 5}, {}},
                                          {"all kept", {3, 5}, {}, true},
                                          {"rows", {4, 9}, {-1}},
                                          {"columns", {4, 9}, {0}},
                                          {"middle", {2, 3, 4}, {1}, true},
                                          {"outer", {2, 3, 4}, {0, 2}},
                                          {"inner", {2, 3, 4}, {1, -1}},
                                          {"scalar", {}, {}},
                                          {"one", {1, 1}, {0}},
                                          {"width one", {5, 1}, {0}},
                                          {"no outputs", {0, 3}, {1}},
                                          {"long row", {1, 4099}, {1}}};
  return all;
}

// Where in the result an element of x goes.
Index place(const Layout& l, const Index& i) {
  Index to{};
  std::size_t k = 0;
  for (int d = 0; d < l.shape.rank(); ++d) {
    bool reduced = l.axes.empty();
    for (int a : l.axes) reduced |= (a < 0 ? a + l.shape.rank() : a) == d;
    if (!reduced)
      to[k++] = i[static_cast<std::size_t>(d)];
    else if (l.keepdims)
      to[k++] = 0;
  }
  return to;
}
Shape result_shape(const Layout& l) {
  Index last{};
  for (int d = 0; d < l.shape.rank(); ++d) last[static_cast<std::size_t>(d)] = l.shape[d] - 1;
  const Index to = place(l, last);
  int rank = 0;
  for (int d = 0; d < l.shape.rank(); ++d) {
    bool reduced = l.axes.empty();
    for (int a : l.axes) reduced |= (a < 0 ? a + l.shape.rank() : a) == d;
    rank += !reduced || l.keepdims;
  }
  std::vector<std::int64_t> dims;
  for (int k = 0; k < rank; ++k) dims.push_back(to[static_cast<std::size_t>(k)] + 1);
  return Shape(dims);
}

// finish(all elements that make up an output element)
template <class F>
Reference grouped(const Layout& l, F finish) {
  return analytic([l, finish](const auto& in) {
    using A = std::decay_t<decltype(in[0])>;
    using T = typename A::Element;
    A y(result_shape(l));
    std::vector<std::vector<T>> parts(static_cast<std::size_t>(y.size()));
    for_each_index(l.shape, [&](const Index& i) {
      parts[static_cast<std::size_t>(y.offset(place(l, i)))].push_back(in[0].at(i));
    });
    for (std::int64_t o = 0; o < y.size(); ++o) y[o] = finish(parts[static_cast<std::size_t>(o)]);
    return y;
  });
}

template <class Call, class F>
void add_reduction(const std::string& op, Call call, F finish, bool distinct = false,
                   double lo = -2, double hi = 2) {
  for (const Layout& l : layouts()) {
    const bool long_row = l.shape.size() > 100;
    if (op == "prod" && long_row) continue;
    Input x = Input{.shape = l.shape}.in(lo, hi);
    if (distinct) x = x.in(-4, 4).distinct();
    if (distinct && long_row) continue;  // gaps too small for differences
    add_row({.name = op + " " + l.name,
             .op = op,
             .inputs = {x},
             .call =
                 [=](const Tensors& in) {
                   return call(in[0], Axes(std::span<const int>(l.axes)), l.keepdims);
                 },
             .reference = grouped(l, finish),
             .half = std::string(l.name) == "columns",
             .tolerance = {.f32 = 1e-4, .half = 8, .half_gradient = 16},
             .why = "sums in f32; half: the inputs are rounded too"});
  }
}

const auto total = [](const auto& v) {
  typename std::decay_t<decltype(v)>::value_type sum = 0;
  for (const auto& x : v) sum += x;
  return sum;
};
const auto average = [](const auto& v) { return total(v) / static_cast<double>(v.size()); };
const auto spread = [](double correction) {
  return [correction](const auto& v) {
    const auto m = average(v);
    auto squares = m * 0.0;
    for (const auto& x : v) squares += (x - m) * (x - m);
    return squares / (static_cast<double>(v.size()) - correction);
  };
};

[[maybe_unused]] const bool added = [] {
  add_reduction(
      "sum", [](const Tensor& x, const Axes& a, bool k) { return sum(x, a, k); }, total);
  add_reduction(
      "mean", [](const Tensor& x, const Axes& a, bool k) { return mean(x, a, k); }, average);
  add_reduction(
      "prod", [](const Tensor& x, const Axes& a, bool k) { return prod(x, a, k); },
      [](const auto& v) {
        typename std::decay_t<decltype(v)>::value_type p = 1;
        for (const auto& x : v) p *= x;
        return p;
      },
      false, 0.5, 1.5);
  add_reduction(
      "max", [](const Tensor& x, const Axes& a, bool k) { return max(x, a, k); },
      [](const auto& v) {
        auto best = v[0];
        for (const auto& x : v)
          if (real(x) > real(best)) best = x;
        return best;
      },
      true);
  add_reduction(
      "min", [](const Tensor& x, const Axes& a, bool k) { return min(x, a, k); },
      [](const auto& v) {
        auto best = v[0];
        for (const auto& x : v)
          if (real(x) < real(best)) best = x;
        return best;
      },
      true);
  add_reduction(
      "logsumexp", [](const Tensor& x, const Axes& a, bool k) { return logsumexp(x, a, k); },
      [](const auto& v) {
        typename std::decay_t<decltype(v)>::value_type sum = 0;
        for (const auto& x : v) sum += std::exp(x);
        return std::log(sum);
      });
  add_reduction(
      "var", [](const Tensor& x, const Axes& a, bool k) { return var(x, a, {.keepdims = k}); },
      spread(0));
  return true;
}();

OP_ROW(
    "var of a sample", .op = "var", .inputs = {f(4, 5)},
    .call = [](const Tensors& in) { return var(in[0], {1}, {.correction = 1}); },
    .reference = grouped({"", {4, 5}, {1}}, spread(1)));
OP_ROW(
    "prod with one zero", .op = "prod", .inputs = {Input{.shape = {4}}.of({2, 0, -1.5, 3})},
    .call = [](const Tensors& in) { return prod(in[0]); },
    .reference = grouped({"", {4}, {}}, [](const auto& v) { return v[0] * v[1] * v[2] * v[3]; }));
OP_ROW(
    "prod with two zeros", .op = "prod",
    .inputs = {Input{.shape = {3, 5}}.of({2, 0, -1.5, 0, 3, 1, 2, 0, 4, -1, 0, 0, 0, 2, 1})},
    .call = [](const Tensors& in) { return prod(in[0], {1}); },
    .reference = grouped({"", {3, 5}, {1}},
                         [](const auto& v) { return v[0] * v[1] * v[2] * v[3] * v[4]; }));
OP_ROW(
    "prod of columns with zeros", .op = "prod",
    .inputs = {Input{.shape = {3, 2, 2}}.of({2, 0, -1.5, 0, 3, 1, 2, 0, 4, -1, 0, 0})},
    .call =
        [](const Tensors& in) {
          return prod(in[0], {0, 2}, true);
        },
    .reference = grouped({"", {3, 2, 2}, {0, 2}, true},
                         [](const auto& v) { return v[0] * v[1] * v[2] * v[3] * v[4] * v[5]; }));
OP_ROW(
    "prod over no elements", .op = "prod", .inputs = {f(3, 0)},
    .call = [](const Tensors& in) { return prod(in[0], {1}); },
    .reference = [](const Arrays<double>&) { return Array<double>(Shape{3}, 1.0); });
OP_ROW(
    "sum of integers", .op = "sum", .inputs = {ints({6, 7}, -5, 6, DType::i32)},
    .call = [](const Tensors& in) { return sum(in[0], {0}); },
    .reference = grouped({"", {6, 7}, {0}}, total));
OP_ROW(
    "sum of nothing", .op = "sum", .inputs = {f(0, 3)},
    .call = [](const Tensors& in) { return sum(in[0], {0}); },
    .reference = [](const Arrays<double>&) { return Array<double>(Shape{3}, 0.0); });
OP_ROW(
    "sum threads", .op = "sum", .inputs = {f(400, 301)},
    .call = [](const Tensors& in) { return sum(in[0], {0}); },
    .reference = grouped({"", {400, 301}, {0}}, total), .tolerance = {.f32 = 1e-4},
    .why = "sums in f32");
OP_ROW(
    "max of integers", .op = "max", .inputs = {ints({6, 7}, -50, 60, DType::i64)},
    .call = [](const Tensors& in) { return max(in[0], {1}); },
    .reference =
        [](const Arrays<double>& in) {
          Array<double> y(Shape{6});
          for (int i = 0; i < 6; ++i) {
            y(i) = in[0](i, 0);
            for (int j = 1; j < 7; ++j) y(i) = std::fmax(y(i), in[0](i, j));
          }
          return y;
        });

// sum_to
[[maybe_unused]] const bool sums = [] {
  struct To {
    const char* name;
    Shape from, to;
  };
  for (const To& t :
       {To{"bias", {4, 7}, {7}}, To{"column", {4, 7}, {4, 1}}, To{"scalar", {4, 7}, {}},
        To{"kept", {2, 3, 4}, {3, 1}}, To{"width one", {5, 1}, {1}}, To{"of nothing", {0, 3}, {3}},
        To{"middle", {2, 3, 4}, {2, 1, 4}}}) {
    for (const bool accumulate : {false, true}) {
      add_row({.name = std::string(accumulate ? "sum_to into " : "sum_to ") + t.name,
               .op = "sum_to",
               .inputs = accumulate
                             ? std::vector<Input>{Input{.shape = t.from}, Input{.shape = t.to}}
                             : std::vector<Input>{Input{.shape = t.from}},
               .call =
                   [=](const Tensors& in) {
                     return sum_to(in[0], t.to, accumulate ? in[1] : Tensor());
                   },
               .reference = analytic([=](const auto& in) {
                 auto y = accumulate ? in[1] : std::decay_t<decltype(in[0])>(t.to);
                 const int extra = t.from.rank() - t.to.rank();
                 for_each_index(t.from, [&](const Index& i) {
                   Index at{};
                   for (int d = 0; d < t.to.rank(); ++d)
                     at[static_cast<std::size_t>(d)] =
                         t.to[d] == 1 ? 0 : i[static_cast<std::size_t>(d + extra)];
                   y.at(at) += in[0].at(i);
                 });
                 return y;
               })});
    }
  }
  return true;
}();
OP_ROW(
    "sum_to same shape", .op = "sum_to", .inputs = {f(3, 4), f(3, 4)},
    .call =
        [](const Tensors& in) {
          return sum_to(in[0], {3, 4}, in[1]);
        },
    .reference = analytic([](const auto& in) {
      return map(in[0], in[1], [](auto a, auto b) { return a + b; });
    }));

// argmax and cumsum
[[maybe_unused]] const bool places = [] {
  for (const int axis : {0, 1, -1}) {
    const Shape shape = {3, 4, 5};
    const int front = axis < 0 ? 2 : axis;
    add_row({.name = "argmax axis " + std::to_string(front) + (axis < 0 ? " kept" : ""),
             .op = "argmax",
             .inputs = {Input{.shape = shape}.distinct().fixed()},
             .call = [=](const Tensors& in) { return argmax(in[0], axis, axis < 0); },
             .reference =
                 [=](const Arrays<double>& in) {
                   std::vector<std::int64_t> dims(shape.begin(), shape.end());
                   if (axis < 0)
                     dims[2] = 1;
                   else
                     dims.erase(dims.begin() + front);
                   return build<double>(Shape(dims), [&](const Index& to) {
                     Index i{};
                     std::size_t k = 0;
                     for (int d = 0; d < 3; ++d)
                       if (d != front) i[static_cast<std::size_t>(d)] = to[k++];
                     std::int64_t best = 0;
                     for (std::int64_t j = 1; j < shape[front]; ++j) {
                       Index a = i, b = i;
                       a[static_cast<std::size_t>(front)] = j;
                       b[static_cast<std::size_t>(front)] = best;
                       if (in[0].at(a) > in[0].at(b)) best = j;
                     }
                     return static_cast<double>(best);
                   });
                 }});
  }
  for (const int axis : {0, 1, 2}) {
    for (const bool reverse : {false, true}) {
      add_row({.name = "cumsum axis " + std::to_string(axis) + (reverse ? " reversed" : ""),
               .op = "cumsum",
               .inputs = {f(2, 5, 3)},
               .call = [=](const Tensors& in) { return cumsum(in[0], axis, reverse); },
               .reference = analytic([=](const auto& in) {
                 auto y = in[0];
                 const std::int64_t n = y.shape[axis];
                 for_each_index(y.shape, [&](const Index& i) {
                   Index at = i;
                   const std::int64_t here = i[static_cast<std::size_t>(axis)];
                   typename std::decay_t<decltype(y)>::Element sum = 0;
                   for (std::int64_t j = reverse ? here : 0; j < (reverse ? n : here + 1); ++j) {
                     at[static_cast<std::size_t>(axis)] = j;
                     sum += in[0].at(at);
                   }
                   y.at(i) = sum;
                 });
                 return y;
               })});
    }
  }
  return true;
}();
OP_ROW(
    "cumsum of nothing", .op = "cumsum", .inputs = {f(0)},
    .call = [](const Tensors& in) { return cumsum(in[0], 0); },
    .reference = analytic([](const auto& in) { return in[0]; }));

OP_ROW(
    "sum bad axis", .op = "sum", .inputs = {f(2, 3)},
    .call = [](const Tensors& in) { return sum(in[0], {2}); },
    .refused = "sum: axis 2 is out of range for rank 2; expected -2 to 1");
OP_ROW(
    "sum axis twice", .op = "sum", .inputs = {f(2, 3)},
    .call =
        [](const Tensors& in) {
          return sum(in[0], {1, -1});
        },
    .refused = "sum: axis 1 is named twice");
OP_ROW(
    "sum too many axes", .op = "sum", .inputs = {f(2)},
    .call =
        [](const Tensors& in) {
          return sum(in[0], {0, 0});
        },
    .refused = "sum: 2 axes were given for rank 1");
OP_ROW(
    "sum of bools", .op = "sum", .inputs = {bools({3})},
    .call = [](const Tensors& in) { return sum(in[0]); },
    .refused = "(3) is not a floating, i32 or i64 type; cast it first");
OP_ROW(
    "mean of integers", .op = "mean", .inputs = {ids({3}, 4)},
    .call = [](const Tensors& in) { return mean(in[0]); },
    .refused = "mean: i64(3) is not a floating type; cast it first");
OP_ROW(
    "max of nothing", .op = "max", .inputs = {f(0, 3)},
    .call = [](const Tensors& in) { return max(in[0], {0}); },
    .refused = "max: f32(0, 3) has no elements to choose from");
OP_ROW(
    "min of nothing", .op = "min", .inputs = {f(0)},
    .call = [](const Tensors& in) { return min(in[0]); },
    .refused = "min: f32(0) has no elements to choose from");
OP_ROW(
    "argmax of no rows", .op = "argmax", .inputs = {f(0, 3).fixed()},
    .call = [](const Tensors& in) { return argmax(in[0], 1); },
    .reference = [](const Arrays<double>&) { return Array<double>({0}); });
OP_ROW(
    "argmax of nothing", .op = "argmax", .inputs = {f(3, 0)},
    .call = [](const Tensors& in) { return argmax(in[0], 1); },
    .refused = "argmax: f32(3, 0) has no elements to choose from");
OP_ROW(
    "argmax of a scalar", .op = "argmax", .inputs = {f()},
    .call = [](const Tensors& in) { return argmax(in[0], 0); },
    .refused = "argmax: axis 0 of a scalar, which has none");
OP_ROW(
    "sum_to shapes", .op = "sum_to", .inputs = {f(3, 4)},
    .call = [](const Tensors& in) { return sum_to(in[0], {3}); },
    .refused = "sum_to: (3) does not broadcast to f32(3, 4)");
OP_ROW(
    "sum_to adds to another shape", .op = "sum_to", .inputs = {f(3, 4), f(3)},
    .call = [](const Tensors& in) { return sum_to(in[0], {4}, in[1]); },
    .refused = "sum_to: the sum is f32(4), but it is added to f32(3)");

}  // namespace
}  // namespace ebb::table
