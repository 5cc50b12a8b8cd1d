// Parameters and gradients of 16 bits: master copies, and loss scales that find their size.
#include <gtest/gtest.h>

#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/optim/accumulator.hpp"
#include "tests/error_of.hpp"
#include "tests/optim/model.hpp"

namespace ebb {
namespace {

using test::bytes;
using All = std::vector<std::vector<std::byte>>;

struct Model {
  Variable up, down;
  explicit Model(DType type)
      : up("up", cast(random::normal({24, 12}, 0, 0.3, 1, 1), type)),
        down("down", cast(random::normal({5, 24}, 0, 0.3, 1, 2), type)) {}
  Tensor operator()(const Tensor& x) const { return linear(relu(linear(x, up)), down); }
  std::vector<Variable> params() const { return {up, down}; }
};

// Weights and state after some steps, and the last loss.
template <class Optimizer, class Options>
std::pair<All, double> trained(DType type, const Options& options, bool compiled, int steps) {
  random::seed(3);
  const Model model(type);
  Optimizer optimizer(model.params(), options);
  const test::Example data = test::examples(40, 12, 5, 1);
  double loss = 0;
  auto step = compile({{"x", data.x.spec()}, {"y", data.labels.spec()}}, {}, [&](const Batch& b) {
    return optimizer.minimize(sparse_cross_entropy(model(b["x"]), b["y"]));
  });
  for (int i = 0; i < steps; ++i) {
    if (compiled) {
      loss = step({{"x", data.x}, {"y", data.labels}}).mean().item();
    } else {
      Tape tape;
      loss = optimizer.minimize(sparse_cross_entropy(model(data.x), data.labels)).mean().item();
    }
  }
  std::vector<Variable> all = model.params();
  for (const Variable& v : optimizer.state()) all.push_back(v);
  return {bytes(all), loss};
}

TEST(Half, CompiledHasTheBitsOfEager) {
  for (const DType type : {DType::bf16, DType::f16})
    for (const bool master : {true, false}) {
      SCOPED_TRACE(master);
      const optim::AdamWOptions adam{.lr = 1e-2, .half = {.master = master}};
      EXPECT_EQ(trained<optim::AdamW>(type, adam, true, 4).first,
                trained<optim::AdamW>(type, adam, false, 4).first);
      EXPECT_EQ(trained<optim::AdamW8bit>(type, adam, true, 4).first,
                trained<optim::AdamW8bit>(type, adam, false, 4).first);
      const auto same = [&]<class Optimizer>(std::in_place_type_t<Optimizer>, auto options) {
        options.half.master = master;
        EXPECT_EQ(trained<Optimizer>(type, options, true, 4).first,
                  trained<Optimizer>(type, options, false, 4).first);
      };
      same(std::in_place_type<optim::Sgd>, optim::SgdOptions{.lr = 0.1});
      same(std::in_place_type<optim::Sgd>, optim::SgdOptions{.lr = 0.1, .momentum = 0.9});
      same(std::in_place_type<optim::Rmsprop>, optim::RmspropOptions{});
      same(std::in_place_type<optim::Rmsprop>, optim::RmspropOptions{.momentum = 0.5});
      same(std::in_place_type<optim::Adagrad>, optim::AdagradOptions{.lr = 0.1});
      same(std::in_place_type<optim::Lion>, optim::LionOptions{.lr = 1e-2, .weight_decay = 0.1});
      same(std::in_place_type<optim::Adam>, optim::AdamOptions{.lr = 1e-2, .lazy = true});
    }
}

// With a master copy the steps are those of f32, and the parameter is the copy rounded; without, each
// is a step in f32 from the parameter as it stands.
template <class Optimizer, class Options>
void steps_as_f32(Options options) {
  for (const DType type : {DType::bf16, DType::f16})
    for (const bool master : {true, false}) {
      SCOPED_TRACE(master ? "with a master copy" : "without");
      options.half.master = master;
      const Tensor first = cast(random::normal({7, 5}, 0, 1, 1, 4), type);
      Variable narrow("w", first), wide("w", cast(first, DType::f32));
      Optimizer small({narrow}, options), full({wide}, options);
      for (std::uint64_t i = 0; i < 5; ++i) {
        const auto odd = static_cast<float>(i % 2);
        const Tensor rows = Tensor::from(std::vector<float>{1, 0, 1, 0, 0, 1, odd}, {7, 1});
        const std::vector<Tensor> g{random::normal({7, 5}, 0, 1, 2, i) * rows};
        small.step(g, 3);
        full.step(g, 3);
        const Tensor rounded = cast(wide, type);
        ASSERT_EQ(bytes({narrow}), bytes({Variable("rounded", rounded)})) << "step " << i;
        if (!master) wide.assign(cast(rounded, DType::f32));
      }
      EXPECT_NE(bytes({narrow}), bytes({Variable("first", first)}));
      const std::vector<Variable> kept = small.state(), expected = full.state();
      const std::size_t slots = expected.size() - 3;  // the rate and the numbers of steps are last
      ASSERT_EQ(kept.size(), expected.size() + (master ? 1 : 0));
      for (std::size_t k = 0; k < slots; ++k) EXPECT_EQ(bytes({kept[k]}), bytes({expected[k]}));
      if (master) {
        EXPECT_EQ(bytes({kept[slots]}), bytes({wide}));
      }
    }
}

TEST(Half, EveryRuleStepsAsInF32) {
  steps_as_f32<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .weight_decay = 0.1});
  steps_as_f32<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true});
  steps_as_f32<optim::Adam>(optim::AdamOptions{.lr = 0.1, .weight_decay = 0.1});
  steps_as_f32<optim::AdamW>(optim::AdamWOptions{.lr = 0.1});
  steps_as_f32<optim::Adam>(optim::AdamOptions{.lr = 0.1, .lazy = true});
  steps_as_f32<optim::AdamW>(optim::AdamWOptions{.lr = 0.1, .lazy = true});
  steps_as_f32<optim::AdamW8bit>(optim::AdamWOptions{.lr = 0.1});
  steps_as_f32<optim::Rmsprop>(optim::RmspropOptions{.lr = 0.1});
  steps_as_f32<optim::Rmsprop>(optim::RmspropOptions{.lr = 0.1, .momentum = 0.5});
  steps_as_f32<optim::Adagrad>(optim::AdagradOptions{.lr = 0.1, .weight_decay = 0.1});
  steps_as_f32<optim::Lion>(optim::LionOptions{.lr = 0.1, .weight_decay = 0.1});
}

TEST(Half, LearnsAsF32Does) {
  const optim::AdamWOptions options{.lr = 1e-2};
  const double full = trained<optim::AdamW>(DType::f32, options, false, 100).second;
  EXPECT_LT(full, 1.2);
  // A scale that fits from the start: a skipped step is a step behind.
  optim::LossScale scale = optim::dynamic;
  scale.first = 256;
  const optim::AdamWOptions scaled{.lr = 1e-2, .half = {.loss_scale = scale}};
  EXPECT_NEAR(trained<optim::AdamW>(DType::bf16, options, false, 100).second / full, 1, 0.1);
  EXPECT_NEAR(trained<optim::AdamW>(DType::f16, scaled, false, 100).second / full, 1, 0.1);
}

// Steps far below the last digit of a 16-bit one.
TEST(Half, AMasterCopyCollectsSmallSteps) {
  for (const bool master : {true, false}) {
    Variable w("w", cast(Tensor::of({1, -1}), DType::bf16));
    optim::Sgd sgd({w}, {.lr = 1e-4, .half = {.master = master}});
    const std::vector<Tensor> g{cast(Tensor::of({1, 1}), DType::bf16)};
    for (int i = 0; i < 1000; ++i) sgd.step(g);
    const std::vector<float> now = cast(w, DType::f32).to_vector<float>();
    EXPECT_NEAR(now[0], master ? 0.9 : 1, 0.003);
    EXPECT_NEAR(now[1], master ? -1.1 : -1, 0.005);
  }
}

TEST(Half, GradientsMayBeWider) {
  Variable w("w", cast(Tensor::of({1, -1}), DType::bf16));
  optim::Sgd sgd({w}, {.lr = 1});
  sgd.step(std::vector<Tensor>{Tensor::of({0.5, 0.25})});
  EXPECT_EQ(cast(w, DType::f32).to_vector<float>(), (std::vector<float>{0.5, -1.25}));
}

struct Overflow {
  Variable w{"w", cast(Tensor::of({1, 2, 3}), DType::f16)};
  optim::Sgd sgd{
      {w},
      {.lr = 0.25,
       .half = {.loss_scale = {.first = 262144, .growth = 2, .backoff = 0.5, .patience = 3}}}};
  Loss loss() { return mse(w, Tensor::of({0, 0, 0})); }  // gradients 2, 4 and 6, and then less
  std::vector<float> values() const { return cast(w, DType::f32).to_vector<float>(); }
};

// f16 ends at 65504: a scale of 262144 is too much, and so are the next ones.
template <class Step>
void finds_its_size(Overflow& o, Step step) {
  std::int64_t skipped = 0;
  double scale = 262144;
  while (o.sgd.steps() == 0) {
    ASSERT_LT(skipped, 20);
    EXPECT_EQ(o.sgd.loss_scale(), scale);
    EXPECT_EQ(o.values(), (std::vector<float>{1, 2, 3})) << "a skipped step changes nothing";
    step();
    if (o.sgd.steps() == 0) {
      ++skipped;
      scale /= 2;
    }
    EXPECT_EQ(o.sgd.skipped(), skipped);
  }
  EXPECT_GE(skipped, 3);
  EXPECT_LT(o.values()[2], 3);
  EXPECT_EQ(o.sgd.loss_scale(), scale);
  step();
  step();
  EXPECT_EQ(o.sgd.loss_scale(), 2 * scale) << "after three steps in a row";
  EXPECT_EQ(o.sgd.steps(), 3);
}

TEST(LossScale, BacksOffAndGrowsAgain) {
  Overflow o;
  finds_its_size(o, [&] {
    Tape tape;
    o.sgd.minimize(o.loss());
  });
}

TEST(LossScale, BacksOffAndGrowsAgainCompiled) {
  Overflow o, eager;
  const Tensor unused = Tensor::of({1});
  auto compiled =
      compile({{"x", unused.spec()}}, {}, [&](const Batch&) { return o.sgd.minimize(o.loss()); });
  finds_its_size(o, [&] { compiled({{"x", unused}}); });
  finds_its_size(eager, [&] {
    Tape tape;
    eager.sgd.minimize(eager.loss());
  });
  EXPECT_EQ(o.values(), eager.values());
}

TEST(LossScale, BacksOffAndGrowsAgainWhereGradientsAreGathered) {
  Overflow o, whole;
  finds_its_size(o, [&] {
    Accumulator gathered(o.sgd);
    Tape tape;
    gathered.add(tape, o.loss());
    EXPECT_EQ(gathered.scale(), o.sgd.loss_scale());
    o.sgd.step(gathered);
    EXPECT_TRUE(gathered.empty());
  });
  finds_its_size(whole, [&] {
    Tape tape;
    whole.sgd.minimize(whole.loss());
  });
  EXPECT_EQ(o.values(), whole.values());
}

// Gradients of 1e-9, which f16 does not know.
TEST(LossScale, GatheredGradientsDoNotVanish) {
  for (const bool given : {false, true}) {  // as gradients
    Variable w("w", cast(Tensor::of({1, 2}), DType::f16));
    optim::Sgd sgd({w}, {.lr = 1e8, .half = {.loss_scale = {.first = 65536}}});
    Accumulator gathered(sgd);
    for (int part = 0; part < 2; ++part) {
      Tape tape;
      if (given) {
        gathered.add(std::vector<Tensor>{cast(Tensor::of({0x1p-24, 0x1p-24}), DType::f16)}, 1);
      } else {
        const Tensor sum_of_part = sum(cast(w, DType::f32) * 1e-9);
        gathered.add(tape, {sum_of_part, Tensor::full({}, 1, DType::i64)});
      }
    }
    sgd.step(gathered);
    const double moved = 1e8 * (given ? 0x1p-24 : 1e-9);
    const std::vector<float> now = cast(w, DType::f32).to_vector<float>();
    EXPECT_NEAR(now[0], 1 - moved, 2e-3 * (1 + moved));
    EXPECT_NEAR(now[1], 2 - moved, 2e-3 * (1 + moved));
  }
}

// In f32 a power of two changes no bit; in parts neither.
TEST(LossScale, GatheredPartsAreTheWhole) {
  enum class How { minimized, gathered, unscaled };
  const auto after = [](How how) {
    random::seed(3);
    test::Mlp model(nn::Init(1), 0);
    optim::AdamWOptions options{.lr = 1e-2};
    if (how != How::unscaled)
      options.half.loss_scale = {.first = 1024, .growth = 2, .backoff = 0.5, .patience = 2};
    optim::AdamW adam(params(model), options);
    adam.clip_norm(0.1);
    const test::Example all = test::examples(20, 12, 5, 1);
    for (int i = 0; i < 5; ++i) {
      const auto loss = [&](std::int64_t begin, std::int64_t end) {
        const test::Example part = all.rows(begin, end);
        return sparse_cross_entropy(model(part.x), part.labels);
      };
      if (how == How::gathered) {
        Accumulator gathered(adam);
        for (const auto& [begin, end] : {std::pair(0, 7), std::pair(7, 20)}) {
          Tape tape;
          gathered.add(tape, loss(begin, end));
        }
        const std::vector<float> sums = gathered.sums()[4].to_vector<float>();
        const std::vector<float> means = gathered.mean()[4].to_vector<float>();
        for (std::size_t k = 0; k < sums.size(); ++k)
          EXPECT_FLOAT_EQ(means[k] * 20 * static_cast<float>(gathered.scale()), sums[k]);
        adam.step(gathered);
      } else {
        Tape tape;
        adam.minimize(loss(0, 20));
      }
    }
    if (how != How::unscaled) {
      EXPECT_EQ(adam.loss_scale(), 4096);
    }
    return bytes(params(model));
  };
  EXPECT_EQ(after(How::gathered), after(How::minimized));
  EXPECT_EQ(after(How::gathered), after(How::unscaled));
}

// What was not made of a scaled loss is not divided by the scale.
TEST(LossScale, GradientsThatAreNotScaledAreRefused) {
  const char* refusal =
      "sgd: step() was given gradients that are not scaled, but .loss_scale is in use; call "
      "minimize(), or gather them in an Accumulator of this optimizer";
  Overflow o;
  const std::vector<Tensor> gradient{cast(Tensor::of({1, 1, 1}), DType::f16)};
  EXPECT_EQ(test::error_of([&] { o.sgd.step(gradient); }), refusal);
  Accumulator gathered({o.w});
  gathered.add(gradient, 1);
  EXPECT_EQ(test::error_of([&] { o.sgd.step(gathered); }), refusal);
  EXPECT_EQ(gathered.parts(), 1) << "nothing is lost";
  gathered.discard();
  EXPECT_EQ(o.sgd.steps(), 0);
  EXPECT_EQ(o.sgd.loss_scale(), 262144);
  EXPECT_EQ(o.values(), (std::vector<float>{1, 2, 3}));
}

TEST(LossScale, IsRefusedWhereItMakesNoSense) {
  Variable w("w", Tensor::of({1}));
  EXPECT_THROW(optim::Sgd({w}, {.half = {.loss_scale = {.first = 0}}}), Error);
  EXPECT_THROW(optim::Sgd({w}, {.half = {.loss_scale = {.first = 8, .growth = 0.5}}}), Error);
}

}  // namespace
}  // namespace ebb
