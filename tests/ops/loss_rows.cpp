// Losses and their ways back.
#include "ebb/ops/loss.hpp"

#include "ebb/ops/apply.hpp"
#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

constexpr std::int64_t kIgnore = 7;

Tensors both(const Loss& loss) { return {loss.sum, loss.count}; }

// The target of a class in a row: (1 - s) at the label and s / classes everywhere; none if ignored.
template <class T>
Array<T> spread_labels(const Array<T>& logits, const Array<T>& labels, double smoothing) {
  Array<T> t(logits.shape);
  const std::int64_t n = logits.dim(-1);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::int64_t label = whole(labels[i / n]);
    if (label == kIgnore) continue;
    t[i] = smoothing / static_cast<double>(n) + (label == i % n ? 1 - smoothing : 0);
  }
  return t;
}

template <class T>
Array<T> log_sums(const Array<T>& x) {
  const std::int64_t n = x.dim(-1), rows = n == 0 ? 0 : x.size() / n;
  Array<T> y(Shape{rows});
  for (std::int64_t r = 0; r < rows; ++r) {
    const T first = x[r * n];  // taken out, so that one class gives exactly itself
    T sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[r * n + i] - first);
    y[r] = first + std::log(sum);
  }
  return y;
}

template <class T>
Array<T> entropy_sum(const Array<T>& x, const Array<T>& t) {
  const auto lse = log_sums(x);
  T sum = 0;
  for (std::int64_t i = 0; i < x.size(); ++i) sum += t[i] * (lse[i / x.dim(-1)] - x[i]);
  return scalar(sum);
}

template <class T>
Array<T> entropy_gradient(const Array<T>& x, const Array<T>& t, T dsum) {
  const auto lse = log_sums(x);
  const std::int64_t n = x.dim(-1);
  Array<T> dx(x.shape);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    T mass = 0;
    for (std::int64_t k = 0; k < n; ++k) mass += t[i / n * n + k];
    dx[i] = dsum * (std::exp(x[i] - lse[i / n]) * mass - t[i]);
  }
  return dx;
}

void add_sparse(const std::string& name, const Shape& logits, DType dtype, double smoothing,
                std::vector<double> exactly = {}) {
  const std::int64_t n = logits[logits.rank() - 1];
  const Shape rows(logits.dims().first(static_cast<std::size_t>(logits.rank() - 1)));
  Input labels = ids(rows, std::max<std::int64_t>(n, 1), dtype);
  if (!exactly.empty()) labels = labels.of(exactly);
  add_row({.name = "sparse_cross_entropy " + name,
           .op = "sparse_cross_entropy",
           .inputs = {Input{.shape = logits}, labels},
           .call =
               [=](const Tensors& in) {
                 return both(sparse_cross_entropy(
                     in[0], in[1], {.ignore_index = kIgnore, .label_smoothing = smoothing}));
               },
           .reference = analytic([=](const auto& in) {
             const auto t = spread_labels(in[0], in[1], smoothing);
             auto count = entropy_sum(in[0], t);
             count[0] = 0;
             for (std::int64_t r = 0; r < in[1].size(); ++r) count[0] += whole(in[1][r]) != kIgnore;
             return std::vector{entropy_sum(in[0], t), count};
           })});
  add_row(
      {.name = "sparse_cross_entropy_backward " + name,
       .op = "sparse_cross_entropy_backward",
       .inputs = {Input{.shape = logits}, labels, f()},
       .call =
           [=](const Tensors& in) {
             return apply(SparseCrossEntropyBackward{{kIgnore, smoothing}}, in[0], in[1], in[2]);
           },
       .reference = analytic([=](const auto& in) {
         return entropy_gradient(in[0], spread_labels(in[0], in[1], smoothing), in[2][0]);
       })});
}

void add_soft(const std::string& name, const Shape& shape, double smoothing) {
  add_row({.name = "cross_entropy " + name,
           .op = "cross_entropy",
           .inputs = {Input{.shape = shape}, Input{.shape = shape}.in(0.1, 1)},
           .call =
               [=](const Tensors& in) {
                 return both(cross_entropy(in[0], in[1], {.label_smoothing = smoothing}));
               },
           .reference = analytic([=](const auto& in) {
             const std::int64_t n = in[0].dim(-1);
             const auto t = map(in[1], [&](auto v) {
               return v * (1 - smoothing) + smoothing / static_cast<double>(n);
             });
             auto count = entropy_sum(in[0], t);
             count[0] = static_cast<double>(n == 0 ? 0 : in[0].size() / n);
             return std::vector{entropy_sum(in[0], t), count};
           })});
  if (smoothing != 0) return;
  add_row(
      {.name = "cross_entropy_backward " + name,
       .op = "cross_entropy_backward",
       .inputs = {Input{.shape = shape}, Input{.shape = shape}.in(0.1, 1), f()},
       .call = [](const Tensors& in) { return apply(CrossEntropyBackward{}, in[0], in[1], in[2]); },
       .reference =
           analytic([](const auto& in) { return entropy_gradient(in[0], in[1], in[2][0]); })});
}

[[maybe_unused]] const bool cross_entropies = [] {
  add_sparse("rows", {6, 5}, DType::i64, 0);
  add_sparse("smooth", {4, 17}, DType::i32, 0.1);
  add_sparse("sequences", {2, 3, 4}, DType::i32, 0);
  add_sparse("one row", {3}, DType::i64, 0);
  add_sparse("one class", {3, 1}, DType::i64, 0);
  add_sparse("ignored", {4, 5}, DType::i64, 0.2, {1, 7, 0, 7});
  add_sparse("all ignored", {2, 5}, DType::i32, 0, {7, 7});
  add_sparse("no rows", {0, 5}, DType::i64, 0);
  add_sparse("threads", {700, 129}, DType::i32, 0.1);
  add_soft("rows", {4, 5}, 0);
  add_soft("odd", {3, 17}, 0);
  add_soft("smooth", {3, 4}, 0.1);
  add_soft("three axes", {2, 2, 3}, 0);
  add_soft("one class", {3, 1}, 0);
  add_soft("no rows", {0, 3}, 0);
  return true;
}();

// ---- pairs of elements ----

struct Pair {
  math::PairLoss kind;
  double delta;
  Loss (*loss)(const Tensor&, const Tensor&, double);
  Tensor (*backward)(const Tensor&, const Tensor&, const Tensor&, double);
};
template <math::PairLoss kKind>
Tensor pair_backward(const Tensor& x, const Tensor& t, const Tensor& dsum, double delta) {
  return apply(PairLossBackward<kKind>{delta}, x, t, dsum);
}
const Pair kPairs[] = {
    {math::PairLoss::binary_cross_entropy, 1,
     [](const Tensor& x, const Tensor& t, double) { return binary_cross_entropy(x, t); },
     pair_backward<math::PairLoss::binary_cross_entropy>},
    {math::PairLoss::squared, 1, [](const Tensor& x, const Tensor& t, double) { return mse(x, t); },
     pair_backward<math::PairLoss::squared>},
    {math::PairLoss::absolute, 1,
     [](const Tensor& x, const Tensor& t, double) { return mae(x, t); },
     pair_backward<math::PairLoss::absolute>},
    {math::PairLoss::huber, 0.75,
     [](const Tensor& x, const Tensor& t, double d) { return huber(x, t, d); },
     pair_backward<math::PairLoss::huber>},
};

template <class T>
T pair_value(math::PairLoss kind, double delta, T x, T t) {
  const T d = x - t, size = real(d) < 0 ? -d : d;
  switch (kind) {
    case math::PairLoss::binary_cross_entropy:
      return std::log(1.0 + std::exp(x)) - x * t;
    case math::PairLoss::squared:
      return d * d;
    case math::PairLoss::absolute:
      return size;
    default:
      return real(size) <= delta ? d * d / 2.0 : delta * (size - delta / 2);
  }
}
template <class T>
T pair_slope(math::PairLoss kind, double delta, T x, T t) {
  const T d = x - t;
  const double sign = real(d) < 0 ? -1 : 1;
  switch (kind) {
    case math::PairLoss::binary_cross_entropy:
      return 1.0 / (1.0 + std::exp(-x)) - t;
    case math::PairLoss::squared:
      return 2.0 * d;
    case math::PairLoss::absolute:
      return T(sign);
    default:
      return std::fabs(real(d)) <= delta ? d : T(sign * delta);
  }
}

// x and t on grids such that no difference is within 0.05 of 0 or of delta.
void add_pairs(const std::string& name, const Shape& shape) {
  const auto size = static_cast<std::size_t>(shape.size());
  std::vector<double> xs(size), ts(size);
  for (std::size_t i = 0; i < size; ++i) {
    ts[i] = static_cast<double>(i * 5 % 11) / 16;
    xs[i] = ts[i] + (static_cast<double>(i * 7 % 13) - 6.25) / 4;  // 1/16 off the quarters
  }
  Input x{.shape = shape}, t{.shape = shape};
  if (size > 0) x = x.of(xs), t = t.of(ts);
  for (const Pair& p : kPairs) {
    add_row({.name = std::string(pair_name(p.kind, false)) + " " + name,
             .op = pair_name(p.kind, false),
             .inputs = {x, t},
             .call = [p](const Tensors& in) { return both(p.loss(in[0], in[1], p.delta)); },
             .reference = analytic([p](const auto& in) {
               using T = typename std::decay_t<decltype(in[0])>::Element;
               T sum = 0;
               for (std::int64_t i = 0; i < in[0].size(); ++i)
                 sum += pair_value(p.kind, p.delta, in[0][i], in[1][i]);
               return std::vector{scalar(sum), scalar(T(static_cast<double>(in[0].size())))};
             })});
    add_row({.name = std::string(pair_name(p.kind, true)) + " " + name,
             .op = pair_name(p.kind, true),
             .inputs = {x, t, f()},
             .call = [p](const Tensors& in) { return p.backward(in[0], in[1], in[2], p.delta); },
             .reference = analytic([p](const auto& in) {
               return map(map(in[0], in[1],
                              [&](auto a, auto b) { return pair_slope(p.kind, p.delta, a, b); }),
                          in[2], [](auto slope, auto dsum) { return slope * dsum; });
             })});
  }
}

[[maybe_unused]] const bool pairs = [] {
  add_pairs("rows", {4, 5});
  add_pairs("vector", {19});
  add_pairs("scalar", {});
  add_pairs("three axes", {3, 2, 3});
  add_pairs("of nothing", {0, 3});
  add_pairs("threads", {300, 401});
  return true;
}();

// Going on from a sum that is given last.
template <class Op>
Tensors accumulating(const Op& op, const Tensors& in) {
  const Tensor* all[] = {&in[0], &in[1], &in[2]};
  const auto made = apply_all(op, all);
  return {made[0], made[1]};
}
template <class T>
std::vector<Array<T>> with_so_far(Array<T> sum, T so_far, double count) {
  sum[0] += so_far;
  return {sum, scalar(T(count))};
}
OP_ROW(
    "sparse_cross_entropy so far", .op = "sparse_cross_entropy",
    .inputs = {f(6, 5), ids({6}, 5).of({1, 4, 7, 0, 2, 3}), f()},
    .call =
        [](const Tensors& in) {
          return accumulating(SparseCrossEntropy{{true}, {kIgnore, 0}}, in);
        },
    .reference = analytic([](const auto& in) {
      return with_so_far(entropy_sum(in[0], spread_labels(in[0], in[1], 0)), in[2][0], 5);
    }));
OP_ROW(
    "cross_entropy so far", .op = "cross_entropy", .inputs = {f(4, 5), f(4, 5).in(0.1, 1), f()},
    .call = [](const Tensors& in) { return accumulating(CrossEntropy{{true}}, in); },
    .reference = analytic([](const auto& in) {
      return with_so_far(entropy_sum(in[0], in[1]), in[2][0], 4);
    }));
OP_ROW(
    "mse so far", .op = "mse", .inputs = {f(5, 3), f(5, 3), f()},
    .call =
        [](const Tensors& in) {
          return accumulating(PairLoss<math::PairLoss::squared>{{true}, 1}, in);
        },
    .reference = analytic([](const auto& in) {
      using T = typename std::decay_t<decltype(in[0])>::Element;
      T sum = 0;
      for (std::int64_t i = 0; i < 15; ++i) sum += (in[0][i] - in[1][i]) * (in[0][i] - in[1][i]);
      return with_so_far(scalar(sum), in[2][0], 15);
    }));
OP_ROW(
    "a sum so far of another type", .op = "mse", .inputs = {f(5, 3), f(5, 3), f(1)},
    .call =
        [](const Tensors& in) {
          return accumulating(PairLoss<math::PairLoss::squared>{{true}, 1}, in);
        },
    .refused = "mse: the sum so far is f32(1), expected a scalar of f32");

OP_ROW(
    "label out of range", .op = "sparse_cross_entropy",
    .inputs = {f(3, 5), ids({3}, 5).of({1, 5, 2})},
    .call = [](const Tensors& in) { return sparse_cross_entropy(in[0], in[1]).sum; },
    .refused = "sparse_cross_entropy: label 5 in row 1 is out of range for 5 classes");
OP_ROW(
    "label below zero", .op = "sparse_cross_entropy", .inputs = {f(2, 5), ids({2}, 5).of({0, -1})},
    .call = [](const Tensors& in) { return sparse_cross_entropy(in[0], in[1]).sum; },
    .refused = "sparse_cross_entropy: label -1 in row 1 is out of range for 5 classes");
OP_ROW(
    "labels for other rows", .op = "sparse_cross_entropy", .inputs = {f(3, 5), ids({4}, 5)},
    .call = [](const Tensors& in) { return sparse_cross_entropy(in[0], in[1]).sum; },
    .refused =
        "sparse_cross_entropy: the logits are f32(3, 5) and the labels i64(4); expected a "
        "label for each row, (3)");
OP_ROW(
    "labels of floats", .op = "sparse_cross_entropy", .inputs = {f(3, 5), f(3)},
    .call = [](const Tensors& in) { return sparse_cross_entropy(in[0], in[1]).sum; },
    .refused = "sparse_cross_entropy: the labels are f32(3); expected i32 or i64");
OP_ROW(
    "logits of rank 0", .op = "sparse_cross_entropy", .inputs = {f(), ids({}, 5)},
    .call = [](const Tensors& in) { return sparse_cross_entropy(in[0], in[1]).sum; },
    .refused = "sparse_cross_entropy: the logits are f32()");
OP_ROW(
    "too much smoothing", .op = "sparse_cross_entropy", .inputs = {f(3, 5), ids({3}, 5)},
    .call =
        [](const Tensors& in) {
          return sparse_cross_entropy(in[0], in[1], {.label_smoothing = 1.5}).sum;
        },
    .refused = "sparse_cross_entropy: the label smoothing is 1.5, expected 0 to 1");
OP_ROW(
    "targets of another shape", .op = "cross_entropy", .inputs = {f(3, 5), f(3, 4)},
    .call = [](const Tensors& in) { return cross_entropy(in[0], in[1]).sum; },
    .refused =
        "cross_entropy: the logits are f32(3, 5) and the targets f32(3, 4); expected one "
        "shape");
OP_ROW(
    "mse of other shapes", .op = "mse", .inputs = {f(3, 5), f(3)},
    .call = [](const Tensors& in) { return mse(in[0], in[1]).sum; },
    .refused = "mse: the prediction is f32(3, 5) and the target f32(3); expected one shape");
OP_ROW(
    "mae of integers", .op = "mae", .inputs = {ids({3}, 5), ids({3}, 5)},
    .call = [](const Tensors& in) { return mae(in[0], in[1]).sum; },
    .refused = "mae: i64(3) is not a floating type; cast it first");
OP_ROW(
    "huber without width", .op = "huber", .inputs = {f(3), f(3)},
    .call = [](const Tensors& in) { return huber(in[0], in[1], 0).sum; },
    .refused = "huber: delta is 0, expected above 0");

}  // namespace
}  // namespace ebb::table
