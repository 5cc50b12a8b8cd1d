// Plans are values: equal where they do the same, and printed for programs.
#include <gtest/gtest.h>

#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb {
namespace {

constexpr std::int64_t kExamples = 64;

struct Model {
  std::vector<nn::Dense> layers;
  Model() = default;
  explicit Model(const nn::Init& init) {
    for (int i = 0; i < 4; ++i)
      layers.emplace_back(init / i, 96, 96, nn::DenseOptions{.activation = Activation::gelu});
  }
  void each(auto&& f) {
    for (std::size_t i = 0; i < layers.size(); ++i) f(std::to_string(i), layers[i]);
  }
};

// Of a model from 96 columns to as many.
plan::Plan plan_of(const Model& model, optim::Adam& adam, const CompileOptions& options) {
  const trace::Function step = [&](std::span<const Tensor> in) {
    Tensor x = in[0];
    const Scope scope("a \"quoted\" one");
    for (const nn::Dense& layer : model.layers) x = layer(x);
    const Loss loss = adam.minimize(mse(x, in[0]));
    return std::vector{loss.sum, loss.count};
  };
  const auto traced = [&](std::int64_t examples, trace::MicroBatch which) {
    const Spec x{{examples, 96}, DType::f32};
    const trace::Trace first = trace::trace(step, {&x, 1}, trace::MicroBatch::probe);
    return trace::trace(step, {&x, 1}, which, &first);
  };
  plan::Footprint footprint;
  footprint.reserve = footprint.runtime = 1 << 20;
  return plan::make_plan(traced, kExamples, options, footprint, plan::Machine{});
}

class PlanValue : public testing::Test {
 protected:
  plan::Plan planned(const CompileOptions& options) { return plan_of(model_, adam_, options); }

  Model model_{nn::Init(1)};
  optim::Adam adam_{params(model_)};
};

TEST_F(PlanValue, PlanningTwiceGivesEqualPlans) {
  const plan::Plan all = planned({});
  EXPECT_TRUE(all == planned({}));
  const plan::Plan micro_batches = planned({.micro_batch = 9});
  EXPECT_TRUE(micro_batches == planned({.micro_batch = 9}));
  EXPECT_FALSE(micro_batches == all);
  const plan::Plan least = planned({.memory = ByteSize{all.minimum}});
  EXPECT_TRUE(least == planned({.memory = ByteSize{all.minimum}}));
  EXPECT_FALSE(least == all);

  plan::Plan other = micro_batches;
  EXPECT_TRUE(other == micro_batches);
  ++other.programs[0].offsets[0];
  EXPECT_FALSE(other == micro_batches);
  other = micro_batches;
  other.frontier.back().seconds *= 2;
  EXPECT_FALSE(other == micro_batches);
  other = micro_batches;
  std::swap(other.programs[1].schedule.steps.front(), other.programs[1].schedule.steps.back());
  EXPECT_FALSE(other == micro_batches);
}

// Scopes are the user's words, and the machine's names are its own.
TEST_F(PlanValue, TheSmallestBudgetDoesNotDependOnTheOneAskedFor) {
  const plan::Plan all = planned({});
  double before = 1e9;
  for (const std::uint64_t more : {0, 1, 50'000, 200'000, 500'000, 1'000'000, 50'000'000}) {
    const plan::Plan p = planned({.memory = ByteSize{all.minimum + more}});
    EXPECT_EQ(p.minimum, all.minimum) << more;
    EXPECT_LE(p.chosen.budget, all.minimum + more);
    EXPECT_LE(p.chosen.seconds, before * 1.0001) << more;
    before = p.chosen.seconds;
  }
  try {
    planned({.memory = ByteSize{all.minimum - 1}});
    FAIL() << "one byte less is too little";
  } catch (const BudgetTooSmall& e) {
    EXPECT_EQ(e.minimum, all.minimum);
  }
}

// Also where small variables stay in memory beside large ones in the file, and where only the last
// micro-batch uses those of the optimizer.
TEST(PlanArena, IsHardlyMoreThanTheLoad) {
  Model model;
  const nn::Init init(1);
  const auto add = [&](std::int64_t in, std::int64_t out) {
    model.layers.emplace_back(init / static_cast<int>(model.layers.size()), in, out,
                              nn::DenseOptions{.activation = Activation::gelu});
  };
  add(96, 1024), add(1024, 96), add(96, 32);
  for (int i = 0; i < 16; ++i) add(32, 32);
  add(32, 96);
  optim::Adam adam(params(model));
  int in_the_file = 0;
  for (const std::int64_t micro_batch : {0, 9}) {
    const std::uint64_t least = plan_of(model, adam, {.micro_batch = micro_batch}).minimum;
    for (const std::uint64_t percent : {100, 105, 110, 125, 150, 200}) {
      const plan::Plan p = plan_of(
          model, adam, {.memory = ByteSize{least * percent / 100}, .micro_batch = micro_batch});
      std::uint64_t load = 0;
      for (const plan::Program& program : p.programs) load = std::max(load, program.schedule.load);
      EXPECT_LE(p.arena + p.resident - p.carry_bytes, load + load / 100 + plan::kPage)
          << percent << "% of the smallest budget, " << p.chosen.text();
      EXPECT_LE(p.forecast.gaps, load / 100 + 2 * plan::kPage) << p.chosen.text();
      in_the_file += p.chosen.state_spilled;
    }
  }
  EXPECT_GT(in_the_file, 2);
}

TEST_F(PlanValue, TextsAreQuotedInJson) {
  plan::Plan p = planned({});
  p.source = "the group \"a\\b\"";
  p.forecast.op = "matmul in a \"quoted\" one\n";
  const std::string json = p.json();
  EXPECT_NE(json.find(R"("source": "the group \"a\\b\"")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("peak_op": "matmul in a \"quoted\" one\u000a")"), std::string::npos)
      << json;
}

}  // namespace
}  // namespace ebb
