#include "ebb/train/build/optimizer.hpp"

#include <gtest/gtest.h>

#include "ebb/exec/compile.hpp"
#include "ebb/nn/convnets.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/unary.hpp"
#include "tests/error_of.hpp"

namespace ebb::train {
namespace {

Config config_of(const std::string& train, const std::string& more = "") {
  return parse_config("[model]\nkind='mlp'\n[data]\nformat='digits'\n[train]\n" + train + "\n" +
                      more);
}

TEST(TrainLength, counts_ragged_batches) {
  Config c = config_of("batch = 32\nepochs = 3");
  EXPECT_EQ(length_of(c, 100).per_epoch, 4);
  EXPECT_EQ(length_of(c, 100).steps, 12);
  c.data.drop_last = true;
  EXPECT_EQ(length_of(c, 100).per_epoch, 3);
  EXPECT_EQ(length_of(config_of("batch = 32\nsteps = 7"), 100).steps, 7);
  EXPECT_EQ(test::error_of([&] { length_of(c, 31); }),
            "the data has 31 rows to train on, fewer than train.batch, and data.drop_last is true");
  EXPECT_EQ(test::error_of([&] { length_of(config_of(""), 0); }),
            "the data has 0 rows to train on, expected at least one");
  EXPECT_EQ(length_of(config_of("batch=1\nepochs=9000000000000000000"), 100).steps, INT64_MAX);
}

TEST(TrainRates, follow_the_schedule) {
  const Length length{10, 100};
  const auto rate = [&](const std::string& text, std::int64_t taken) {
    return make_rates(config_of("lr = 1.0\n" + text), length).schedule(taken);
  };
  EXPECT_EQ(rate("", 50), 1);
  EXPECT_EQ(rate("warmup = 4", 0), 0.25);
  EXPECT_EQ(rate("warmup = 4", 3), 1);
  EXPECT_EQ(rate("warmup = 0.1", 4), 0.5);
  EXPECT_EQ(rate("schedule = 'cosine'\nwarmup = 20", 19), 1);
  EXPECT_NEAR(rate("schedule = 'cosine'\nwarmup = 20\nlr_floor = 0.5", 60), 0.75, 1e-12);
  EXPECT_NEAR(rate("schedule = 'step'\ndecay_every = '2 epochs'", 45), 0.01, 1e-12);
  EXPECT_NEAR(rate("schedule = 'step'\ndecay_every = 10\ndecay_factor = 0.5\nwarmup = 5", 15), 0.5,
              1e-12);
  EXPECT_NEAR(rate("schedule = 'exponential'\ndecay_every = '1 epoch'\ndecay_factor = 0.25", 5),
              0.5, 1e-12);
  EXPECT_EQ(test::error_of([&] { rate("warmup = 100", 0); }),
            "train.warmup is 100 steps, and the run has 100");
}

TEST(TrainRates, a_plateau_is_asked_by_the_schedule) {
  const Rates rates = make_rates(
      config_of("lr=1.0\nschedule='plateau'\nplateau_patience=0\ndecay_factor=0.5\nwarmup=2"),
      {10, 100});
  ASSERT_TRUE(rates.plateau);
  EXPECT_EQ(rates.schedule(0), 0.5);
  EXPECT_EQ(rates.schedule(5), 1);
  rates.plateau->observe(1);
  rates.plateau->observe(1);
  EXPECT_EQ(rates.schedule(6), 0.5);
}

TEST(TrainOptimizer, every_rule_takes_a_step_with_its_options) {
  const char* const all[] = {
      "optimizer='sgd'\nmomentum=0.9\nnesterov=true\nlr=0.1",
      "optimizer='adam'\nbeta1=0.8\nbeta2=0.9\neps=1e-6\nlazy=true",
      "optimizer='adamw'\nweight_decay=0.1\nclip_norm=1.0\nclip_value=0.5",
      "optimizer='rmsprop'\nalpha=0.9\nmomentum=0.5",
      "optimizer='adagrad'",
      "optimizer='lion'\nbeta2=0.9",
      "optimizer='adafactor'",
      "optimizer='adafactor'\nlr=0.01",
      "groups=[{names='*.bias',weight_decay=0},{names='layers.0.*',frozen=true}]",
  };
  for (const char* text : all) {
    SCOPED_TRACE(text);
    const Config c = config_of(text);
    nn::Mlp mlp(nn::Init(1), {4, 8, 3});
    const Rates rates = make_rates(c, {10, 100});
    const auto optimizer = make_optimizer(c, params(mlp), rates);
    EXPECT_EQ(optimizer->lr(), first_rate(c.train));
    const Tensor before = mlp.layers[1].weight.value();
    Tape tape;
    optimizer->minimize(
        sparse_cross_entropy(mlp(Tensor::ones({5, 4})), Tensor::zeros({5}, DType::i32)));
    EXPECT_EQ(optimizer->steps(), 1);
    EXPECT_NE(before.to_vector<float>(), mlp.layers[1].weight.value().to_vector<float>());
    EXPECT_EQ(optimizer->params().size(),
              std::string(text).find("frozen") == std::string::npos ? 4u : 2u);
  }
}

TEST(TrainOptimizer, state_in_8_bits_is_asked_for_in_memory) {
  nn::Mlp mlp(nn::Init(1), {64, 64, 64});
  const auto bytes = [&](const Config& c) {
    const auto optimizer = make_optimizer(c, params(mlp), make_rates(c, {10, 100}));
    std::size_t sum = 0;
    for (const Variable& v : optimizer->state()) sum += v.spec().bytes();
    return sum;
  };
  EXPECT_LT(bytes(config_of("", "[memory]\noptimizer_state='8bit'")), bytes(config_of("")) / 3);
}

TEST(TrainOptimizer, bad_losses_are_skipped) {
  const Config c = config_of("bad_steps=0");
  nn::Mlp mlp(nn::Init(1), {4, 3});
  const auto optimizer = make_optimizer(c, params(mlp), make_rates(c, {10, 100}));
  Tape tape;
  const Tensor x = Tensor::full({2, 4}, std::numeric_limits<double>::quiet_NaN());
  optimizer->minimize(mse(mlp(x), Tensor::zeros({2, 3})));
  EXPECT_EQ(optimizer->steps(), 0);
  EXPECT_EQ(optimizer->skipped(), 1);
}

// sqrt(0) is finite and its slope is not.
TEST(TrainOptimizer, bad_gradients_of_good_losses_too_if_they_are_looked_at) {
  for (const bool looked_at : {true, false}) {
    const Config c = config_of(looked_at ? "" : "check_gradient=false");
    std::vector<Variable> w = {Variable("w", Tensor::zeros({3}))};
    const auto optimizer = make_optimizer(c, w, make_rates(c, {10, 100}));
    auto step = compile(BatchSpec{{"x", {{2, 3}, DType::f32}}}, {}, [&](const Batch& b) {
      return optimizer->minimize(mse(sqrt(w[0].value() * b["x"]), Tensor::zeros({2, 3})));
    });
    step(Batch{{"x", Tensor::ones({2, 3})}});
    EXPECT_EQ(optimizer->skipped(), looked_at ? 1 : 0);
    EXPECT_EQ(w[0].value().to_vector<float>()[0] == 0, looked_at);
  }
}

TEST(TrainOptimizer, averages_only_where_they_are_asked_for) {
  nn::Mlp mlp(nn::Init(1), {4, 3});
  EXPECT_FALSE(make_ema(config_of(""), params(mlp)));
  EXPECT_TRUE(make_ema(config_of("ema=0.9"), params(mlp)));
}

TEST(TrainOptimizer, memory_becomes_compile_options) {
  EXPECT_TRUE(compile_options(config_of("")).memory.automatic);
  EXPECT_EQ(compile_options(config_of("", "[memory]\nbudget='none'")).memory.bytes, 0u);
  const CompileOptions o = compile_options(config_of(
      "batch=64",
      "[memory]\nbudget='1GiB'\nspill_directory='/x'\nallow='same_bits'\nrecompute=false\n"
      "activations='bf16'\nmicro_batch=8\nindependent_micro_batches=true"));
  EXPECT_EQ(o.memory.bytes, 1u << 30);
  EXPECT_EQ(o.spill_directory, "/x");
  EXPECT_EQ(o.allow, Allow::same_bits);
  EXPECT_FALSE(o.recompute);
  EXPECT_EQ(o.approximate.activations, DType::bf16);
  EXPECT_EQ(o.micro_batch, 8);
  EXPECT_TRUE(o.independent_micro_batches);
}

}  // namespace
}  // namespace ebb::train
