// Steps of optimizers in a compiled function: several of them, with gradients that somebody walked
// back to, and with losses that are no numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string_view>

#include "ebb/exec/compile.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/dropout.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/stop_gradient.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/accumulator.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

constexpr std::int64_t kRows = 24, kNoise = 6, kData = 40;
using All = std::vector<std::vector<float>>;

All values(const std::vector<Variable>& all) {
  All out;
  for (const Variable& v : all)
    if (v.spec().dtype == DType::f32) out.push_back(v.value().to_vector<float>());
  return out;
}

struct Two {
  nn::Dense up, down;
  Two(const nn::Init& init, std::int64_t in, std::int64_t out, std::int64_t width = 64)
      : up(init / "up", in, width, {.activation = Activation::gelu}),
        down(init / "down", width, out) {}
  Tensor operator()(const Tensor& x) const { return down(dropout(up(x), 0.1)); }
  void each(auto&& f) {
    f("up", up);
    f("down", down);
  }
};

struct Gan {
  Two make, judge;
  optim::Adam makes{params(make)}, judges{params(judge)};
  int rounds;  // of the judge
  explicit Gan(int rounds = 1, std::int64_t width = 64)
      : make(nn::Init(1) / "make", kNoise, kData, width),
        judge(nn::Init(2) / "judge", kData, 1, width),
        rounds(rounds) {}

  std::vector<Loss> step(const Batch& b) {
    const Tensor ones = Tensor::ones({b["x"].dim(0), 1}), zeros = ones * 0.0f;
    std::vector<Loss> losses;
    for (int i = 0; i < rounds; ++i) {
      Tape tape;
      const Tensor made = stop_gradient(make(b["z"]));
      losses.push_back(judges.minimize(binary_cross_entropy(judge(b["x"]), ones) +
                                       binary_cross_entropy(judge(made), zeros)));
    }
    Tape tape;
    losses.push_back(makes.minimize(binary_cross_entropy(judge(make(b["z"])), ones)));
    return losses;
  }
  // Of the bytes of everything, as a copy of them would be counted where budgets are small.
  std::vector<std::size_t> kept() {
    std::vector<std::size_t> all;
    for (const auto& some : {params(make), params(judge), makes.state(), judges.state()})
      for (const Variable& v : some)
        all.push_back(std::hash<std::string_view>()(
            {reinterpret_cast<const char*>(v.value().raw()), v.spec().bytes()}));
    return all;
  }
};

Batch batch(std::uint64_t i) {
  return {{"x", random::normal({kRows, kData}, 0, 1, i, 1)},
          {"z", random::normal({kRows, kNoise}, 0, 1, i, 2)}};
}

struct Told {
  std::vector<std::size_t> kept;
  std::vector<double> losses;
};

Told train(int rounds, std::int64_t width, const CompileOptions* options,
           plan::Plan* plan = nullptr) {
  random::seed(7);
  Gan gan(rounds, width);
  Told out;
  const auto fn = [&](const Batch& b) { return gan.step(b); };
  const auto tell = [&](const std::vector<Loss>& losses) {
    for (const Loss& l : losses) out.losses.push_back(l.item());
  };
  if (options) {
    const Batch first = batch(0);
    auto step = compile({{"x", first["x"].spec()}, {"z", first["z"].spec()}}, *options, fn);
    for (std::uint64_t i = 0; i < 5; ++i) tell(step(batch(i)));
    if (plan) *plan = step.plan();
  } else {
    for (std::uint64_t i = 0; i < 5; ++i) tell(fn(batch(i)));
  }
  EXPECT_EQ(gan.judges.steps(), 5 * rounds);
  EXPECT_EQ(gan.makes.steps(), 5);
  out.kept = gan.kept();
  return out;
}

void same_bits_as_eager(int rounds, std::int64_t width, bool spills) {
  const Told eager = train(rounds, width, nullptr);
  CompileOptions options;
  plan::Plan plan;
  const Told free = train(rounds, width, &options, &plan);
  EXPECT_EQ(free.losses, eager.losses);
  EXPECT_EQ(free.kept, eager.kept);
  EXPECT_FALSE(plan.split());
  plan = {};  // it holds variables
  options.memory = ByteSize{1};
  Told small;
  for (int tries = 0; tries < 5 && small.kept.empty(); ++tries) {
    try {
      small = train(rounds, width, &options, &plan);
    } catch (const BudgetTooSmall& e) {  // what is set aside for the process may have grown
      options.memory = ByteSize{e.minimum};
    }
  }
  EXPECT_EQ(small.losses, eager.losses);
  EXPECT_EQ(small.kept, eager.kept) << "at the smallest budget";
  EXPECT_EQ(plan.chosen.written > 0, spills);
  EXPECT_TRUE(spills || plan.chosen.recomputed > 0);
}

TEST(Steps, OfTwoOptimizersHaveTheBitsOfEager) { same_bits_as_eager(1, 64, false); }
TEST(Steps, OfOneOptimizerTwiceHaveTheBitsOfEager) { same_bits_as_eager(2, 64, false); }
TEST(Steps, OfTwoOptimizersSpillTheirState) { same_bits_as_eager(1, 6000, true); }

// Groups, a schedule, and an optimizer that moves after it was compiled: each turn has its own rate.
TEST(Steps, OfAnOptimizerThatMovedGoOn) {
  const auto train = [](bool eager) {
    random::seed(7);
    Two model(nn::Init(4), kData, 5);
    const optim::Groups groups = {{"*.bias", {.lr_scale = 3, .weight_decay = 0}}};
    std::optional<optim::AdamW> adam(std::in_place, params(model),
                                     optim::AdamWOptions{.groups = groups});
    adam->set_schedule([](std::int64_t step) { return 0.01 / static_cast<double>(1 + step); });
    optim::AdamW* now = &*adam;
    const auto fn = [&](const Batch& in) {
      std::vector<Loss> losses;
      for (int turn = 0; turn < 2; ++turn) {
        Tape tape;
        const Tensor y = model(in["x"]);
        losses.push_back(now->minimize(loss_of(y * y)));
      }
      return losses;
    };
    const Batch b = batch(1);
    std::optional<Step<std::vector<Loss>>> step;
    if (!eager) step.emplace(compile({{"x", b["x"].spec()}, {"z", b["z"].spec()}}, {}, fn));
    All out;
    const auto once = [&] {
      for (const Loss& l : eager ? fn(b) : (*step)(b))
        out.push_back({static_cast<float>(l.item())});
    };
    once();
    optim::AdamW moved = std::move(*adam);
    adam.reset();
    now = &moved;
    once();
    EXPECT_EQ(moved.steps(), 4);
    for (const auto& v : values(moved.params())) out.push_back(v);
    return out;
  };
  EXPECT_EQ(train(false), train(true));
}

TEST(Steps, PartsAreRefusedWhereOneNeedsTheOther) {
  Gan gan;
  const Batch b = batch(0);
  const std::string said = test::error_of([&] {
    compile({{"x", b["x"].spec()}, {"z", b["z"].spec()}}, {.micro_batch = 5},
            [&](const Batch& in) { return gan.step(in); });
  });
  EXPECT_NE(said.find("the optimizer's step"), std::string::npos) << said;
}

// Two losses of one batch that have nothing to do with each other.
TEST(Steps, PartsOfTwoThatDoNot) {
  const auto train = [](std::int64_t rows) {
    nn::Dense a(nn::Init(1) / "a", kData, 3), c(nn::Init(1) / "c", kNoise, 2);
    optim::Adam of_a(params(a)), of_c(params(c));
    const Batch b = batch(3);
    auto step = compile(
        {{"x", b["x"].spec()}, {"z", b["z"].spec()}},
        {.allow = Allow::same_bits, .split = rows > 0, .micro_batch = rows}, [&](const Batch& in) {
          const Tensor x = a(in["x"]), z = c(in["z"]);
          return std::vector{of_a.minimize(loss_of(x * x)), of_c.minimize(loss_of(exp(z)))};
        });
    EXPECT_EQ(step.plan().split(), rows > 0);
    All out;
    for (int i = 0; i < 3; ++i)
      for (const Loss& l : step(b)) out.push_back({static_cast<float>(l.sum.item())});
    for (const All& more : {values(params(a)), values(params(c))})
      out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  const All whole = train(0);
  for (const std::int64_t rows : {1, 5, 23}) EXPECT_EQ(train(rows), whole) << rows;
}

// Gradients by hand, and those that an accumulator gathers.
All by_hand(bool eager, bool gather, std::int64_t rows = 0) {
  Two model(nn::Init(4), kData, 5);
  optim::AdamW adam(params(model));
  const Batch b = batch(1);
  const auto fn = [&](const Batch& in) {
    Tape tape;
    const Tensor y = model.down(model.up(in["x"]));
    const Loss loss = loss_of(y * y);
    if (gather) {
      Accumulator gathered(adam);
      gathered.add(tape, loss);
      adam.step(gathered);
    } else {
      adam.step(tape.gradient(loss, adam.params()), static_cast<double>(y.size()));
    }
    return loss;
  };
  All out;
  const auto tell = [&](const Loss& l) { out.push_back({static_cast<float>(l.item())}); };
  if (eager) {
    for (int i = 0; i < 4; ++i) tell(fn(b));
  } else {
    auto step = compile({{"x", b["x"].spec()}, {"z", b["z"].spec()}}, {.micro_batch = rows}, fn);
    for (int i = 0; i < 4; ++i) tell(step(b));
  }
  EXPECT_EQ(adam.steps(), 4);
  for (const auto& v : values(params(model))) out.push_back(v);
  return out;
}

TEST(Steps, WithGradientsThatWereGivenHaveTheBitsOfEager) {
  for (const bool gather : {false, true}) {
    const All eager = by_hand(true, gather);
    EXPECT_EQ(by_hand(false, gather), eager) << gather;
    const All parts = by_hand(false, gather, 7);
    ASSERT_EQ(parts.size(), eager.size());
    for (std::size_t i = 0; i < parts.size(); ++i)
      for (std::size_t k = 0; k < parts[i].size(); ++k)
        EXPECT_NEAR(parts[i][k], eager[i][k], 1e-3 * (1 + std::abs(eager[i][k])));
  }
}

// ---- losses that are no numbers ----

struct Bad {
  nn::Dense dense{nn::Init(1), kData, 2};
  optim::Adam adam{params(dense)};
  Batch good = batch(1), bad = batch(2);
  explicit Bad(float value) {
    std::vector<float> x = bad["x"].to_vector<float>();
    x[5] = value;
    bad = {{"x", Tensor::from(x, {kRows, kData})}, {"z", good["z"]}};
  }
  BatchSpec spec() const { return {{"x", good["x"].spec()}, {"z", good["z"].spec()}}; }
  Loss minimize(const Batch& b) {
    const Tensor y = dense(b["x"]);
    return adam.minimize(loss_of(y * y));
  }
  All kept() const {
    All all = values(adam.params());
    for (const auto& v : values(adam.state())) all.push_back(v);
    return all;
  }
};

using Minimize = std::function<Loss(const Batch&)>;

void check_stop(Bad& task, const Minimize& step) {
  step(task.good);
  const All before = task.kept();
  const std::string said = test::error_of([&] { step(task.bad); });
  EXPECT_NE(said.find("the loss of step 2 is"), std::string::npos) << said;
  EXPECT_EQ(task.kept(), before);
  EXPECT_EQ(task.adam.steps(), 1);
  step(task.good);
  EXPECT_EQ(task.adam.steps(), 2);
}

void check_skip(Bad& task, const Minimize& step) {
  step(task.good);
  const All before = task.kept();
  EXPECT_FALSE(std::isfinite(step(task.bad).item()));
  EXPECT_EQ(task.kept(), before);
  EXPECT_EQ(task.adam.steps(), 1);
  EXPECT_EQ(task.adam.skipped(), 1);
  step(task.good);
  EXPECT_EQ(task.adam.steps(), 2);
  EXPECT_EQ(task.adam.skipped(), 1);
}

void check_allow(Bad& task, const Minimize& step) {
  step(task.bad);
  EXPECT_EQ(task.adam.steps(), 1);
  EXPECT_TRUE(std::isnan(values(task.adam.params())[0][0]) ||
              std::isnan(values(task.adam.params())[1][0]));
}

TEST(BadLoss, Eager) {
  for (const float value : {NAN, INFINITY}) {
    const auto step_of = [](Bad& task) {
      return [&task](const Batch& b) {
        Tape tape;
        return task.minimize(b);
      };
    };
    Bad stop(value), skip(value), allow(value);
    skip.adam.on_bad_loss(BadLoss::skip);
    allow.adam.on_bad_loss(BadLoss::allow);
    check_stop(stop, step_of(stop));
    check_skip(skip, step_of(skip));
    check_allow(allow, step_of(allow));
  }
}

TEST(BadLoss, CompiledWholeAndInParts) {
  for (const float value : {NAN, INFINITY})
    for (const std::int64_t rows : {0, 7}) {
      const auto step_of = [rows](Bad& task, std::optional<BadLoss> bad) {
        auto step = std::make_shared<Step<Loss>>(
            compile(task.spec(), {.micro_batch = rows, .bad_loss = bad},
                    [&task](const Batch& b) { return task.minimize(b); }));
        return [step](const Batch& b) { return (*step)(b); };
      };
      Bad stop(value), skip(value), allow(value);
      check_stop(stop, step_of(stop, {}));
      check_skip(skip, step_of(skip, BadLoss::skip));
      check_allow(allow, step_of(allow, BadLoss::allow));
    }
}

// A step that was skipped says nothing of those that other functions take.
TEST(BadLoss, OfOneFunctionIsNotAnothers) {
  Bad task(NAN);
  const auto fn = [&](const Batch& b) { return task.minimize(b); };
  auto plain = compile(task.spec(), {}, fn);
  auto skips = compile(task.spec(), {.bad_loss = BadLoss::skip}, fn);
  skips(task.bad);
  plain(task.good);
  {
    Tape tape;
    fn(task.good);
  }
  EXPECT_EQ(task.adam.steps(), 2);
  EXPECT_EQ(task.adam.skipped(), 1);
  skips(task.good);
  EXPECT_EQ(task.adam.steps(), 3);
}

TEST(Steps, TwoOfOneOptimizerThatMaySkipAreRefused) {
  Gan gan(2);
  const Batch b = batch(0);
  const std::string said = test::error_of([&] {
    compile({{"x", b["x"].spec()}, {"z", b["z"].spec()}}, {.bad_loss = BadLoss::skip},
            [&](const Batch& in) { return gan.step(in); });
  });
  EXPECT_NE(said.find("two steps in a compiled function"), std::string::npos) << said;
}

// ---- what a Loss is ----

TEST(OwnLoss, AddsScalesAndSaysItsMean) {
  const Tensor x = Tensor::of({1, 2, 3, 6});
  const Loss a = loss_of(x), b = mse(x, x * 0.0f);
  EXPECT_EQ(a.item(), 3);
  EXPECT_EQ((a + b).item(), 3 + 12.5);
  EXPECT_EQ((0.5 * a * 4).item(), 6);
  std::ostringstream text;
  text << a;
  EXPECT_EQ(text.str(), "3 (a sum of 12 over 4)");
  EXPECT_EQ(
      test::error_of([&] {
        a + loss_of(Tensor::of({1, 2}));
      }),
      "loss + loss: they are over 4 and 2, so that no sum and count has the sum of their means; "
      "add losses of one count");
}

TEST(OwnLoss, IsCheckedWhereItIsUsed) {
  Variable w("w", Tensor::of({1, 2}));
  optim::Sgd sgd({w});
  const auto said = [&](const Loss& loss) { return test::error_of([&] { sgd.minimize(loss); }); };
  const Tensor one = Tensor::scalar(1, DType::i64);
  EXPECT_EQ(said({w.value(), one}),
            "sgd: the loss's sum is f32(2), expected a floating scalar; sum() it up, or take "
            "loss_of()");
  EXPECT_EQ(said({one, one}),
            "sgd: the loss's sum is i64(), expected a floating scalar; sum() it up, or take "
            "loss_of()");
  EXPECT_EQ(said({sum(w.value()), Tensor::scalar(1)}),
            "sgd: the loss's count is f32(), expected i64(), such as Tensor::scalar(rows, "
            "DType::i64)");
  EXPECT_EQ(said({}), "sgd: the loss has no sum; give it a sum and a count");
}

}  // namespace
}  // namespace ebb
