// lstm and gru, their ways back, and the recurrent weight's gradient.
#include "ebb/ops/recurrent.hpp"

#include "ebb/ops/apply.hpp"
#include "tests/ops/table.hpp"

namespace ebb::table {
namespace {

struct Setting {
  std::int64_t batch, steps, in, hidden;
  bool reverse = false, state = false;
  std::vector<double> lengths = {};
};

template <class T>
T sigmoid_of(T x) {
  return 1.0 / (1.0 + std::exp(-x));
}

// One row's way through the steps, in plain loops. step(t, h) changes h.
template <class Step>
void each_step(const Setting& s, std::int64_t row, Step&& step) {
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const std::int64_t t = s.reverse ? s.steps - 1 - i : i;
    if (s.lengths.empty() || static_cast<double>(t) < s.lengths[static_cast<std::size_t>(row)])
      step(t);
  }
}

// x, w_ih, w_hh, bias[, h, c][, lengths] → output, h, c
template <class T>
Arrays<T> lstm_of(const Setting& s, const Arrays<T>& in) {
  const std::int64_t n = s.hidden;
  Array<T> output(Shape{s.batch, s.steps, n}), h(Shape{s.batch, n}), c(Shape{s.batch, n});
  if (s.state) h = in[4], c = in[5];
  for (std::int64_t b = 0; b < s.batch; ++b)
    each_step(s, b, [&](std::int64_t t) {
      std::vector<T> gate;
      for (std::int64_t j = 0; j < 4 * n; ++j) {
        T sum = in[3][j];
        for (std::int64_t k = 0; k < s.in; ++k) sum += in[0](b, t, k) * in[1](j, k);
        for (std::int64_t k = 0; k < n; ++k) sum += h(b, k) * in[2](j, k);
        gate.push_back(j / n == 2 ? std::tanh(sum) : sigmoid_of(sum));
      }
      for (std::int64_t u = 0; u < n; ++u) {
        const auto g = [&](std::int64_t k) { return gate[static_cast<std::size_t>(k * n + u)]; };
        c(b, u) = g(1) * c(b, u) + g(0) * g(2);
        h(b, u) = output(b, t, u) = g(3) * std::tanh(c(b, u));
      }
    });
  return {output, h, c};
}

// x, w_ih, w_hh, bias, bias_hidden[, h][, lengths] → output, h
template <class T>
Arrays<T> gru_of(const Setting& s, const Arrays<T>& in) {
  const std::int64_t n = s.hidden;
  Array<T> output(Shape{s.batch, s.steps, n}), h(Shape{s.batch, n});
  if (s.state) h = in[5];
  for (std::int64_t b = 0; b < s.batch; ++b)
    each_step(s, b, [&](std::int64_t t) {
      std::vector<T> input, hidden;
      for (std::int64_t j = 0; j < 3 * n; ++j) {
        T x = in[3][j], y = 0;
        for (std::int64_t k = 0; k < s.in; ++k) x += in[0](b, t, k) * in[1](j, k);
        for (std::int64_t k = 0; k < n; ++k) y += h(b, k) * in[2](j, k);
        input.push_back(x);
        hidden.push_back(y);
      }
      for (std::int64_t u = 0; u < n; ++u) {
        const auto at = [&](std::int64_t k) { return static_cast<std::size_t>(k * n + u); };
        const T r = sigmoid_of(input[at(0)] + hidden[at(0)]);
        const T z = sigmoid_of(input[at(1)] + hidden[at(1)]);
        const T fresh = std::tanh(input[at(2)] + r * (hidden[at(2)] + in[4][u]));
        h(b, u) = output(b, t, u) = (1.0 - z) * fresh + z * h(b, u);
      }
    });
  return {output, h};
}

std::vector<Input> inputs_of(const Setting& s, std::int64_t gates) {
  const auto small = [](Input i) { return i.in(-0.9, 0.9); };
  std::vector<Input> in = {f(s.batch, s.steps, s.in), small(f(gates * s.hidden, s.in)),
                           small(f(gates * s.hidden, s.hidden)), f(gates * s.hidden)};
  if (gates == 3) in.push_back(f(s.hidden));
  if (s.state) in.insert(in.end(), gates == 4 ? 2 : 1, f(s.batch, s.hidden));
  if (!s.lengths.empty()) in.push_back(f(s.batch).as(DType::i32).of(s.lengths));
  return in;
}

RecurrentOptions options_of(const Setting& s, const Tensors& in) {
  return {s.reverse, s.lengths.empty() ? Tensor() : in.back()};
}

Tensors call_lstm(const Setting& s, const Tensors& in) {
  const LstmState state = s.state ? LstmState{in[4], in[5]} : LstmState{};
  const LstmResult r = lstm(in[0], {in[1], in[2], in[3]}, state, options_of(s, in));
  return {r.output, r.last.h, r.last.c};
}

Tensors call_gru(const Setting& s, const Tensors& in) {
  const GruResult r =
      gru(in[0], {in[1], in[2], in[3], in[4]}, s.state ? in[5] : Tensor(), options_of(s, in));
  return {r.output, r.last};
}

void add_recurrent(const std::string& name, const Setting& s, bool half = false) {
  const Tolerance rounded{.half = half ? 32.0 : 1.0};
  const std::string why =
      half ? "half: what the input gives to gates is rounded, and the state between segments" : "";
  for (const char* op : {"lstm", "lstm_backward", "recurrent_weight_grad"})
    add_row({.name = std::string(op) + " " + name,
             .op = op,
             .inputs = inputs_of(s, 4),
             .call = [=](const Tensors& in) { return call_lstm(s, in); },
             .reference = analytic([=](const auto& in) { return lstm_of(s, in); }),
             .half = half,
             .tolerance = rounded,
             .why = why});
  for (const char* op : {"gru", "gru_backward"})
    add_row({.name = std::string(op) + " " + name,
             .op = op,
             .inputs = inputs_of(s, 3),
             .call = [=](const Tensors& in) { return call_gru(s, in); },
             .reference = analytic([=](const auto& in) { return gru_of(s, in); }),
             .half = half,
             .tolerance = rounded,
             .why = why});
}

// Called by itself, since the parts of a batch are checked on the calls of a row.
OP_ROW(
    "gru_backward by itself", .op = "gru_backward",
    .inputs = {f(3, 4, 15), f(3, 4, 5), f(3, 4, 5), f(15, 5), f(3, 4, 5)},
    .call =
        [](const Tensors& in) {
          const Tensor* all[] = {&in[0], &in[1], &in[2], &in[3], &in[4]};
          return apply_all(GruBackward{.dh = true}, std::span<const Tensor* const>(all));
        },
    .no_reference = "the gradient of gru, which has one");

[[maybe_unused]] const bool recurrent_rows = [] {
  add_recurrent("plain", {3, 4, 2, 5}, true);
  add_recurrent("of one", {1, 1, 1, 1});
  add_recurrent("state", {2, 3, 3, 4, false, true});
  add_recurrent("reverse", {2, 3, 2, 9, true, true});
  add_recurrent("reverse from zero", {3, 2, 2, 3, true, false});
  add_recurrent("lengths", {4, 3, 2, 5, false, true, {3, 1, 0, 2}}, true);
  add_recurrent("lengths in reverse", {4, 3, 2, 5, true, true, {2, 3, 0, 1}});
  add_recurrent("no rows", {0, 3, 2, 4});
  add_recurrent("threads", {40, 3, 8, 48});
  add_recurrent("segments", {2, 70, 1, 3, false, true});
  add_recurrent("segments in reverse with lengths", {3, 70, 1, 3, true, true, {70, 40, 3}}, true);
  return true;
}();

OP_ROW(
    "recurrent_weight_grad so far", .op = "recurrent_weight_grad",
    .inputs = {f(3, 4, 8), f(3, 4, 2), f(3, 4), f(8, 2)},
    .call =
        [](const Tensors& in) {
          const Tensor* all[] = {&in[0], &in[1], &in[2], &in[3]};
          return apply_all(RecurrentWeightGrad{{.state = true}, false, true}, all);
        },
    .reference = analytic([](const auto& in) {
      auto sum = in[3];
      for (int b = 0; b < 3; ++b)
        for (int t = 0; t < 4; ++t)
          for (int j = 0; j < 8; ++j)
            for (int k = 0; k < 2; ++k)
              sum(j, k) += in[0](b, t, j) * (t == 0 ? in[2](b, k) : in[1](b, t - 1, k));
      return sum;
    }));
OP_ROW(
    "lstm weight that does not fit", .op = "lstm", .inputs = {f(2, 3, 4), f(8, 4), f(8, 3), f(8)},
    .call =
        [](const Tensors& in) {
          return lstm(in[0], {in[1], in[2], in[3]}).output;
        },
    .refused =
        "lstm: gates f32(2, 3, 8) and weight f32(8, 3) do not fit: expected (batch, time, 4 "
        "hidden) and (4 hidden, hidden)");
OP_ROW(
    "lstm of a matrix", .op = "lstm", .inputs = {f(3, 4), f(8, 4), f(8, 2), f(8)},
    .call =
        [](const Tensors& in) {
          return lstm(in[0], {in[1], in[2], in[3]}).output;
        },
    .refused = "lstm: x is f32(3, 4), expected (batch, time, in)");
OP_ROW(
    "lstm state of another size", .op = "lstm",
    .inputs = {f(2, 3, 4), f(8, 4), f(8, 2), f(8), f(2, 3), f(2, 3)},
    .call =
        [](const Tensors& in) {
          return lstm(in[0], {in[1], in[2], in[3]}, LstmState{in[4], in[5]}).output;
        },
    .refused = "lstm: the state is f32(2, 6), expected f32(2, 4)");
OP_ROW(
    "lstm state without c", .op = "lstm", .inputs = {f(2, 3, 4), f(8, 4), f(8, 2), f(8), f(2, 2)},
    .call =
        [](const Tensors& in) {
          return lstm(in[0], {in[1], in[2], in[3]}, LstmState{in[4], {}}).output;
        },
    .refused = "lstm: the initial state has h but no c; give both or neither");
OP_ROW(
    "lstm state without h", .op = "lstm", .inputs = {f(2, 3, 4), f(8, 4), f(8, 2), f(8), f(2, 2)},
    .call =
        [](const Tensors& in) {
          return lstm(in[0], {in[1], in[2], in[3]}, LstmState{{}, in[4]}).output;
        },
    .refused = "lstm: the initial state has c but no h; give both or neither");
OP_ROW(
    "gru lengths of another size", .op = "gru",
    .inputs = {f(2, 3, 4), f(6, 4), f(6, 2), f(6), ids({3}, 3)},
    .call =
        [](const Tensors& in) {
          return gru(in[0], {in[1], in[2], in[3], {}}, {}, {.lengths = in[4]}).output;
        },
    .refused = "gru: lengths are i64(3), expected i32 or i64 (2)");
OP_ROW(
    "lstm length above the steps", .op = "lstm",
    .inputs = {f(3, 5, 4), f(8, 4), f(8, 2), f(8), f(3).as(DType::i64).of({5, 0, 6})},
    .call =
        [](const Tensors& in) {
          return lstm(in[0], {in[1], in[2], in[3]}, {}, {.lengths = in[4]}).output;
        },
    .refused = "lstm: length 6 at position 2 is out of range; expected 0 to 5");
OP_ROW(
    "gru length below 0", .op = "gru",
    .inputs = {f(2, 70, 4), f(6, 4), f(6, 2), f(6), f(2).as(DType::i32).of({70, -1})},
    .call =
        [](const Tensors& in) {
          return gru(in[0], {in[1], in[2], in[3], {}}, {}, {.lengths = in[4]}).output;
        },
    .refused = "gru: length -1 at position 1 is out of range; expected 0 to 70");
OP_ROW(
    "lstm without steps", .op = "lstm", .inputs = {f(2, 0, 4), f(8, 4), f(8, 2), f(8)},
    .call =
        [](const Tensors& in) {
          return lstm(in[0], {in[1], in[2], in[3]}).output;
        },
    .refused = "lstm: f32(2, 0, 8) has no steps");

}  // namespace
}  // namespace ebb::table
