// Steps of ever new shapes: what a process holds does not grow.
#include <gtest/gtest.h>

#include <random>

#include "ebb/base/memory/memory.hpp"
#include "ebb/base/process.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/optim/optimizer.hpp"

namespace ebb {
namespace {

TEST(Steady, NewShapesDoNotAddUp) {
  nn::Dense model(nn::Init(1), 16, 2);
  optim::Adam adam(params(model), {.lr = 1e-3});
  const Tensor x = random::normal({24, 16}, 0, 1, 1, 1), y = Tensor::zeros({24}, DType::i32);
  auto step = compile(
      {{"x", x.spec()}, {"y", y.spec()}}, {.recompute = false, .spill = false, .plans = 4},
      [&](const Batch& b) { return adam.minimize(sparse_cross_entropy(model(b["x"]), b["y"])); });
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 draw(seed);
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      const auto rows = 1 + static_cast<std::int64_t>(draw() % 24);
      step(Batch{{"x", x.rows(0, rows)}, {"y", y.rows(0, rows)}});
    }
  };
  run(500);
  const auto without_code = [] { return process::resident() - process::mapped(); };
  const std::uint64_t held = memory::held(), before = without_code();
  run(1500);
  EXPECT_LE(memory::held(), held + 4096);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE(without_code(), before + (256 << 10));  // a leaked plan a step would be tens of MB
#endif
}

}  // namespace
}  // namespace ebb
