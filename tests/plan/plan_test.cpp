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
  explicit Model(const nn::Init& init) {
    for (int i = 0; i < 4; ++i)
      layers.emplace_back(init / i, 96, 96, nn::DenseOptions{.activation = Activation::gelu});
  }
  void each(auto&& f) {
    for (std::size_t i = 0; i < layers.size(); ++i) f(std::to_string(i), layers[i]);
  }
};

class PlanValue : public testing::Test {
 protected:
  plan::Plan planned(const CompileOptions& options) {
    const trace::Function step = [&](std::span<const Tensor> in) {
      Tensor x = in[0];
      const Scope scope("a \"quoted\" one");
      for (const nn::Dense& layer : model_.layers) x = layer(x);
      const Loss loss = adam_.minimize(mse(x, in[0]));
      return std::vector{loss.sum, loss.count};
    };
    const auto traced = [&](std::int64_t examples, trace::MicroBatch which) {
      const Spec x{{examples, 96}, DType::f32};
      const trace::Trace first = trace::trace(step, {&x, 1}, trace::MicroBatch::first);
      return trace::trace(step, {&x, 1}, which, &first);
    };
    plan::Footprint footprint;
    footprint.reserve = footprint.runtime = 1 << 20;
    return plan::make_plan(traced, kExamples, options, footprint, plan::Machine{});
  }

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
