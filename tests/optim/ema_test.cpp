#include "ebb/optim/ema.hpp"

#include <gtest/gtest.h>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/ops/cast.hpp"
#include "tests/optim/model.hpp"

namespace ebb {
namespace {

using test::bytes;
using test::Mlp;
using Values = std::vector<float>;

TEST(Ema, FollowsTheWeights) {
  Variable w("w", Tensor::of({1, 2}));
  optim::Ema ema({w}, 0.75);
  ema.update();
  EXPECT_EQ(ema.averages()[0].value().to_vector<float>(), (Values{1, 2})) << "the first is a copy";
  w.assign(Tensor::of({5, -2}));
  ema.update();
  EXPECT_EQ(ema.averages()[0].value().to_vector<float>(), (Values{2, 1}));
  EXPECT_EQ(ema.updates(), 2);
}

TEST(Ema, IsAppliedForAsLongAsItIsHeld) {
  Variable w("w", Tensor::of({1, 2}));
  optim::Ema ema({w}, 0.5);
  ema.update();
  w.assign(Tensor::of({3, 4}));
  const Tensor held = w.value();
  const std::uint64_t takes = memory::FailTake::takes();
  {
    const auto applied = ema.apply();
    EXPECT_EQ(w.value().to_vector<float>(), (Values{1, 2}));
    EXPECT_THROW(ema.update(), Error);
  }
  EXPECT_EQ(memory::FailTake::takes(), takes) << "nothing is copied";
  EXPECT_EQ(w.value().to_vector<float>(), (Values{3, 4}));
  EXPECT_EQ(held.to_vector<float>(), (Values{3, 4}));
  ema.update();
  EXPECT_EQ(ema.averages()[0].value().to_vector<float>(), (Values{2, 3}));
}

// Their averages are kept in f32; the weights are those rounded, and have their own bits again.
TEST(Ema, Of16BitWeightsIsAppliedRounded) {
  for (const DType type : {DType::bf16, DType::f16}) {
    Variable w("w", cast(Tensor::of({1, 2, 3}), type)), f("f", Tensor::of({1, 2}));
    optim::Ema ema({w, f}, 0.75);
    ema.update();
    w.assign(cast(Tensor::of({1.0078125, 2.5, -3}), type));
    f.assign(Tensor::of({5, 6}));
    ema.update();
    const Tensor average = ema.averages()[0].value();
    EXPECT_EQ(average.to_vector<float>(), (Values{1.001953125, 2.125, 1.5}));
    const auto before = bytes({w, f, ema.averages()[0], ema.averages()[1]});
    for (int i = 0; i < 2; ++i) {
      const auto applied = ema.apply();
      EXPECT_EQ(w.value().dtype(), type);
      EXPECT_EQ(cast(w, DType::f32).to_vector<float>(),
                cast(cast(average, type), DType::f32).to_vector<float>());
      EXPECT_EQ(f.value().to_vector<float>(), (Values{2, 3}));
      EXPECT_THROW(ema.update(), Error);
    }
    EXPECT_EQ(bytes({w, f, ema.averages()[0], ema.averages()[1]}), before);
    {  // without the memory for the rounded ones nothing has moved
      const memory::FailTake fail(1);
      EXPECT_THROW(ema.swap(), OutOfMemory);
    }
    EXPECT_EQ(bytes({w, f, ema.averages()[0], ema.averages()[1]}), before);
    ema.update();
    EXPECT_EQ(ema.updates(), 3);
  }
}

TEST(Ema, SaysWhatIsWrong) {
  Variable w("w", Tensor::of({1, 2}));
  EXPECT_THROW(optim::Ema({w}, 1), Error);
  EXPECT_THROW(optim::Ema({}, 0.9), Error);
  EXPECT_THROW(optim::Ema({w, w}, 0.9), Error);
  optim::Ema ema({w}, 0.9);
  EXPECT_THROW(ema.swap(), Error) << "there is nothing to apply";
}

// Weights, averages and states after some steps.
std::vector<std::vector<std::byte>> trained(bool compiled, CompileOptions options = {}) {
  random::seed(3);
  Mlp model(nn::Init(1));
  optim::AdamW adam(params(model), {.lr = 1e-2});
  optim::Ema ema(params(model), 0.9);
  const test::Example all = test::examples(32, 12, 5, 1);
  const auto loss = [&](const Tensor& x, const Tensor& labels) {
    return sparse_cross_entropy(model(x), labels);
  };
  if (compiled) {
    auto step =
        compile({{"x", all.x.spec()}, {"y", all.labels.spec()}}, options, [&](const Batch& b) {
          const Loss l = adam.minimize(loss(b["x"], b["y"]));
          ema.update();
          return l;
        });
    for (int i = 0; i < 5; ++i) step({{"x", all.x}, {"y", all.labels}});
  } else {
    for (int i = 0; i < 5; ++i) {
      Tape tape;
      adam.minimize(loss(all.x, all.labels));
      ema.update();
    }
  }
  std::vector<Variable> kept = params(model);
  for (const Variable& v : ema.state()) kept.push_back(v);
  for (const Variable& v : adam.state()) kept.push_back(v);
  return bytes(kept);
}

TEST(Ema, CompiledHasTheBitsOfEager) {
  const auto expected = trained(false);
  EXPECT_EQ(trained(true), expected);
  EXPECT_EQ(trained(true, {.micro_batch = 5}), expected) << "in parts";
}

}  // namespace
}  // namespace ebb
