// Matmul and linear.
#include "ebb/ops/matmul.hpp"

#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

// Element (row, column) of the last two axes, leading axes broadcast to those of `at`.
template <class T>
T element(const Array<T>& x, const Index& at, int rank, std::int64_t row, std::int64_t column,
          bool transposed) {
  Index i{};
  for (int d = 0; d < x.rank() - 2; ++d) {
    const auto from = static_cast<std::size_t>(rank - x.rank() + d);
    i[static_cast<std::size_t>(d)] = x.shape[d] == 1 ? 0 : at[from];
  }
  i[static_cast<std::size_t>(x.rank() - 2)] = transposed ? column : row;
  i[static_cast<std::size_t>(x.rank() - 1)] = transposed ? row : column;
  return x.at(i);
}

template <class T>
Array<T> product(const Array<T>& a, const Array<T>& b, MatmulOptions o) {
  const int rank = std::max(a.rank(), b.rank());
  Index dims{};
  for (int d = 0; d < rank - 2; ++d) {
    const int ia = d - (rank - a.rank()), ib = d - (rank - b.rank());
    const std::int64_t of_a = ia < 0 ? 1 : a.shape[ia], of_b = ib < 0 ? 1 : b.shape[ib];
    dims[static_cast<std::size_t>(d)] = of_a == 1 ? of_b : of_a;
  }
  const auto last = static_cast<std::size_t>(rank - 1);
  dims[last - 1] = a.dim(o.transpose_a ? -1 : -2);
  dims[last] = b.dim(o.transpose_b ? -2 : -1);
  const std::int64_t depth = a.dim(o.transpose_a ? -2 : -1);
  return build<T>(Shape(std::span(dims.data(), static_cast<std::size_t>(rank))),
                  [&](const Index& at) {
                    T sum = 0;
                    for (std::int64_t k = 0; k < depth; ++k)
                      sum += element(a, at, rank, at[last - 1], k, o.transpose_a) *
                             element(b, at, rank, k, at[last], o.transpose_b);
                    return sum;
                  });
}

Shape turned(const Shape& x, bool transposed) {
  if (!transposed) return x;
  Index dims{};
  std::copy(x.begin(), x.end(), dims.begin());
  const auto last = static_cast<std::size_t>(x.rank() - 1);
  std::swap(dims[last - 1], dims[last]);
  return Shape(std::span(dims.data(), last + 1));
}

// All transposes of one product; a and b as they enter it.
void add_matmul(const std::string& name, const Shape& a, const Shape& b, bool half = false) {
  for (const bool a_t : {false, true})
    for (const bool b_t : {false, true}) {
      const MatmulOptions o{a_t, b_t};
      add_row({.name = "matmul " + name + (a_t ? " T" : " N") + (b_t ? "T" : "N"),
               .op = "matmul",
               .inputs = {Input{.shape = turned(a, a_t)}, Input{.shape = turned(b, b_t)}},
               .call = [o](const Tensors& in) { return matmul(in[0], in[1], o); },
               .reference = analytic([o](const auto& in) { return product(in[0], in[1], o); }),
               .half = half});
    }
}

const bool kProducts = [] {
  add_matmul("4x5x3", {4, 3}, {3, 5}, true);
  add_matmul("of ones", {1, 1}, {1, 1});
  add_matmul("of a row", {1, 7}, {7, 9});
  add_matmul("of a column", {9, 7}, {7, 1});
  add_matmul("over nothing", {3, 0}, {0, 2});
  add_matmul("of no rows", {0, 3}, {3, 2});
  add_matmul("of no columns", {2, 3}, {3, 0});
  add_matmul("batch", {3, 2, 5}, {3, 5, 4}, true);
  add_matmul("batch of none", {0, 2, 5}, {0, 5, 4});
  add_matmul("rows of a batch", {2, 3, 5}, {5, 4});
  add_matmul("one left matrix", {2, 5}, {3, 5, 4});
  add_matmul("broadcast 1", {2, 1, 3, 2}, {2, 2, 3});
  add_matmul("broadcast both", {2, 1, 3, 2}, {1, 3, 2, 2});
  add_matmul("odd", {13, 17}, {17, 19});
  add_matmul("large", {70, 65}, {65, 130});
  return true;
}();

OP_ROW(
    "matmul into", .op = "matmul", .inputs = {f(4, 6), f(4, 3), f(3, 6)},
    .call = [](const Tensors& in) { return matmul_into(in[0], in[1], in[2]); },
    .reference = analytic([](const auto& in) {
      auto y = product(in[1], in[2], {});
      for (std::int64_t i = 0; i < y.size(); ++i) y[i] += in[0][i];
      return y;
    }),
    .half = true);

OP_ROW(
    "matmul does not fit", .op = "matmul", .inputs = {f(2, 3), f(4, 5)},
    .call = [](const Tensors& in) { return matmul(in[0], in[1]); },
    .refused = "do not fit: 3 columns meet 4 rows");
OP_ROW(
    "matmul of a vector", .op = "matmul", .inputs = {f(3), f(3, 5)},
    .call = [](const Tensors& in) { return matmul(in[0], in[1]); },
    .refused = "has fewer than two axes; reshape it to a matrix");
OP_ROW(
    "matmul batches differ", .op = "matmul", .inputs = {f(2, 3, 4), f(5, 4, 6)},
    .call = [](const Tensors& in) { return matmul(in[0], in[1]); },
    .refused = "do not broadcast: axis -3 is 2 and 5");
OP_ROW(
    "matmul of integers", .op = "matmul",
    .inputs = {ints({2, 2}, 0, 5, DType::i32), ints({2, 2}, 0, 5, DType::i32)},
    .call = [](const Tensors& in) { return matmul(in[0], in[1]); },
    .refused = "matmul: i32(2, 2) is not a floating type; cast it first");
OP_ROW(
    "matmul of a wrong accumulator", .op = "matmul", .inputs = {f(4, 5), f(4, 3), f(3, 6)},
    .call = [](const Tensors& in) { return matmul_into(in[0], in[1], in[2]); },
    .refused = "matmul: the accumulator is");

template <class T>
T activated(Activation activation, T x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return real(x) > 0 ? x : T(0);
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return T(1) / (T(1) + std::exp(-x));
    case Activation::gelu:
      return x * T(std::erfc(-real(x) / std::sqrt(2.0)) / 2);
    case Activation::gelu_tanh:
      return x / T(2) * (T(1) + std::tanh(T(std::sqrt(2 / M_PI)) * (x + T(0.044715) * x * x * x)));
    case Activation::silu:
      return x / (T(1) + std::exp(-x));
  }
  return x;
}

// x (…, in), weight (out, in), bias (out) or none.
void add_linear(const std::string& name, const Shape& x, std::int64_t out, bool bias,
                Activation activation) {
  const bool keeps = activation >= Activation::gelu;
  const std::int64_t in_size = x[x.rank() - 1];
  Row row;
  row.name = "linear " + name + (bias ? " with bias " : " ") +
             std::to_string(static_cast<int>(activation));
  row.op = keeps ? "linear_keeping_pre" : "linear";
  row.inputs = {Input{.shape = x}, Input{.shape = {out, in_size}}};
  if (bias) row.inputs.push_back(f(out));
  if (activation == Activation::relu) {  // sums of small products, and a bias that is not small
    row.inputs[0] = row.inputs[0].in(-0.2, 0.2);
    row.inputs[1] = row.inputs[1].in(-0.2, 0.2);
    row.inputs[2].values.clear();
    for (std::int64_t i = 0; i < out; ++i) row.inputs[2].values.push_back(i % 2 == 0 ? 0.7 : -0.9);
  }
  row.call = [bias, activation](const Tensors& in) {
    return linear(in[0], in[1], bias ? in[2] : Tensor(), activation);
  };
  const auto reference = [=](const auto& in) {
    using T = typename std::decay_t<decltype(in[0])>::Element;
    Index dims{};
    std::copy(x.begin(), x.end(), dims.begin());
    const auto last = static_cast<std::size_t>(x.rank() - 1);
    dims[last] = out;
    return build<T>(Shape(std::span(dims.data(), last + 1)), [&](const Index& at) {
      T sum = bias ? in[2](at[last]) : T(0);
      Index i = at;
      for (std::int64_t k = 0; k < in_size; ++k) {
        i[last] = k;
        sum += in[0].at(i) * in[1](at[last], k);
      }
      return activated(activation, sum);
    });
  };
  if (activation == Activation::gelu) {  // no error function of complex numbers in the library
    row.reference = Reference(reference);
  } else {
    row.reference = analytic(reference);
  }
  row.half = !keeps;
  add_row(std::move(row));
}

const bool kLinears = [] {
  for (int a = 0; a <= static_cast<int>(Activation::silu); ++a) {
    add_linear("4x3", {4, 3}, 5, true, static_cast<Activation>(a));
    add_linear("batch", {2, 3, 3}, 2, a < 2, static_cast<Activation>(a));
  }
  for (const Activation a : {Activation::none, Activation::tanh, Activation::silu}) {
    add_linear("of one row", {1, 16}, 32, true, a);
    add_linear("of a vector", {7}, 3, true, a);
    add_linear("of no rows", {0, 3}, 2, true, a);
    add_linear("to none", {4, 3}, 0, true, a);
    add_linear("from none", {4, 0}, 3, true, a);
  }
  add_linear("large", {40, 33}, 70, true, Activation::tanh);
  return true;
}();

OP_ROW(
    "linear does not fit", .op = "linear", .inputs = {f(4, 3), f(5, 4)},
    .call = [](const Tensors& in) { return linear(in[0], in[1]); },
    .refused = "do not fit: expected (…, in) and (out, in)");
OP_ROW(
    "linear with a wrong bias", .op = "linear", .inputs = {f(4, 3), f(5, 3), f(4)},
    .call = [](const Tensors& in) { return linear(in[0], in[1], in[2]); },
    .refused = "linear: bias is");

}  // namespace
}  // namespace ebb::table
