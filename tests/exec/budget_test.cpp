// One budget for several compiled functions of a program, and what else the program does in it.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>

#include "ebb/base/memory/budget.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/data/dataset.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/nn/convnets.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/optim/save.hpp"
#include "tests/error_of.hpp"
#include "tests/exec/budget_program.hpp"
#include "tests/temp_path.hpp"

namespace ebb {
namespace {

using test::error_of;
using test::Program;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

Loss square_loss(const Tensor& y) { return mse(y, y * 0.5f); }

std::uint64_t arenas_held() {
  std::uint64_t bytes = 0;
  for (const Holding& h : ledger::holdings(1000))
    if (h.site.starts_with("arena")) bytes += h.bytes;
  return bytes;
}

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

// Where something goes wrong beside the plan, it is an error, never an overrun; and nothing is lost. Some 40 of
// the takes fail in turn; EBB_WHOLE=1 fails every one.
TEST(OneBudget, EveryFailedTakeLosesNothing) {
  const std::string path = test::temp_path("one-budget.safetensors");
  std::uint64_t faults = 0;
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
        for (std::int64_t first = 0; first < p.data.size(); first += 32)
          again([&] {
            const Batch held_out = p.data.rows(first, std::min(first + 32, p.data.size())).all();
            all.push_back((*test)(held_out).sum.item<float>());
          });
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
  const std::uint64_t step =
      std::getenv("EBB_WHOLE") ? 1 : std::max<std::uint64_t>(1, takes / 40) | 1;
  if (step == 1) std::printf("%llu takes\n", static_cast<unsigned long long>(takes));
  std::uint64_t failed = 0;
  for (std::uint64_t nth = 1; nth <= takes; nth += step, ++failed)
    ASSERT_EQ(run(nth, ignored), good) << "take " << nth << " of " << takes;
  EXPECT_EQ(faults, failed);
  std::remove(path.c_str());
}

std::vector<float> weights_of(const Program& p) {
  std::vector<float> all;
  for (const Variable& v : p.adam.params())
    for (const float w : v.value().to_vector<float>()) all.push_back(w);
  return all;
}

// Two programs that train on a thread each. A step asks for its rate when it has its memory: there they meet.
struct TwoAtOnce {
  static constexpr int kSteps = 100;
  Program one, other;
  const CompileOptions options{.allow = Allow::same_bits, .spill = false};
  const Batch batch = one.data.rows(0, 32).all();
  const std::vector<float> alone = [this] {
    Program p;
    auto step = p.train(options);
    for (int i = 0; i < kSteps; ++i) step(batch);
    return weights_of(p);
  }();

  void meet(std::function<void(bool first)> at_each_step) {
    one.adam.set_schedule([=](std::int64_t) { return at_each_step(true), 1e-3; });
    other.adam.set_schedule([=](std::int64_t) { return at_each_step(false), 1e-3; });
  }
  // One after the other: optimizers take their state.
  void first(Step<Loss>& a, Step<Loss>& b) { a(batch), b(batch); }
  // The others; each has then the weights of one that was alone.
  void run(Step<Loss>& a, Step<Loss>& b) {
    std::thread beside([&] {
      for (int i = 1; i < kSteps; ++i) b(batch);
    });
    for (int i = 1; i < kSteps; ++i) a(batch);
    beside.join();
    EXPECT_EQ(weights_of(one), alone);
    EXPECT_EQ(weights_of(other), alone);
  }
};

TEST(OneBudget, FunctionsThatRunAtTheSameTimeHaveArenasOfTheirOwn) {
  const nn::Evaluation quiet;  // no dropout: draws go on with the steps of all threads
  TwoAtOnce two;
  const Budget budget(512_MiB);
  auto a = two.one.train(two.options), b = two.other.train(two.options);
  const std::uint64_t one = a.plan().arena, other = b.plan().arena;
  two.first(a, b);
  std::barrier both(2);
  two.meet([&](bool first) {
    both.arrive_and_wait();
    if (first) {
      EXPECT_EQ(arenas_held(), one + other);
    }
    both.arrive_and_wait();
  });
  two.run(a, b);
  EXPECT_LE(arenas_held(), std::max(one, other));
}

TEST(OneBudget, WhereThereIsNoRoomForTwoTheyWait) {
  const nn::Evaluation quiet;
  TwoAtOnce two;
  std::uint64_t least = 0;
  {
    auto a = two.one.train(two.options), b = two.other.train(two.options);
    least = smallest_budget();
  }
  const Budget budget(ByteSize{least});
  auto a = two.one.train(two.options), b = two.other.train(two.options);
  const std::uint64_t one = a.plan().arena, other = b.plan().arena;
  two.first(a, b);
  std::vector<Tensor> rest;  // what nobody was promised, so that it is no second arena
  const auto takes = [&] { rest.push_back(Tensor::zeros({1 << 12})); };
  while (error_of(takes) == "no error") continue;
  std::atomic<int> inside = 0, together = 0;
  two.meet([&](bool first) {
    EXPECT_EQ(arenas_held(), first ? one : other);
    together += ++inside > 1;
    std::this_thread::yield();
    --inside;
  });
  two.run(a, b);
  EXPECT_EQ(together, 0);
}

// Also a result is waited for: a large one, while two others have their arenas.
TEST(OneBudget, ResultsAreWaitedFor) {
  Program one, other;
  const Tensor wide = random::normal({256, 2048}, 0, 1, 5, 6);
  const auto predict = [&](CompileOptions options) {
    return compile(one.data.spec(), options, [&](const Batch& b) { return matmul(b["x"], wide); });
  };
  std::uint64_t least = 0;
  {
    auto a = one.train({.spill = false}), b = other.train({.spill = false});
    auto c = predict({.spill = false});
    least = smallest_budget();
  }
  const memory::Room room(kMiB);
  const Budget budget(ByteSize{least + kMiB});
  auto a = one.train({.spill = false}), b = other.train({.spill = false});
  auto c = predict({.spill = false});
  const Batch x = one.data.rows(0, 32).all(), y = other.data.rows(0, 32).all();
  const Batch fewer = one.data.rows(0, 7).all();
  {
    std::jthread first([&] {
      for (int i = 0; i < 150; ++i) a(x);
    });
    std::jthread second([&] {
      for (int i = 0; i < 150; ++i) b(y);
    });
    for (int i = 0; i < 150; ++i) EXPECT_NO_THROW(c(i % 2 ? x : fewer)) << i;
  }
  EXPECT_EQ(one.adam.steps(), 150);
  EXPECT_EQ(other.adam.steps(), 150);
}

// Others are compiled, meet new shapes and go while steps run on another thread; under a budget so that
// all are planned anew each time.
TEST(OneBudget, PlanningWaitsForStepsAndStepsForPlanning) {
  const nn::Evaluation quiet;  // no dropout: draws go on with the steps of all threads
  const auto train = [](Program& p, Step<Loss>& step, int steps) {
    const Batch whole = p.data.rows(0, 32).all();
    for (int i = 0; i < steps; ++i) step(whole);
    return p.adam.params()[0].value().to_vector<float>();
  };
  std::vector<float> alone;
  {
    random::seed(3);
    Program p;
    auto step = p.train({.allow = Allow::same_bits});
    alone = train(p, step, 150);
  }
  random::seed(3);
  Program one, other;
  std::uint64_t least = 0;
  {
    auto a = one.train({}), b = other.train({}), c = other.test({});
    least = smallest_budget();
  }
  const Budget budget(ByteSize{least + kMiB / 2});
  auto step = one.train({.allow = Allow::same_bits});
  std::vector<float> beside;
  std::jthread runs([&] { beside = train(one, step, 150); });
  for (int i = 0; i < 4; ++i) {
    auto test = other.test({});
    const Batch batch = other.data.rows(0, 32).all();
    for (const std::int64_t rows : {32, 9, 17}) {
      std::vector<Tensor> some;
      for (const Tensor& t : batch.values()) some.push_back(t.rows(0, rows));
      test(Batch(batch.shared_names(), some));
    }
    auto second = other.train({});
    second(batch);
  }
  runs.join();
  EXPECT_EQ(beside, alone);
}

TEST(OneBudget, APlanThatIsLookedAtStays) {
  Program p;
  std::uint64_t least = 0;
  {
    auto train = p.train({});
    auto test = p.test({});
    least = smallest_budget();
  }
  const Budget budget(ByteSize{least});
  auto train = p.train({});
  const plan::Plan& plan = train.plan();
  const std::string before = to_string(plan);
  auto test = p.test({});  // for which the other makes room
  EXPECT_EQ(to_string(plan), before);
  EXPECT_FALSE(train.plan().programs.empty());
}

// What a second function's refusal names is for both, is accepted, and a byte less is not.
TEST(OneBudget, ARefusalNamesTheSmallestForAll) {
  for (const bool test_first : {false, true}) {
    Program p;
    std::uint64_t least = 0, first = 0;
    {
      std::optional<Step<Loss>> a, b;
      a = test_first ? p.test({}) : p.train({});
      first = smallest_budget();
      b = test_first ? p.train({}) : p.test({});
      least = smallest_budget();
    }
    const auto both = [&](std::uint64_t bytes) -> std::uint64_t {
      try {
        const CompileOptions options{.memory = ByteSize{bytes}};
        auto a = test_first ? p.test(options) : p.train(options);
        auto b = test_first ? p.train(options) : p.test(options);
        return 0;
      } catch (const BudgetTooSmall& e) {
        return e.minimum;
      }
    };
    EXPECT_EQ(both(least), 0u);
    EXPECT_EQ(both(least - 1), least);
    EXPECT_LT(first, least);
    EXPECT_EQ(both(first), least);
  }
}

// Also where the functions hold constants, which a plan that is refused never gets to.
TEST(OneBudget, ARefusalCountsConstants) {
  Program p;
  const auto shifted = [&](const Batch& b, float by) {
    const Tensor some = Tensor::full({256}, by), more = Tensor::full({32, 1}, by);
    const Tensor x = (b["x"] + some) * more.rows(0, b.rows());
    return sparse_cross_entropy(p.model(x), b["y"]);
  };
  const auto train = [&](CompileOptions options) {
    options.split = false;
    return compile(p.data.spec(), options,
                   [&](const Batch& b) { return p.adam.minimize(shifted(b, 0.5f)); });
  };
  const auto test = [&](CompileOptions options) {
    options.split = false;
    return compile(p.data.spec(), options, [&](const Batch& b) { return shifted(b, 0.25f); });
  };
  std::uint64_t named = 0;
  try {
    const CompileOptions options{.memory = ByteSize{runtime::reserve() + kMiB}};
    auto a = test(options);
    auto b = train(options);
  } catch (const BudgetTooSmall& e) {
    named = e.minimum;
  }
  for (int i = 0; i < 2; ++i) {  // once for one, once for both
    try {
      const CompileOptions options{.memory = ByteSize{named}};
      auto a = test(options);
      auto b = train(options);
      break;
    } catch (const BudgetTooSmall& e) {
      EXPECT_EQ(i, 0) << named << ", then " << e.minimum;
      named = e.minimum;
    }
  }
}

// A shape that is neither smaller nor larger than another, and back again.
TEST(OneBudget, ShapesInTurnOfOneFunction) {
  nn::Dense dense(nn::Init(1), 64, 256);
  optim::Adam adam(params(dense));
  const auto spec = [](std::int64_t rows, std::int64_t length) {
    return Spec{{rows, length, 64}, DType::f32};
  };
  const auto fn = [&](const Batch& b) { return adam.minimize(square_loss(dense(b["x"]))); };
  const auto batch = [&](std::int64_t rows, std::int64_t length) {
    return Batch{{"x", Tensor::zeros(spec(rows, length).shape)}};
  };
  std::uint64_t least = 0;
  for (const auto& [rows, length] : {std::pair{64, 8}, {8, 64}, {16, 16}}) {
    auto step = compile(BatchSpec{{"x", spec(rows, length)}}, {}, fn);
    least = std::max(least, step.plan().minimum);
  }
  for (const std::uint64_t more : {std::uint64_t{0}, 64 * kMiB / 1024, kMiB, 3 * kMiB}) {
    auto step =
        compile(BatchSpec{{"x", spec(64, 8)}}, {.memory = ByteSize{least + kMiB / 2 + more}}, fn);
    for (int i = 0; i < 3; ++i)
      for (const auto& [rows, length] : {std::pair{64, 8}, {8, 64}, {16, 16}, {64, 8}, {3, 64}})
        EXPECT_NO_THROW(step(batch(rows, length))) << rows << " x " << length << ", " << more;
  }
}

// What the program holds beside tensors is in the way while it is there, and the refusal says so.
TEST(OneBudget, AVectorThatIsGoneIsNoLongerInTheWay) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "what a sanitizer holds beside the program is not measured";
#endif
  nn::Dense dense(nn::Init(1), 64, 256);
  optim::Adam adam(params(dense));
  const auto fn = [&](const Batch& b) { return adam.minimize(square_loss(dense(b["x"]))); };
  const BatchSpec small{{"x", {{8, 64}, DType::f32}}}, large{{"x", {{64, 64}, DType::f32}}};
  const std::uint64_t least = [&] { return compile(large, {}, fn).plan().minimum; }();
  auto step = compile(small, {.memory = ByteSize{least + 4 * kMiB}}, fn);
  const Batch first{{"x", Tensor::zeros({8, 64})}};
  step(first);
  const Batch batch{{"x", Tensor::zeros({64, 64})}};
  {
    const std::vector<char> mine(20 << 20, 1);
    const std::string error = error_of([&] { step(batch); });
    EXPECT_NE(error.find("too small"), std::string::npos) << error;
    EXPECT_NE(error.find("beside Ebb's tensors"), std::string::npos) << error;
    EXPECT_EQ(mine[7], 1);
  }
  EXPECT_NO_THROW(step(batch));
  EXPECT_NO_THROW(step(first));
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
