// One budget for several compiled functions of a program, and what else the program does in it.
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "ebb/base/budget.hpp"
#include "ebb/data/dataset.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/nn/convnets.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/optim/save.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using test::error_of;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::uint64_t arenas_held() {
  std::uint64_t bytes = 0;
  for (const Holding& h : ledger::holdings(1000))
    if (h.site.starts_with("arena")) bytes += h.bytes;
  return bytes;
}

struct Program {
  nn::Mlp model{nn::Init(1), {256, 512, 512, 10}, {.dropout = 0.1}};
  optim::AdamW adam{params(model), {.lr = 1e-3}};
  Dataset data = [] {
    std::vector<std::int32_t> labels(150);
    for (int i = 0; i < 150; ++i) labels[static_cast<std::size_t>(i)] = i % 10;
    return Dataset::of(
               {{"x", random::normal({150, 256}, 0, 1, 3, 4)}, {"y", Tensor::from(labels, {150})}})
        .shuffle(1)
        .batch(32);
  }();

  Loss loss(const Batch& b) { return sparse_cross_entropy(model(b["x"]), b["y"]); }
  auto train(CompileOptions options) {
    return compile(data.spec(), options, [this](const Batch& b) { return adam.minimize(loss(b)); });
  }
  auto test(CompileOptions options) {
    const nn::Evaluation quiet;
    return compile(data.spec(), options, [this](const Batch& b) { return loss(b); });
  }
};

TEST(OneBudget, FunctionsShareOneArena) {
  Program p;
  auto train = p.train({.memory = 512_MiB});
  auto test = p.test({.memory = 512_MiB});
  for (const Batch& b : p.data.epoch(0)) train(b), test(b);
  EXPECT_EQ(arenas_held(), std::max(train.plan().arena, test.plan().arena));
}

// The one that comes second names a budget for both, and it is accepted whatever ran before.
TEST(OneBudget, TheSmallestIsForAllAndIsAccepted) {
  for (const bool test_first : {false, true}) {
    Program p;
    std::uint64_t least = 0;
    {
      auto first = p.train({});
      auto second = p.test({});
      least = smallest_budget();
      EXPECT_GE(least, first.plan().minimum);
      EXPECT_EQ(least, second.plan().minimum);
      for (const Batch& b : p.data.epoch(0)) first(b), second(b);
    }
    const CompileOptions options{.memory = ByteSize{least}};
    std::optional<Step<Loss>> train, test;
    if (test_first) test = p.test(options);
    train = p.train(options);
    if (!test_first) test = p.test(options);
    for (const Batch& b : p.data.epochs(2)) (*train)(b), (*test)(b);
    EXPECT_LE(memory::held() + runtime::reserve(), least);
  }
}

TEST(OneBudget, AFunctionPlannedAnewKeepsItsMode) {
  const auto losses = [](bool budgeted) {
    random::seed(5);
    Program p;
    CompileOptions options{.allow = Allow::same_bits};
    if (budgeted) {
      {
        auto train = p.train(options);
        auto test = p.test(options);
        options.memory = ByteSize{smallest_budget()};
      }
      random::seed(5);
    }
    auto train = p.train(options);
    const nn::Evaluation quiet;  // while the step for training is planned anew
    auto test = p.test(options);
    std::vector<float> all;
    for (const Batch& b : p.data.epochs(2)) {
      all.push_back(train(b).sum.item<float>());
      all.push_back(test(b).sum.item<float>());
    }
    return all;
  };
  EXPECT_EQ(losses(true), losses(false));
}

// A tensor of the program's that does not fit is an error, and costs nobody what was promised to him.
TEST(OneBudget, ATensorThatDoesNotFitIsRefused) {
  Program p;
  const std::uint64_t least = [&] { return p.train({}).plan().minimum; }();
  auto train = p.train({.memory = ByteSize{least + kMiB}});
  for (const Batch& b : p.data.epoch(0)) train(b);
  const std::string error = error_of([] { (void)Tensor::zeros({8 << 20}); });
  EXPECT_NE(error.find("out of memory"), std::string::npos) << error;
  for (const Batch& b : p.data.epoch(1)) train(b);
  EXPECT_EQ(p.adam.steps(), 10);
}

TEST(OneBudget, ResultsThatAreKeptAreTheProgramsOwn) {
  Program p;
  std::uint64_t least = 0;
  {
    auto train = p.train({});
    auto rows = compile(p.data.spec(), {}, [&](const Batch& b) { return p.model(b["x"]); });
    least = smallest_budget();
  }
  const CompileOptions options{.memory = ByteSize{least}};
  auto train = p.train(options);
  auto rows = compile(p.data.spec(), options, [&](const Batch& b) { return p.model(b["x"]); });
  std::vector<Tensor> kept;
  const std::string error = error_of([&] {
    for (int i = 0; i < 10'000; ++i)
      for (const Batch& b : p.data.epoch(0)) kept.push_back(rows(b));
  });
  EXPECT_NE(error.find("out of memory"), std::string::npos) << error;
  EXPECT_GT(kept.size(), 4u);
  for (const Batch& b : p.data.epoch(0)) train(b);  // has its memory still
  EXPECT_LE(memory::held() + runtime::reserve(), least);
}

// Where something goes wrong beside the plan, it is an error, never an overrun; and nothing is lost.
TEST(OneBudget, EveryFailedTakeLosesNothing) {
  const std::string path = testing::TempDir() + "ebb-one-budget.safetensors";
  int faults = 0;
  const auto run = [&](std::uint64_t nth, std::uint64_t& takes) {
    random::seed(9);
    Program p;
    std::uint64_t least = 0;
    {
      auto train = p.train({});
      auto test = p.test({});
      least = smallest_budget();
    }
    random::seed(9);
    std::vector<float> all;
    std::optional<Step<Loss>> train, test;
    const std::uint64_t before = memory::FailTake::takes();
    {
      const memory::FailTake fault(nth ? nth : ~std::uint64_t{0} >> 1);
      const auto again = [&](auto&& f) {  // what failed is done once more, as if it had not been
        try {
          f();
        } catch (const OutOfMemory&) {
          f();
        }
      };
      const CompileOptions options{.memory = ByteSize{least}, .allow = Allow::same_bits};
      again([&] { train.emplace(p.train(options)); });
      again([&] { test.emplace(p.test(options)); });
      std::vector<Batch> batches;
      for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
        data::Position at{.epoch = epoch};
        for (bool done = false; !done;) {
          again([&] {
            auto walk = p.data.walk(epoch + 1, at);
            while (const Batch* b = walk.next()) {
              all.push_back((*train)(*b).sum.item<float>());
              at = walk.position();
            }
            done = true;
          });
        }
        again([&] { save(path, p.model, p.adam); });
        again([&] { load(path, p.model, p.adam); });
      }
      faults += fault.fired();
    }
    takes = memory::FailTake::takes() - before;
    for (const Variable& v : p.adam.params()) {
      std::vector<float> values(static_cast<std::size_t>(v.spec().size()));
      v.read(std::as_writable_bytes(std::span(values)), 0);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  std::uint64_t takes = 0, ignored = 0;
  const std::vector<float> good = run(0, takes);
  ASSERT_GT(takes, 100u);
  const std::uint64_t step = std::max<std::uint64_t>(1, takes / 40) | 1;  // planning takes thousands
  for (std::uint64_t nth = 1; nth <= takes; nth += step)
    ASSERT_EQ(run(nth, ignored), good) << "take " << nth << " of " << takes;
  EXPECT_GT(faults, 30);
  std::remove(path.c_str());
}

TEST(OneBudget, FunctionsThatRunAtTheSameTimeHaveArenasOfTheirOwn) {
  Program one, other;
  const Budget budget(512_MiB);
  auto a = one.train({.spill = false}), b = other.train({.spill = false});
  const auto train = [](Program& p, Step<Loss>& step) {
    for (const Batch& batch : p.data.epochs(20)) step(batch);
  };
  std::thread beside([&] { train(other, b); });
  train(one, a);
  beside.join();
  EXPECT_EQ(one.adam.steps(), 100);
  EXPECT_EQ(other.adam.steps(), 100);
  EXPECT_LE(arenas_held(), std::max(a.plan().arena, b.plan().arena));
}

TEST(OneBudget, WhereThereIsNoRoomForTwoTheyWait) {
  Program one, other;
  std::uint64_t least = 0;
  {
    auto a = one.train({.spill = false}), b = other.train({.spill = false});
    least = smallest_budget();
  }
  const memory::Room room(kMiB);
  const Budget budget(ByteSize{least + kMiB});
  auto a = one.train({.spill = false}), b = other.train({.spill = false});
  const auto train = [](Program& p, Step<Loss>& step) {
    const Batch batch = p.data.rows(0, 32).all();
    for (int i = 0; i < 100; ++i) step(batch);
  };
  std::thread beside([&] { train(other, b); });
  train(one, a);
  beside.join();
  EXPECT_EQ(one.adam.steps(), 100);
  EXPECT_EQ(other.adam.steps(), 100);
}

TEST(OneBudget, SmallerBatchesTakeWhatWasPromised) {
  Program p;
  const CompileOptions least{.memory = ByteSize{[&] { return p.train({}).plan().minimum; }()},
                             .allow = Allow::same_bits};
  auto train = p.train(least);
  Batch whole = p.data.rows(0, 32).all();
  for (const std::int64_t rows : {32, 31, 22, 7, 2, 1, 32, 5}) {
    std::vector<Tensor> some;
    for (const Tensor& t : whole.values()) some.push_back(t.rows(0, rows));
    EXPECT_NO_THROW(train(Batch(whole.shared_names(), some))) << rows;
  }
  EXPECT_EQ(p.adam.steps(), 8);
}

}  // namespace
}  // namespace ebb
