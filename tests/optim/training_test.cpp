// What the whole promises of a training step: memory comes back, failures change nothing.
#include <gtest/gtest.h>

#include <fstream>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/ops/binary.hpp"
#include "tests/optim/model.hpp"

namespace ebb {
namespace {

using test::Example;
using test::Mlp;
using test::values;

std::uint64_t resident_bytes() {
  std::ifstream status("/proc/self/statm");
  std::uint64_t pages = 0, resident = 0;
  status >> pages >> resident;
  return resident * 4096;
}

void train_step(Mlp& model, optim::Optimizer& optimizer, const Example& batch) {
  Tape tape;
  optimizer.minimize(sparse_cross_entropy(model(batch.x), batch.labels));
}

TEST(Training, LearnsItsExamples) {
  random::seed(1);
  Mlp model(nn::Init(1), 0.0);
  optim::Adam adam(params(model), {.lr = 1e-2});
  const Example batch = test::examples(64, 12, 5, 3);
  double first = 0, last = 0;
  for (int i = 0; i < 200; ++i) {
    Tape tape;
    last = adam.minimize(sparse_cross_entropy(model(batch.x), batch.labels)).mean().item();
    if (i == 0) first = last;
  }
  EXPECT_GT(first, 1.4);
  EXPECT_LT(last, 0.1);
}

TEST(Training, OneAndTwoThreadsGiveTheSameBits) {
  std::vector<std::vector<float>> at[3];
  const int before = pool::threads();
  for (const int threads : {1, 2, 3}) {
    pool::set_threads(threads);
    random::seed(1);
    Mlp model(nn::Init(1));
    optim::AdamW adam(params(model));
    for (int i = 0; i < 5; ++i) train_step(model, adam, test::examples(300, 12, 5, i));
    at[threads - 1] = values(params(model));
  }
  pool::set_threads(before);
  EXPECT_EQ(at[0], at[1]);
  EXPECT_EQ(at[0], at[2]);
}

// 200 dense layers: the walk back frees as it goes.
TEST(Training, BackwardOfADeepChainFreesAsItWalks) {
  constexpr std::int64_t kWidth = 48, kRows = 1000, kLayers = 200;
  std::vector<nn::Dense> layers;
  for (int i = 0; i < kLayers; ++i)
    layers.emplace_back(nn::Init(1) / "layer" / i, kWidth, kWidth,
                        nn::DenseOptions{.activation = Activation::tanh});
  std::vector<Variable> weights;
  for (auto& layer : layers)
    for (const Variable& v : params(layer)) weights.push_back(v);
  // What one layer adds: its result, and the gradients of its weight and bias.
  const std::uint64_t layer_bytes = (kRows * kWidth + kWidth * kWidth + kWidth) * 4 + 3 * 128;
  const Tensor x = random::uniform({kRows, kWidth}, -1, 1, 1, 1);

  // Sees the Ledger at every op on the way back.
  struct Watcher final : ops::Recorder {
    std::vector<std::uint64_t> live;
    void record(const ops::OpType&, const void*, std::span<const Tensor* const>,
                std::span<const Tensor>) override {
      live.push_back(ledger::total().live);
    }
    void record(std::shared_ptr<const ops::CustomGrad>, std::span<const Tensor* const>,
                std::span<const Tensor>) override {}
  } watcher;

  ledger::reset_peak();
  ops::recorders() = &watcher;
  std::vector<Tensor> gradients;
  std::uint64_t forward_peak = 0;
  {
    Tape tape;
    Tensor y = x;
    for (const nn::Dense& layer : layers) y = layer(y);
    const Tensor loss = sum(y);
    forward_peak = ledger::total().peak;
    EXPECT_GE(forward_peak, kLayers * (kRows * kWidth * 4)) << "the activations are kept";
    watcher.live.clear();
    ledger::reset_peak();
    gradients = tape.gradient(loss, weights);
  }
  ops::remove_recorder(watcher);
  constexpr std::uint64_t kScalar = 4 + 128;  // the gradient of the loss itself
  EXPECT_LE(ledger::total().peak, forward_peak + 2 * layer_bytes + kScalar);
  for (const Tensor& g : gradients) EXPECT_TRUE(g);
  // Falls as it walks: each tenth of the walk holds less than the one before.
  const std::size_t tenth = watcher.live.size() / 10;
  ASSERT_GT(tenth, 10u);
  for (std::size_t i = 1; i < 10; ++i)
    EXPECT_LT(watcher.live[i * tenth], watcher.live[(i - 1) * tenth]) << i;
}

TEST(Training, AThousandStepsOfFiftyShapesLeaveNothingBehind) {
  random::seed(1);
  Mlp model(nn::Init(1));
  optim::AdamW adam(params(model));
  std::vector<Example> batches;
  for (int i = 0; i < 50; ++i) batches.push_back(test::examples(1 + (i * 37) % 211, 12, 5, i));
  std::uint64_t live = 0, resident = 0;
  for (int step = 0; step < 1000; ++step) {
    train_step(model, adam, batches[step % 50]);
    if (step == 0) live = ledger::total().live;
    ASSERT_EQ(ledger::total().live, live) << "after step " << step;
    if (step == 200) resident = resident_bytes();
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE(resident_bytes(), resident + (256 << 10));
#endif
}

TEST(Training, BatchNormStatisticsAreUntouchedByAFailedStep) {
  const nn::Init init(1);
  nn::Sequential net(nn::Dense(init / "up", 12, 8), nn::BatchNorm(init / "norm", 8), &relu,
                     nn::Dense(init / "down", 8, 5));
  optim::Sgd sgd(params(net), {.momentum = 0.9});
  const Example batch = test::examples(30, 12, 5, 3);
  const auto before = values(variables(net));
  for (std::uint64_t n = 1;; ++n) {
    const memory::FailTake fail(n);
    bool failed = false;
    try {
      Tape tape;
      sgd.minimize(sparse_cross_entropy(net(batch.x), batch.labels));
    } catch (const OutOfMemory&) {
      failed = true;
    }
    if (!failed) break;
    EXPECT_EQ(values(variables(net)), before) << n;
  }
  EXPECT_NE(values(variables(net)), before);
}

// As above, where the program catches the failure with the tape still open and tries once more.
TEST(Training, AFailureCaughtUnderTheTapeIsDrawnAgain) {
  const Example batch = test::examples(30, 12, 5, 3);
  std::vector<std::vector<float>> expected;
  for (std::uint64_t n = 0; n <= 32; n += 4) {
    random::seed(1);
    Mlp model(nn::Init(1));
    optim::AdamW adam(params(model));
    if (n > 0) {
      Tape tape;
      const memory::FailTake fail(n);
      EXPECT_THROW(adam.minimize(sparse_cross_entropy(model(batch.x), batch.labels)), OutOfMemory)
          << n;
    }
    train_step(model, adam, batch);
    if (n == 0) expected = values(params(model));
    EXPECT_EQ(values(params(model)), expected) << n;
  }
}

TEST(Training, AnExceptionAfterTheStepDoesNotTakeItBack) {
  random::seed(1);
  Mlp model(nn::Init(1));
  optim::AdamW adam(params(model));
  const Example batch = test::examples(30, 12, 5, 3);
  const std::uint64_t step = random::state().step;
  try {
    Tape tape;
    adam.minimize(sparse_cross_entropy(model(batch.x), batch.labels));
    throw Error("the log file is full");
  } catch (const Error&) {
  }
  EXPECT_EQ(random::state().step, step + 1);
}

TEST(Training, ALimitIsAnOutOfMemoryAndTheNextStepGoesOn) {
  random::seed(1);
  Mlp model(nn::Init(1));
  optim::AdamW adam(params(model));
  memory::trim();
  memory::set_limit(memory::held() + (1 << 20));
  EXPECT_THROW(train_step(model, adam, test::examples(20000, 12, 5, 1)), OutOfMemory);
  memory::set_limit(0);
  const auto before = values(params(model));
  train_step(model, adam, test::examples(20, 12, 5, 1));
  EXPECT_NE(values(params(model)), before);
}

}  // namespace
}  // namespace ebb
