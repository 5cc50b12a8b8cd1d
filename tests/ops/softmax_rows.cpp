// Softmax, log_softmax and their ways back.
#include "ebb/ops/softmax.hpp"

#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

// f(first index, stride, count) for each run of elements along an axis.
template <class T, class F>
void along(const Array<T>& x, int axis, F&& f) {
  std::int64_t inner = 1, outer = 1;
  for (int d = 0; d < axis; ++d) outer *= x.shape[d];
  for (int d = axis + 1; d < x.rank(); ++d) inner *= x.shape[d];
  const std::int64_t n = x.shape[axis];
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) f(o * n * inner + i, inner, n);
}

template <class T>
Array<T> softmax_of(const Array<T>& x, int axis, bool log) {
  Array<T> y(x.shape);
  along(x, axis, [&](std::int64_t first, std::int64_t step, std::int64_t n) {
    T sum = 0;
    for (std::int64_t k = 0; k < n; ++k) sum += std::exp(x[first + k * step]);
    for (std::int64_t k = 0; k < n; ++k) {
      const T v = x[first + k * step];
      y[first + k * step] = log ? v - std::log(sum) : std::exp(v) / sum;
    }
  });
  return y;
}

template <class T>
Array<T> backward_of(const Array<T>& y, const Array<T>& dy, bool log) {
  Array<T> dx(y.shape);
  along(y, y.rank() - 1, [&](std::int64_t first, std::int64_t, std::int64_t n) {
    T sum = 0;
    for (std::int64_t k = first; k < first + n; ++k) sum += log ? dy[k] : y[k] * dy[k];
    for (std::int64_t k = first; k < first + n; ++k)
      dx[k] = log ? dy[k] - std::exp(y[k]) * sum : y[k] * (dy[k] - sum);
  });
  return dx;
}

void add_softmax(const std::string& name, const Shape& shape, int axis, bool half = false) {
  const int front = axis < 0 ? axis + shape.rank() : axis;
  for (const bool log : {false, true}) {
    add_row({.name = (log ? "log_softmax " : "softmax ") + name,
             .op = log ? "log_softmax" : "softmax",
             .inputs = {Input{.shape = shape}},
             .call =
                 [=](const Tensors& in) {
                   return log ? log_softmax(in[0], axis) : softmax(in[0], axis);
                 },
             .reference = analytic([=](const auto& in) { return softmax_of(in[0], front, log); }),
             .half = half});
  }
}

void add_backward(const std::string& name, const Shape& shape) {
  for (const bool log : {false, true}) {
    add_row(
        {.name = (log ? "log_softmax_backward " : "softmax_backward ") + name,
         .op = log ? "log_softmax_backward" : "softmax_backward",
         .inputs = {Input{.shape = shape}, Input{.shape = shape}},
         .call =
             [=](const Tensors& in) {
               return log ? log_softmax_backward(in[0], in[1]) : softmax_backward(in[0], in[1]);
             },
         .reference = analytic([=](const auto& in) { return backward_of(in[0], in[1], log); })});
  }
}

[[maybe_unused]] const bool added = [] {
  add_softmax("rows", {4, 16}, -1, true);
  add_softmax("odd", {3, 37}, 1);
  add_softmax("vector", {5}, 0);
  add_softmax("of one", {3, 1}, -1);
  add_softmax("first axis", {5, 3}, 0);
  add_softmax("middle axis", {2, 3, 4}, 1);
  add_softmax("four axes", {2, 2, 3, 5}, -1);
  add_softmax("no rows", {0, 4}, -1);
  add_softmax("of nothing", {3, 0}, -1);
  add_softmax("threads", {300, 257}, -1);
  add_backward("rows", {4, 9});
  add_backward("vector", {17});
  add_backward("of one", {2, 1});
  add_backward("of nothing", {0, 3});
  return true;
}();

OP_ROW(
    "softmax scalar", .op = "softmax", .inputs = {f()},
    .call = [](const Tensors& in) { return softmax(in[0]); },
    .refused = "softmax: f32() has no axis");
OP_ROW(
    "softmax of integers", .op = "softmax", .inputs = {ids({2, 3}, 5)},
    .call = [](const Tensors& in) { return softmax(in[0]); },
    .refused = "softmax: i64(2, 3) is not a floating type; cast it first");
OP_ROW(
    "log_softmax bad axis", .op = "log_softmax", .inputs = {f(2, 3)},
    .call = [](const Tensors& in) { return log_softmax(in[0], 2); },
    .refused = "log_softmax: axis 2 is out of range for rank 2; expected -2 to 1");
OP_ROW(
    "softmax_backward shapes differ", .op = "softmax_backward", .inputs = {f(2, 3), f(3, 2)},
    .call = [](const Tensors& in) { return softmax_backward(in[0], in[1]); },
    .refused = "softmax_backward: f32(2, 3) and f32(3, 2) differ");

}  // namespace
}  // namespace ebb::table
