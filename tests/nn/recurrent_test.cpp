#include "ebb/nn/recurrent.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/stop_gradient.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using test::error_of;

Tensor some(const Shape& shape, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        static_cast<float>(std::sin(0.7 * static_cast<double>(i * (seed + 1)) + 0.3 * seed));
  return Tensor::from(values, shape);
}

bool same(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0;
}

double distance(const Tensor& a, const Tensor& b) {
  const Tensor d = abs(a - b);
  double most = 0;
  for (std::int64_t i = 0; i < d.size(); ++i)
    most = std::max(most, static_cast<double>(d.data<float>()[i]));
  return most;
}

std::vector<std::string> names(const std::vector<Variable>& vs) {
  std::vector<std::string> all;
  for (const Variable& v : vs) all.push_back(v.name());
  return all;
}

LstmWeights weights_of(const nn::RecurrentCell& c) {
  return {c.weight_ih, c.weight_hh, c.bias_ih.value() + c.bias_hh.value()};
}

TEST(Lstm, ParametersAreNamedAndShapedAsPeopleKnowThem) {
  nn::Lstm layer(nn::Init(1) / "rnn", 3, 5, {.layers = 2, .bidirectional = true});
  EXPECT_EQ(names(params(layer)),
            (std::vector<std::string>{
                "rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0", "rnn.bias_hh_l0",
                "rnn.weight_ih_l0_reverse", "rnn.weight_hh_l0_reverse", "rnn.bias_ih_l0_reverse",
                "rnn.bias_hh_l0_reverse", "rnn.weight_ih_l1", "rnn.weight_hh_l1", "rnn.bias_ih_l1",
                "rnn.bias_hh_l1", "rnn.weight_ih_l1_reverse", "rnn.weight_hh_l1_reverse",
                "rnn.bias_ih_l1_reverse", "rnn.bias_hh_l1_reverse"}));
  EXPECT_EQ(layer.cells[0].weight_ih.value().shape(), (Shape{20, 3}));
  EXPECT_EQ(layer.cells[2].weight_ih.value().shape(), (Shape{20, 10}));
  EXPECT_EQ(layer.cells[2].weight_hh.value().shape(), (Shape{20, 5}));
  nn::Gru gru(nn::Init(1), 3, 5, {.bias = false});
  EXPECT_EQ(names(params(gru)), (std::vector<std::string>{"weight_ih_l0", "weight_hh_l0"}));
}

// Two layers, both directions, lengths: as the op called by hand, layer after layer.
TEST(Lstm, LayersAndDirectionsAreOpsPutTogether) {
  for (const std::int64_t time : {6, 70}) {
    const nn::Lstm layer(nn::Init(2), 3, 5, {.layers = 2, .bidirectional = true});
    const Tensor x = some({4, time, 3}, 1);
    const Tensor lengths = Tensor::from(std::vector<std::int64_t>{time, 2, 0, time - 1}, Shape{4});
    const auto [output, last] = layer(x, {.lengths = lengths});
    Tensor below = x;
    for (std::size_t l = 0; l < 2; ++l) {
      const auto& cells = layer.cells;
      const LstmResult there = lstm(below, weights_of(cells[2 * l]), {}, {false, lengths});
      const LstmResult back = lstm(below, weights_of(cells[2 * l + 1]), {}, {true, lengths});
      EXPECT_TRUE(same(last[2 * l].h, there.last.h)) << l;
      EXPECT_TRUE(same(last[2 * l].c, there.last.c)) << l;
      EXPECT_TRUE(same(last[2 * l + 1].h, back.last.h)) << l;
      below = concat({there.output, back.output}, 2);
    }
    EXPECT_TRUE(same(output, below));
    EXPECT_TRUE(same(layer.last(x, {.lengths = lengths}), concat({last[2].h, last[3].h}, 1)));
    // A row is what it is alone, cut at its length; zeros beyond.
    const Tensor row = slice(slice(x, 0, 1, 2), 1, 0, 2);
    EXPECT_TRUE(same(slice(slice(output, 0, 1, 2), 1, 0, 2), layer(row).output));
    EXPECT_TRUE(same(slice(slice(output, 0, 1, 2), 1, 2), Tensor::zeros({1, time - 2, 10})));
  }
}

// A long sequence in segments gives the bits of one piece, and its gradient up to rounding.
TEST(Lstm, SegmentsChangeNothing) {
  const nn::Lstm layer(nn::Init(3), 3, 6);
  const Tensor x = some({2, 150, 3}, 1);
  EXPECT_EQ(time_segments(x).size(), 5u);
  EXPECT_EQ(time_segments(slice(x, 1, 0, 64)).size(), 1u);
  const LstmWeights w = weights_of(layer.cells[0]);
  const auto run = [&](bool cut, std::vector<Tensor>& gradients) {
    Tape tape;
    const std::vector<Tensor> watched = {x, w.input, w.hidden, w.bias};
    for (const Tensor& t : watched) tape.watch(t);
    const Tensor y = cut ? lstm(x, w).output : lstm(std::vector{x}, w).outputs[0];
    gradients = tape.gradient(sum(y * y), watched);
    return y;
  };
  std::vector<Tensor> whole, parts;
  EXPECT_TRUE(same(run(true, parts), run(false, whole)));
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_LT(distance(whole[i], parts[i]), 1e-4) << i;
}

TEST(Lstm, AStateGoesOnWhereAnotherLeftOff) {
  const nn::Lstm layer(nn::Init(4), 2, 4, {.layers = 2});
  const Tensor x = some({3, 8, 2}, 2);
  const auto [whole, end] = layer(x);
  const auto first = layer(slice(x, 1, 0, 5));
  const auto second = layer(slice(x, 1, 5), {.initial = first.last});
  EXPECT_TRUE(same(whole, concat({first.output, second.output}, 1)));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(same(end[i].h, second.last[i].h));
    EXPECT_TRUE(same(end[i].c, second.last[i].c));
  }
}

// Truncated: the second window's gradient is that of a window that starts from a constant state.
TEST(Lstm, StopGradientCutsTimeBetweenWindows) {
  nn::Lstm layer(nn::Init(5), 2, 4);
  const Tensor x = some({3, 8, 2}, 3);
  enum class How { constant, stopped, through };
  const auto gradient = [&](How how) {
    nn::LstmStates state;
    if (how == How::constant) state = layer(slice(x, 1, 0, 5)).last;
    Tape tape;
    if (how != How::constant) state = layer(slice(x, 1, 0, 5)).last;
    if (how == How::stopped) state = nn::stop_gradient(state);
    const Tensor y = layer(slice(x, 1, 5), {.initial = state}).output;
    return tape.gradient(sum(y), layer.cells[0].weight_hh.value());
  };
  EXPECT_TRUE(same(gradient(How::constant), gradient(How::stopped)));
  EXPECT_GT(distance(gradient(How::constant), gradient(How::through)), 1e-3);
}

TEST(Lstm, DropoutIsBetweenLayersWhileTraining) {
  const nn::Lstm layer(nn::Init(6), 2, 16, {.layers = 2, .dropout = 0.5});
  const nn::Lstm one(nn::Init(6), 2, 16, {.dropout = 0.5});
  const Tensor x = some({3, 5, 2}, 4);
  const Tensor noisy = layer(x).output;
  const nn::Evaluation evaluation;
  const Tensor quiet = layer(x).output;
  EXPECT_GT(distance(noisy, quiet), 1e-3);
  EXPECT_TRUE(same(quiet, layer(x).output));
  const nn::Lstm none(nn::Init(6), 2, 16, {.layers = 2});
  EXPECT_TRUE(same(quiet, none(x).output));
}

// One step from a state, in the form that has the reset gate outside the hidden product.
TEST(Gru, IsTheFormPeopleKnow) {
  const nn::Gru layer(nn::Init(7), 2, 3);
  const nn::RecurrentCell& c = layer.cells[0];
  const Tensor x = some({1, 1, 2}, 5), h0 = some({1, 3}, 6);
  const auto [output, last] = layer(x, {.initial = {h0}});
  const auto at = [](const Tensor& t, std::int64_t i) { return double(t.data<float>()[i]); };
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (std::int64_t u = 0; u < 3; ++u) {
    double in[3], hidden[3];
    for (std::int64_t g = 0; g < 3; ++g) {
      const std::int64_t j = g * 3 + u;
      in[g] = at(c.bias_ih.value(), j), hidden[g] = at(c.bias_hh.value(), j);
      for (std::int64_t k = 0; k < 2; ++k) in[g] += at(c.weight_ih.value(), j * 2 + k) * at(x, k);
      for (std::int64_t k = 0; k < 3; ++k)
        hidden[g] += at(c.weight_hh.value(), j * 3 + k) * at(h0, k);
    }
    const double r = sigmoid(in[0] + hidden[0]), z = sigmoid(in[1] + hidden[1]);
    const double n = std::tanh(in[2] + r * hidden[2]);
    EXPECT_NEAR(at(output, u), (1 - z) * n + z * at(h0, u), 1e-6);
  }
  EXPECT_TRUE(same(last[0], slice(reshape(output, {1, 3}), 0, 0, 1)));
}

// A row is what it is alone, cut at its length: its output, its last states; zeros beyond.
TEST(Gru, ARowEndsAtItsLength) {
  for (const std::int64_t time : {6, 70})
    for (const bool both : {false, true}) {
      const nn::Gru layer(nn::Init(2), 3, 5, {.layers = 2, .bidirectional = both});
      const Tensor x = some({4, time, 3}, 1);
      const std::vector<std::int64_t> ends{time, 2, 0, time - 1};
      const Tensor lengths = Tensor::from(ends, Shape{4});
      nn::GruStates initial;
      for (std::size_t i = 0; i < layer.cells.size(); ++i) initial.push_back(some({4, 5}, 2 + i));
      const auto [output, last] = layer(x, {lengths, initial});
      const Tensor top = layer.last(x, {lengths, initial});
      for (std::int64_t r = 0; r < 4; ++r) {
        SCOPED_TRACE(r);
        const std::int64_t end = ends[static_cast<std::size_t>(r)];
        const auto row = [&](const Tensor& t) { return slice(t, 0, r, r + 1); };
        EXPECT_TRUE(
            same(slice(row(output), 1, end), Tensor::zeros({1, time - end, both ? 10 : 5})));
        nn::GruStates from;
        for (const Tensor& h : initial) from.push_back(row(h));
        nn::GruStates expected = from;
        if (end > 0) {
          const auto alone = layer(slice(row(x), 1, 0, end), {.initial = from});
          EXPECT_TRUE(same(slice(row(output), 1, 0, end), alone.output));
          expected = alone.last;
        }
        for (std::size_t i = 0; i < last.size(); ++i)
          EXPECT_TRUE(same(row(last[i]), expected[i])) << "cell " << i;
        EXPECT_TRUE(same(row(top), both ? concat({expected[2], expected[3]}, 1) : expected[1]));
      }
    }
}

TEST(Gru, BothDirectionsInTwoLayersLearn) {
  nn::Gru layer(nn::Init(8), 2, 8, {.layers = 2, .bidirectional = true});
  nn::Dense head(nn::Init(8) / "head", 16, 1);
  std::vector<Variable> all = params(layer);
  for (const Variable& v : params(head)) all.push_back(v);
  optim::Adam adam(all, {.lr = 1e-2f});
  const Tensor x = some({8, 12, 2}, 7), y = some({8, 1}, 8);
  double first = 0, now = 0;
  for (int step = 0; step < 80; ++step) {
    Tape tape;
    const Loss loss = mse(head(layer.last(x)), y);
    now = loss.sum.item();
    if (step == 0) first = now;
    adam.minimize(loss);
  }
  EXPECT_LT(now, first * 0.05);
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] { nn::Lstm(nn::Init(1), 3, 0); }),
            "Lstm: in is 3, hidden 0, layers 1; expected at least 1 of each");
  EXPECT_EQ(error_of([] { nn::Gru(nn::Init(1), 3, 2, {.dropout = 1}); }),
            "Gru: the dropout is 1, expected at least 0 and below 1");
  const nn::Lstm layer(nn::Init(1), 3, 2, {.layers = 2});
  EXPECT_EQ(error_of([&] {
              layer(some({4, 3}, 1));
            }),
            "Lstm: x is f32(4, 3), expected (batch, time, in)");
  EXPECT_EQ(error_of([&] {
              layer(some({4, 2, 3}, 1), {.initial = nn::LstmStates(1)});
            }),
            "Lstm: 1 initial states were given, expected 2");
  const Tensor half = some({4, 2}, 2);
  EXPECT_EQ(error_of([&] {
              layer(some({4, 2, 3}, 1), {.initial = {{}, {half, {}}}});
            }),
            "lstm: the initial state has h but no c; give both or neither");
  EXPECT_EQ(error_of([&] {
              const nn::LstmStates states{{{}, half}, {}};
              layer(some({4, 2, 3}, 1), {.initial = nn::stop_gradient(states)});
            }),
            "lstm: the initial state has c but no h; give both or neither");
}

// Backpropagation through time under a budget: less memory, the same bits.
TEST(Lstm, ABudgetChangesNoBit) {
  const auto weights_after = [](std::uint64_t budget, std::uint64_t& minimum,
                                std::uint64_t& arena) {
    nn::Lstm layer(nn::Init(9), 4, 32);
    nn::Dense head(nn::Init(9) / "head", 32, 3);
    std::vector<Variable> all = params(layer);
    for (const Variable& v : params(head)) all.push_back(v);
    optim::Adam adam(all, {.lr = 1e-2f});
    const Tensor x = some({8, 256, 4}, 7);
    const Tensor y = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0, 1}, Shape{8});
    CompileOptions options{.allow = Allow::same_bits, .split = false, .spill = false};
    options.memory.bytes = budget;
    const BatchSpec spec{{"x", x.spec()}, {"y", y.spec()}};
    auto step = compile(spec, options, [&](const Batch& b) {
      return adam.minimize(sparse_cross_entropy(head(layer.last(b["x"])), b["y"]));
    });
    minimum = step.plan().minimum;
    arena = step.plan().arena;
    const Tensor inputs[] = {x, y};
    for (int i = 0; i < 2; ++i) step(inputs);
    std::vector<Tensor> values;
    for (const Variable& v : all) values.push_back(v.value());
    return values;
  };
  std::uint64_t minimum = 0, all_of_it = 0, least = 0, unused = 0;
  const auto free = weights_after(0, minimum, all_of_it);
  const auto tight = weights_after(minimum, unused, least);
  EXPECT_LT(least, all_of_it / 2);
  for (std::size_t i = 0; i < free.size(); ++i) EXPECT_TRUE(same(free[i], tight[i])) << i;
}

}  // namespace
}  // namespace ebb
