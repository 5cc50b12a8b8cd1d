// Every optimizer as ops: the bits of its eager step, whole and in parts, on any number of threads.
#include <gtest/gtest.h>

#include <cmath>

#include "ebb/base/pool.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/ops/cast.hpp"
#include "tests/optim/model.hpp"

namespace ebb {
namespace {

using test::bytes;
using test::Mlp;
using All = std::vector<std::vector<std::byte>>;

template <class Optimizer, class Options>
struct Task {
  Mlp model;
  Optimizer optimizer;
  test::Example data = test::examples(24, 12, 5, 1);
  explicit Task(const Options& options)
      : model((random::seed(3), nn::Init(1))), optimizer(params(model), options) {
    optimizer.clip_norm(0.5);
  }
  Loss loss(const Tensor& x, const Tensor& y) { return sparse_cross_entropy(model(x), y); }
  All kept() {
    std::vector<Variable> all = params(model);
    for (const Variable& v : optimizer.state()) all.push_back(v);
    return bytes(all);
  }
};

template <class Optimizer, class Options>
void same_bits(const Options& options) {
  All expected;
  const int threads = pool::threads();
  for (const int count : {1, 2}) {
    pool::set_threads(count);
    Task<Optimizer, Options> eager(options);
    for (int i = 0; i < 4; ++i) {
      Tape tape;
      eager.optimizer.minimize(eager.loss(eager.data.x, eager.data.labels));
    }
    if (expected.empty()) expected = eager.kept();
    EXPECT_EQ(eager.kept(), expected) << count << " threads";
    for (const std::int64_t rows : {0, 7}) {
      Task<Optimizer, Options> task(options);
      auto step = compile(
          {{"x", task.data.x.spec()}, {"y", task.data.labels.spec()}}, {.micro_batch = rows},
          [&](const Batch& b) { return task.optimizer.minimize(task.loss(b["x"], b["y"])); });
      for (int i = 0; i < 4; ++i) step({{"x", task.data.x}, {"y", task.data.labels}});
      EXPECT_EQ(task.kept(), expected) << "compiled, parts of " << rows;
    }
  }
  pool::set_threads(threads);
}

TEST(CompiledUpdate, AStepWithoutALengthIsSkippedAndCounted) {
  Task<optim::AdamW, optim::AdamWOptions> task({});
  auto step =
      compile({{"x", task.data.x.spec()}, {"y", task.data.labels.spec()}}, {},
              [&](const Batch& b) { return task.optimizer.minimize(task.loss(b["x"], b["y"])); });
  step({{"x", task.data.x}, {"y", task.data.labels}});
  const auto kept = [&] {  // without the number of skipped steps
    std::vector<Variable> all = params(task.model);
    for (const Variable& v : task.optimizer.state())
      if (v.name() != "adamw.skipped") all.push_back(v);
    return bytes(all);
  };
  const All before = kept();
  const Tensor far = Tensor::full(task.data.x.shape(), INFINITY, DType::f32);
  step({{"x", far}, {"y", task.data.labels}});
  EXPECT_EQ(kept(), before);
  EXPECT_EQ(task.optimizer.steps(), 1);
  EXPECT_EQ(task.optimizer.skipped(), 1);
  step({{"x", task.data.x}, {"y", task.data.labels}});
  EXPECT_NE(kept(), before);
  EXPECT_EQ(task.optimizer.steps(), 2);
}

TEST(CompiledUpdate, Sgd) { same_bits<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9}); }
TEST(CompiledUpdate, Rmsprop) { same_bits<optim::Rmsprop>(optim::RmspropOptions{.momentum = 0.5}); }
TEST(CompiledUpdate, Lion) { same_bits<optim::Lion>(optim::LionOptions{.lr = 1e-3}); }
TEST(CompiledUpdate, AdamWIn8Bits) { same_bits<optim::AdamW8bit>(optim::AdamWOptions{.lr = 1e-2}); }
TEST(CompiledUpdate, Adafactor) { same_bits<optim::Adafactor>(optim::AdafactorOptions{}); }
TEST(CompiledUpdate, WithALossScale) {
  same_bits<optim::AdamW>(optim::AdamWOptions{
      .lr = 1e-2,
      .half = {.loss_scale = {.first = 1024, .growth = 2, .backoff = 0.5, .patience = 2}}});
}

}  // namespace
}  // namespace ebb
