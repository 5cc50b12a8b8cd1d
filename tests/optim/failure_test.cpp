// Every allocation of a step fails in turn, once and from then on. Nothing leaks, nothing changes,
// and the step that is tried again gives the bits of the step that never failed.
#include <gtest/gtest.h>

#include <optional>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "ebb/ops/dropout.hpp"
#include "ebb/optim/accumulator.hpp"
#include "ebb/optim/ema.hpp"
#include "ebb/tape/custom.hpp"
#include "tests/optim/model.hpp"

namespace ebb {
namespace {

using test::bytes;
using test::Example;
using test::Mlp;
using test::values;

// A model and an optimizer just made, with their first values in memory.
template <class Model, class Optimizer>
struct Run {
  Model model;
  Optimizer adam;
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<std::byte>> state;
  Run() : model((random::seed(1), nn::Init(1))), adam(params(model)) {
    adam.clip_norm(0.5);
    weights = values(variables(model));
    for (const Variable& v : adam.state()) v.value();
    state = bytes(adam.state());
  }
};

template <class Model, class Optimizer = optim::AdamW, class Step>
void fail_at_every_point(Step step) {
  std::vector<std::vector<float>> expected;
  std::uint64_t takes = 0;
  {
    Run<Model, Optimizer> run;
    const std::uint64_t before = memory::FailTake::takes();
    step(run.model, run.adam);
    takes = memory::FailTake::takes() - before;
    step(run.model, run.adam);
    expected = values(variables(run.model));
  }
  ASSERT_GT(takes, 20u);
  for (const bool forever : {false, true})
    for (std::uint64_t n = 1; n <= takes; ++n) {
      Run<Model, Optimizer> run;
      const random::State draws = random::state();
      const std::uint64_t live = ledger::total().live;
      {
        const memory::FailTake fail(n, forever);
        EXPECT_THROW(step(run.model, run.adam), OutOfMemory) << n;
        EXPECT_TRUE(fail.fired());
      }
      EXPECT_EQ(ledger::total().live, live) << "allocation " << n << " leaked";
      EXPECT_EQ(values(variables(run.model)), run.weights) << n;
      EXPECT_EQ(bytes(run.adam.state()), run.state) << n;
      EXPECT_EQ(run.adam.steps(), 0);
      EXPECT_EQ(random::state(), draws) << n;
      step(run.model, run.adam);
      step(run.model, run.adam);
      EXPECT_EQ(values(variables(run.model)), expected) << "allocation " << n << " left a mark";
    }
}

template <class Model>
void train_step(Model& model, optim::Optimizer& optimizer, const Example& batch) {
  Tape tape;
  optimizer.minimize(sparse_cross_entropy(model(batch.x), batch.labels));
}

TEST(Failure, OfADenseStep) {
  const Example batch = test::examples(30, 12, 5, 3);
  fail_at_every_point<Mlp>([&](Mlp& model, optim::AdamW& adam) { train_step(model, adam, batch); });
}

template <class Optimizer>
void fail_a_dense_step() {
  const Example batch = test::examples(30, 12, 5, 3);
  fail_at_every_point<Mlp, Optimizer>(
      [&](Mlp& model, Optimizer& optimizer) { train_step(model, optimizer, batch); });
}
TEST(Failure, OfLion) { fail_a_dense_step<optim::Lion>(); }
TEST(Failure, OfAdamWIn8Bits) { fail_a_dense_step<optim::AdamW8bit>(); }
TEST(Failure, OfAdafactor) { fail_a_dense_step<optim::Adafactor>(); }

// The step and the average after it: each of them whole or not at all.
TEST(Failure, OfAnAverage) {
  Mlp model(nn::Init(1));
  optim::Ema ema(params(model), 0.9);
  ema.update();
  std::vector<Tensor> held;  // so that writing has to copy
  for (const Variable& v : ema.averages()) held.push_back(v.value());
  const auto before = bytes(ema.state());
  for (std::uint64_t n = 1; n <= held.size(); ++n) {
    {
      const memory::FailTake fail(n, true);
      EXPECT_THROW(ema.update(), OutOfMemory) << n;
    }
    EXPECT_EQ(bytes(ema.state()), before) << n;
    held.clear();
    for (const Variable& v : ema.averages()) held.push_back(v.value());
  }
}

struct Cnn {
  nn::Conv2d first, second;
  nn::BatchNorm norm;
  nn::Dense down;
  explicit Cnn(nn::Init init)
      : first(init / "first", 2, 4, 3, {.padding = {1, 1, 1, 1}}),
        second(init / "second", 4, 6, 2, {.stride = {2, 2}}),
        norm(init / "norm", 6),
        down(init / "down", 6, 5) {}
  Tensor operator()(const Tensor& x) const {  // (rows, 72) as images (rows, 6, 6, 2)
    const Tensor image = reshape(x, {-1, 6, 6, 2});
    const Tensor small = max_pool2d(relu(first(image)));      // (rows, 3, 3, 4)
    const Tensor point = dropout(norm(second(small)), 0.25);  // (rows, 1, 1, 6)
    return down(reshape(point, {-1, 6}));
  }
  void each(auto&& f) {
    f("first", first);
    f("second", second);
    f("norm", norm);
    f("down", down);
  }
};

TEST(Failure, OfAConvolutionalStep) {
  const Example batch = test::examples(5, 72, 5, 3);
  fail_at_every_point<Cnn>([&](Cnn& model, optim::AdamW& adam) { train_step(model, adam, batch); });
}

// What the block does is computed once more on the way back, dropout and running statistics with it.
struct Recomputed {
  nn::Dense up, down;
  nn::BatchNorm norm;
  nn::Dropout drop{0.25};
  explicit Recomputed(nn::Init init)
      : up(init / "up", 12, 9), down(init / "down", 9, 5), norm(init / "norm", 9) {}
  Tensor operator()(const Tensor& x) const {
    const auto block = checkpoint([this](const Tensor& in) { return drop(relu(norm(up(in)))); });
    return down(block(x));
  }
  void each(auto&& f) {
    f("up", up);
    f("down", down);
    f("norm", norm);
  }
};

TEST(Failure, OfAStepWithACheckpoint) {
  const Example batch = test::examples(7, 12, 5, 3);
  fail_at_every_point<Recomputed>(
      [&](Recomputed& model, optim::AdamW& adam) { train_step(model, adam, batch); });
}

// A part that fails takes the whole batch with it: discard, and begin anew.
void fail_in_three_parts(bool placed) {
  const Example batch = test::examples(30, 12, 5, 3);
  fail_at_every_point<Mlp>([&](Mlp& model, optim::AdamW& adam) {
    Accumulator gathered(params(model), 3);
    try {
      for (const auto& [begin, end] : {std::pair{0, 7}, {7, 20}, {20, 30}}) {
        const Example part = batch.rows(begin, end);
        std::optional<random::Part> position;
        if (placed) position.emplace(begin);
        Tape tape;
        gathered.add(tape, sparse_cross_entropy(model(part.x), part.labels));
      }
      adam.step(gathered);
    } catch (...) {
      gathered.discard();
      throw;
    }
  });
}

TEST(Failure, OfAStepInThreeParts) { fail_in_three_parts(true); }
TEST(Failure, OfAStepInThreePartsThatDrawOnTheirOwn) { fail_in_three_parts(false); }

}  // namespace
}  // namespace ebb
