// Activations that wait in 16 bits: what changes, and what does not.
#include "ebb/trace/store_half.hpp"

#include <gtest/gtest.h>

#include "ebb/base/error.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/trace/pipeline.hpp"

namespace ebb {
namespace {

struct Block {  // norm, wide gelu, back, added to where it came from
  nn::LayerNorm norm;
  nn::Dense up, down;
  explicit Block(const nn::Init& init)
      : norm(init / "norm", 64),
        up(init / "up", 64, 256, {.activation = Activation::gelu}),
        down(init / "down", 256, 64) {}
  Tensor operator()(const Tensor& x) const { return x + down(up(norm(x))); }
  void each(auto&& f) {
    f("norm", norm);
    f("up", up);
    f("down", down);
  }
};

struct Model {
  std::vector<Block> blocks;
  explicit Model(const nn::Init& init) {
    for (int i = 0; i < 12; ++i) blocks.emplace_back(init / i);
  }
  Tensor operator()(Tensor x) const {
    for (const Block& b : blocks) x = b(reshape(x, {-1, 64}));
    return x;
  }
  void each(auto&& f) {
    for (std::size_t i = 0; i < blocks.size(); ++i) f(std::to_string(i), blocks[i]);
  }
};

struct Outcome {
  double first = 0, last = 0;
  std::uint64_t arena = 0;  // activations, above all
  std::string text;
  plan::Plan plan;
};

Outcome train(const CompileOptions& options, int steps) {
  random::seed(1);
  Model model{nn::Init(1)};
  optim::AdamW adam(params(model), {.lr = 1e-3});
  const Tensor x = random::normal({384, 64}, 0, 1, 1, 2);
  const Tensor y = random::normal({384, 64}, 0, 1, 1, 3);
  auto step = compile({{"x", x.spec()}, {"y", y.spec()}}, options,
                      [&](const Batch& b) { return adam.minimize(mse(model(b["x"]), b["y"])); });
  Outcome o;
  for (int i = 0; i < steps; ++i) {
    o.last = step({{"x", x}, {"y", y}}).mean().item();
    if (i == 0) o.first = o.last;
  }
  o.arena = step.plan().arena;
  o.text = to_string(step.plan());
  o.plan = step.plan();
  o.plan.programs.clear();  // which hold the variables
  return o;
}

const CompileOptions kHalf{.approximate = {.activations = DType::bf16, .always = true}};

TEST(StoredHalf, SavesNearlyHalfOfTheActivations) {
  const Outcome full = train({}, 1), half = train(kHalf, 1);
  EXPECT_LT(static_cast<double>(half.arena), 0.55 * static_cast<double>(full.arena))
      << full.text << half.text;
  EXPECT_EQ(half.first, full.first) << "the forward pass keeps its bits";
  EXPECT_NE(half.text.find("activations stored in bf16"), std::string::npos) << half.text;
  EXPECT_EQ(full.text.find("approximate"), std::string::npos) << full.text;
}

TEST(StoredHalf, LearnsTheSame) {
  const Outcome full = train({}, 80);
  EXPECT_LT(full.last, 0.8 * full.first);
  for (const DType type : {DType::bf16, DType::f16}) {
    const Outcome half = train({.approximate = {.activations = type, .always = true}}, 80);
    EXPECT_NEAR(half.last / full.last, 1, 0.01) << name(type);
    EXPECT_NE(half.last, full.last) << "something was rounded";
  }
}

// Nothing but rounding saves memory.
const CompileOptions kNothingElse{.recompute = false, .split = false, .spill = false};

TEST(StoredHalf, WhatIsAllowedIsUsedOnlyWhereTheBudgetNeedsIt) {
  CompileOptions allowed = kNothingElse;
  allowed.approximate.activations = DType::bf16;
  train(allowed, 1);  // what the process reserves for itself has settled then, and budgets compare
  const Outcome exact = train(kNothingElse, 2), roomy = train(allowed, 2);
  EXPECT_EQ(roomy.last, exact.last);
  EXPECT_EQ(roomy.plan.chosen.label, Allow::same_bits);
  EXPECT_EQ(roomy.plan.approximate, "");
  EXPECT_LT(roomy.plan.minimum, exact.plan.minimum);

  // All that it takes, and what plans held here and the reserve may have grown by.
  allowed.memory = ByteSize{exact.plan.chosen.budget + (8 << 20)};
  EXPECT_EQ(train(allowed, 2).last, exact.last);
  allowed.memory = ByteSize{exact.plan.minimum - 1};
  const Outcome tight = train(allowed, 2);
  EXPECT_EQ(tight.plan.chosen.label, Allow::approximate);
  EXPECT_EQ(tight.plan.chosen.activations, DType::bf16);
  EXPECT_NE(tight.plan.chosen.text().find("activations in bf16"), std::string::npos);
  EXPECT_NE(tight.text.find("activations stored in bf16"), std::string::npos) << tight.text;
  EXPECT_NE(tight.plan.json().find("\"label\": \"approximate\""), std::string::npos);
  EXPECT_EQ(tight.first, exact.first);
}

TEST(StoredHalf, TheFrontierAndTheMenuNameIt) {
  const auto labelled = [](const std::vector<plan::FrontierPoint>& points) {
    int count = 0;
    for (const plan::FrontierPoint& w : points) {
      count += w.label == Allow::approximate;
      EXPECT_EQ(w.label == Allow::approximate, w.activations != DType::f32) << w.text();
    }
    return count;
  };
  CompileOptions allowed = kNothingElse;
  allowed.approximate.activations = DType::f16;
  EXPECT_EQ(labelled(train(kNothingElse, 1).plan.frontier), 0);
  EXPECT_GE(labelled(train(allowed, 1).plan.frontier), 1);
  const auto refusal = [](CompileOptions options) -> std::string {
    options.memory = ByteSize{1};
    try {
      train(options, 1);
    } catch (const BudgetTooSmall& e) {
      return e.what();
    }
    return "not refused";
  };
  EXPECT_NE(refusal(allowed).find("approximate    activations in f16"), std::string::npos)
      << refusal(allowed);
  EXPECT_EQ(refusal(allowed).find("if you allow it"), std::string::npos);
  const std::string unasked = refusal(kNothingElse);
  EXPECT_NE(unasked.find("activations in bf16 (approximate), if you allow it"), std::string::npos)
      << unasked;
}

TEST(StoredHalf, OtherTypesAreRefused) {
  EXPECT_THROW(train({.approximate = {.activations = DType::i32}}, 1), Error);
}

TEST(StoredHalf, EveryBudgetGivesTheSameBits) {
  const Outcome whole = train(kHalf, 3);
  for (const std::int64_t micro_batch : {100, 384}) {
    CompileOptions options = kHalf;
    options.micro_batch = micro_batch;
    const Outcome split = train(options, 3);
    EXPECT_NEAR(split.last, whole.last, 1e-6 * whole.last) << micro_batch;
  }
  CompileOptions options = kHalf;
  options.fuse = false;
  EXPECT_EQ(train(options, 3).last, whole.last);
}

// The weight's gradient reads a product's rows through a reshape, which is made in the walk back.
TEST(StoredHalf, ViewsInTheWalkBackKeepNothingWide) {
  const auto stored = [](const Shape& shape) {
    std::vector<Block> blocks;
    for (int i = 0; i < 4; ++i) blocks.emplace_back(nn::Init(1) / i);
    optim::Sgd sgd(params(blocks));
    const Spec spec{shape, DType::f32};
    return trace::stored_half(trace::simplified(trace::trace(
                                  [&](std::span<const Tensor> in) {
                                    Tensor x = in[0];
                                    for (const Block& b : blocks) x = b(x);
                                    return std::vector<Tensor>{sgd.minimize(mse(x, in[0])).sum};
                                  },
                                  {&spec, 1})),
                              DType::bf16);
  };
  const trace::StoredHalf flat = stored({384, 64}), deep = stored({24, 16, 64});
  EXPECT_GE(flat.values, 4 * 3) << "norm, up and gelu of each block";
  EXPECT_EQ(deep.values, flat.values) << deep.trace;
  EXPECT_EQ(deep.before, flat.before);
}

TEST(StoredHalf, LeavesAnEvaluationAlone) {
  Model model{nn::Init(1)};
  const Spec spec{{384, 64}, DType::f32};
  const trace::Trace t = trace::simplified(trace::trace(
      [&](std::span<const Tensor> in) { return std::vector<Tensor>{model(in[0])}; }, {&spec, 1}));
  const trace::StoredHalf stored = trace::stored_half(t, DType::bf16);
  EXPECT_EQ(stored.values, 0);
  EXPECT_EQ(stored.trace, t);
}

}  // namespace
}  // namespace ebb
