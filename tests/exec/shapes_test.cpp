// One compiled function for batches of several shapes, and several functions for one model, where
// parameters and optimizer state live in spill files: whoever runs finds what was written last.
#include <gtest/gtest.h>

#include "ebb/exec/compile.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/bytes.hpp"

namespace ebb {
namespace {

constexpr std::int64_t kWidth = 1024;

struct Model {
  nn::Dense first, second, third;
  explicit Model(const nn::Init& init)
      : first(init / "first", kWidth, kWidth),
        second(init / "second", kWidth, kWidth),
        third(init / "third", kWidth, 10) {}
  Tensor operator()(const Tensor& x) const { return third(tanh(second(tanh(first(x))))); }
  void each(auto&& f) {
    f("first", first);
    f("second", second);
    f("third", third);
  }
};

Batch batch(std::int64_t rows, int step) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < rows; ++i) labels.push_back((i * 7 + step) % 10);
  return {{"x", random::normal({rows, kWidth}, 0, 1, 5, static_cast<std::uint64_t>(step))},
          {"y", Tensor::from(labels, {rows})}};
}
BatchSpec spec(std::int64_t rows) {
  return {{"x", {{rows, kWidth}, DType::f32}}, {"y", {{rows}, DType::i64}}};
}

struct Trial {
  Model model{nn::Init(3)};
  optim::AdamW adam{params(model), {.lr = 1e-3}};

  Loss step(const Batch& b) { return adam.minimize(sparse_cross_entropy(model(b["x"]), b["y"])); }
  auto compiled(CompileOptions options) {
    return compile(spec(64), options, [this](const Batch& b) { return step(b); });
  }
  auto evaluation(CompileOptions options) {
    return compile(spec(64), options, [this](const Batch& b) { return model(b["x"]); });
  }
  // The smallest budget, and a little more: what the program holds beside the step varies.
  static CompileOptions tight(auto&& made_with) {
    CompileOptions options{.recompute = false, .split = false};
    options.memory = ByteSize{made_with(options).plan().minimum + (std::uint64_t{1} << 20)};
    return options;
  }
  test::Bytes bytes() {
    std::vector<Variable> all = adam.state();
    for (const Variable& v : params(model)) all.push_back(v);
    return test::bytes(all);
  }
};

using test::Bytes;
void nothing(Trial&, int) {}
// What each step leaves, eager: of a model that is gone when others are planned.
std::vector<Bytes> eager(std::initializer_list<std::int64_t> rows, auto&& after) {
  Trial trial;
  std::vector<Bytes> all;
  int i = 0;
  for (const std::int64_t r : rows) {
    {
      Tape tape;
      trial.step(batch(r, i));
    }
    after(trial, i++);
    all.push_back(trial.bytes());
  }
  return all;
}

TEST(Shapes, PlansThatSpillStateGoOnFromEachOther) {
  const std::initializer_list<std::int64_t> shapes = {64, 40, 40, 64, 64, 40, 64};
  const std::vector<Bytes> expected = eager(shapes, nothing);
  Trial trial;
  auto step = trial.compiled(Trial::tight([&](auto o) { return trial.compiled(o); }));
  ASSERT_TRUE(step.plan().chosen.state_spilled) << step.plan();
  int i = 0;
  for (const std::int64_t rows : shapes) {
    step(batch(rows, i));
    EXPECT_EQ(trial.bytes(), expected[i]) << "step " << i << " of " << rows << " rows";
    ++i;
  }
}

TEST(Shapes, WhatTheProgramAssignsIsFoundByAllOfThem) {
  const auto assign = [](Trial& t, int i) {
    t.model.first.weight.assign(random::normal({kWidth, kWidth}, 0, 0.1, 9, i));
  };
  const std::initializer_list<std::int64_t> shapes = {64, 40, 64, 40};
  const std::vector<Bytes> expected = eager(shapes, assign);
  Trial trial;
  CompileOptions options = Trial::tight([&](auto o) { return trial.compiled(o); });
  const std::uint64_t more = 2 * trial.model.first.weight.charge();  // what is assigned waits there
  const memory::Room room(more);
  options.memory.bytes += more;
  auto step = trial.compiled(options);
  ASSERT_TRUE(step.plan().chosen.state_spilled);
  int i = 0;
  for (const std::int64_t rows : shapes) {
    step(batch(rows, i));
    assign(trial, i++);
  }
  EXPECT_EQ(trial.bytes(), expected.back());
}

TEST(Shapes, AModelThatIsInTheFileCanBeEvaluatedAsSmall) {
  std::vector<std::vector<float>> logits;
  const std::vector<Bytes> expected = eager({64, 64, 64}, [&](Trial& t, int) {
    logits.push_back(t.model(batch(64, 100)["x"]).to_vector<float>());
  });
  Trial trial;
  CompileOptions both{.recompute = false, .split = false};
  {
    auto step = trial.compiled(both);
    auto evaluate = trial.evaluation(both);
    both.memory = ByteSize{smallest_budget() + (std::uint64_t{1} << 20)};
  }
  // In the one budget that does for both: the step is planned anew where the evaluation asks for it.
  auto step = trial.compiled(both);
  auto evaluate = trial.evaluation(both);
  ASSERT_TRUE(step.plan().chosen.state_spilled) << step.plan();
  for (int i = 0; i < 3; ++i) {
    step(batch(64, i));
    EXPECT_EQ(evaluate(batch(64, 100)).to_vector<float>(), logits[i]);
    EXPECT_EQ(trial.bytes(), expected[i]);
  }
}

// A larger batch than the one it was compiled for counts with its own bytes.
TEST(Shapes, ALargerInputIsCounted) {
  Trial trial;
  CompileOptions options{.recompute = false, .split = false, .spill = false};
  options.memory = ByteSize{std::uint64_t{1} << 30};
  auto step = trial.compiled(options);
  const std::uint64_t small = step.plan().forecast.at_peak[static_cast<int>(Category::data)];
  step(batch(64, 0));
  step(batch(4096, 1));
  const std::uint64_t large = step.plan().forecast.at_peak[static_cast<int>(Category::data)];
  EXPECT_GE(large, small + (4096 - 64) * kWidth * sizeof(float));
}

TEST(Shapes, CallsAreTimedAndTheirLiveBytesAreThePlans) {
  Trial trial;
  auto step = trial.compiled({});
  EXPECT_TRUE(step.executor().times().empty());
  for (int i = 0; i < 3; ++i) step(batch(64, i));
  const std::vector<exec::CallTime> times = step.executor().times();
  ASSERT_FALSE(times.empty());
  std::uint64_t most = 0;
  for (const exec::CallTime& t : times) {
    EXPECT_GE(t.seconds, 0);
    EXPECT_GE(t.runs, 1u) << t.op;
    EXPECT_GT(t.live_bytes, 0u) << t.op;
    most = std::max(most, t.live_bytes);
  }
  EXPECT_EQ(most, step.plan().programs[0].schedule.load);
}

}  // namespace
}  // namespace ebb
