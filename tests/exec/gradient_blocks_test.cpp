// Gradients of large parameters that are made row by row in their updates: the bits of eager steps
// and of a step without a budget, in less memory than the gradient needs, and no mixture where the
// file fails.
#include <gtest/gtest.h>

#include <optional>

#include "ebb/base/files/file_faults.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/linear_cross_entropy.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/bytes.hpp"
#include "tests/exec/failed_transfers.hpp"

namespace ebb {
namespace {

constexpr std::int64_t kTokens = 48;
const Spec kIds{{kTokens}, DType::i64};

// Embedding and head, one table or two, around a layer.
struct Language {
  static constexpr std::int64_t kWidth = 256;
  std::int64_t vocabulary;
  bool tied;
  DType states = DType::f32;  // of what the loss takes
  nn::Embedding table;
  nn::Dense middle, head;
  Language(const nn::Init& init, bool tied, std::int64_t vocabulary)
      : vocabulary(vocabulary),
        tied(tied),
        table(init / "table", vocabulary, kWidth),
        middle(init / "middle", kWidth, kWidth),
        head(init / "head", kWidth, tied ? 1 : vocabulary, {.bias = false}) {}
  Loss operator()(const Batch& b) const {
    const Tensor x = cast(tanh(middle(table(b["a"]))), states);
    return linear_cross_entropy(x, tied ? table.weight : head.weight, b["b"]);
  }
  void each(auto&& f) {
    f("table", table);
    f("middle", middle);
    if (!tied) f("head", head);
  }
  BatchSpec spec() const { return {{"a", kIds}, {"b", kIds}}; }
  Batch batch(int step) const {
    std::vector<std::int64_t> ids, labels;
    for (int i = 0; i < kTokens; ++i) {
      ids.push_back((i * i * 31 + step * 7) % vocabulary);
      labels.push_back(i == 5 ? -100 : (i * 173 + step) % vocabulary);
    }
    return {{"a", Tensor::from(ids, {kTokens})}, {"b", Tensor::from(labels, {kTokens})}};
  }
};
struct Tied : Language {
  explicit Tied(const nn::Init& init) : Language(init, true, 1009) {}
};
struct Untied : Language {
  explicit Untied(const nn::Init& init) : Language(init, false, 1009) {}
};
struct UntiedHalf : Untied {
  explicit UntiedHalf(const nn::Init& init) : Untied(init) { states = DType::bf16; }
};
struct LargeTied : Language {  // state in the file, several pieces of it
  explicit LargeTied(const nn::Init& init) : Language(init, true, 10007) {}
};

struct WideMlp {  // most of it in the first layer
  nn::Dense first, second;
  explicit WideMlp(const nn::Init& init)
      : first(init / "first", 3000, 100), second(init / "second", 100, 10) {}
  Loss operator()(const Batch& b) const { return mse(second(tanh(first(b["a"]))), b["b"]); }
  void each(auto&& f) {
    f("first", first);
    f("second", second);
  }
  BatchSpec spec() const {
    return {{"a", {{16, 3000}, DType::f32}}, {"b", {{16, 10}, DType::f32}}};
  }
  Batch batch(int step) const {
    return {{"a", random::normal({16, 3000}, 0, 1, 5, step)},
            {"b", random::normal({16, 10}, 0, 1, 6, step)}};
  }
};

template <class Model, class Optimizer = optim::AdamW>
struct Trial {
  Model model{nn::Init(3)};
  Optimizer optimizer{params(model), {.lr = 1e-2}};

  Loss step(const Batch& b) { return optimizer.minimize(model(b)); }
  auto compiled(CompileOptions options) {
    return compile(model.spec(), options, [this](const Batch& b) { return step(b); });
  }
  test::Bytes bytes() const {
    std::vector<Variable> all = optimizer.state();
    for (const Variable& v : optimizer.params()) all.push_back(v);
    return test::bytes(all);
  }
};

const CompileOptions kExact{.allow = Allow::same_bits, .split = false};

// The smallest budget, and a little more: what the program holds beside the step varies.
CompileOptions tight(auto& trial) {
  CompileOptions options = kExact;
  options.memory = ByteSize{trial.compiled(options).plan().minimum + (std::uint64_t{128} << 10)};
  return options;
}

std::uint64_t arena_held() {
  std::uint64_t bytes = 0;
  for (const Holding& h : ledger::holdings(1000))
    if (h.site.starts_with("arena")) bytes += h.bytes;
  return bytes;
}

template <class Model, class Optimizer>
void expect_same_bits(std::uint64_t whole_gradient, const char* calls) {
  Trial<Model, Optimizer> eager, loose, small;
  {
    CompileOptions without = kExact;
    without.gradient_blocks = false;
    const std::uint64_t minimum = small.compiled(without).plan().minimum;
    EXPECT_LT(small.compiled(kExact).plan().minimum + whole_gradient / 2, minimum);
  }
  {  // for as long as the budget is in force
    auto step = small.compiled(tight(small));
    const plan::Plan& plan = step.plan();
    EXPECT_EQ(plan.chosen.gradient_blocks, 1u) << plan;
    EXPECT_EQ(plan.chosen.label, Allow::same_bits);
    EXPECT_NE(to_string(plan).find("gradient of 1 parameter in blocks"), std::string::npos) << plan;
    EXPECT_NE(to_string(plan.programs[0].trace).find(calls), std::string::npos)
        << plan.programs[0].trace;
    for (int i = 0; i < 5; ++i) step(small.model.batch(i));
    EXPECT_EQ(arena_held(), plan.forecast.arena);
  }
  auto unlimited = loose.compiled(kExact);
  EXPECT_EQ(unlimited.plan().chosen.gradient_blocks, 0u) << unlimited.plan();
  for (int i = 0; i < 5; ++i) {
    unlimited(loose.model.batch(i));
    Tape tape;
    eager.step(eager.model.batch(i));
  }
  EXPECT_EQ(small.bytes(), eager.bytes());
  EXPECT_EQ(loose.bytes(), eager.bytes());
}

TEST(GradientBlocks, ATiedTableHasTheBitsOfEagerSteps) {
  expect_same_bits<Tied, optim::AdamW>(
      1009 * 256 * 4, "gradient_blocks[linear_cross_entropy_weight_grad scatter_add adam]");
}
TEST(GradientBlocks, AHeadHasTheBitsOfEagerSteps) {
  expect_same_bits<Untied, optim::AdamW>(0,
                                         "gradient_blocks[linear_cross_entropy_weight_grad adam]");
}
TEST(GradientBlocks, AHeadOn16BitStatesHasTheBitsOfEagerSteps) {
  expect_same_bits<UntiedHalf, optim::AdamW>(
      0, "gradient_blocks[linear_cross_entropy_weight_grad adam]");
}
TEST(GradientBlocks, ATableWithoutStateHasTheBitsOfEagerSteps) {
  expect_same_bits<Tied, optim::Sgd>(
      1009 * 256 * 4, "gradient_blocks[linear_cross_entropy_weight_grad scatter_add sgd]");
}
TEST(GradientBlocks, AFirstLayerHasTheBitsOfEagerSteps) {
  expect_same_bits<WideMlp, optim::AdamW>(3000 * 100 * 4, "gradient_blocks[matmul adam]");
}
TEST(GradientBlocks, AFirstLayerWithOneArrayOfStateHasTheBitsOfEagerSteps) {
  expect_same_bits<WideMlp, optim::Lion>(3000 * 100 * 4, "gradient_blocks[matmul lion]");
}
TEST(GradientBlocks, StateGoesThroughMemoryInPiecesOfRows) {
  expect_same_bits<LargeTied, optim::AdamW>(
      10007 * 256 * 4, "gradient_blocks[linear_cross_entropy_weight_grad scatter_add adam]");
  Trial<LargeTied> trial;
  auto step = trial.compiled(tight(trial));
  const auto& streams = step.plan().programs.back().lowered.streams;
  ASSERT_EQ(streams.size(), 1u);
  EXPECT_TRUE(streams[0].whole_rows);
}

// Only where the budget asks for it: it takes longer.
TEST(GradientBlocks, WithMoreMemoryTheGradientIsWhole) {
  Trial<Tied> trial;
  CompileOptions options = kExact;
  const plan::Plan free = trial.compiled(options).plan();
  std::uint64_t largest = 0;
  for (const plan::FrontierPoint& w : free.frontier)
    if (w.gradient_blocks) largest = std::max(largest, w.budget);
  ASSERT_GT(largest, 0u) << free;
  options.memory = ByteSize{free.frontier.back().budget + (std::uint64_t{1} << 20)};
  EXPECT_EQ(trial.compiled(options).plan().chosen.gradient_blocks, 0u);
}

// What is wrong with a batch is found before anything is updated.
TEST(GradientBlocks, ABadLabelChangesNothing) {
  Trial<Tied> run;
  auto step = run.compiled(tight(run));
  ASSERT_EQ(step.plan().chosen.gradient_blocks, 1u);
  step(run.model.batch(0));
  const auto before = run.bytes();
  Batch bad = run.model.batch(1);
  bad = {{"a", bad["a"]}, {"b", Tensor::full({kTokens}, 1009, DType::i64)}};
  EXPECT_THROW(step(bad), Error);
  EXPECT_FALSE(step.executor().torn());
  EXPECT_EQ(run.bytes(), before);
  step(run.model.batch(1));
  EXPECT_NE(run.bytes(), before);
}

TEST(GradientBlocks, AFailedTransferLeavesNoMixture) {
  using Run = Trial<LargeTied>;
  CompileOptions options = [] {  // what is held here would count there
    Run first;
    return tight(first);
  }();
  // What a process sets aside grows where it has planned many times.
  const auto compiled = [&](Run& run) {
    try {
      return run.compiled(options);
    } catch (const BudgetTooSmall& e) {
      options.memory = ByteSize{e.minimum + (std::uint64_t{128} << 10)};
      return run.compiled(options);
    }
  };
  test::expect_no_mixture(
      {1, 2, 5, 9, 14, 25}, [] { return Run(); },
      [&](Run& run) {
        auto step = compiled(run);
        EXPECT_EQ(step.plan().chosen.gradient_blocks, 1u);
        return step;
      },
      [](const Run& run, int i) { return run.model.batch(i); });
}

}  // namespace
}  // namespace ebb
