// Compiled steps that leave out what need not be made: an embedding's whole gradient, a loss that
// its way back gives as well. The bits are those of eager steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ebb/exec/compile.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/linear_cross_entropy.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"
#include "ebb/trace/pipeline.hpp"
#include "ebb/trace/sparse.hpp"
#include "tests/bytes.hpp"

namespace ebb {
namespace {

constexpr std::int64_t kRows = 6, kTable = 400, kWidth = 8;

Tensor labels(int step) {
  std::vector<std::int64_t> ids;
  for (int i = 0; i < kRows; ++i) ids.push_back((i * i * 31 + step * 7) % (kTable / 2));
  return Tensor::from(ids, {kRows});
}
Batch batch(int step) { return {{"ids", labels(step)}, {"labels", labels(step + 3)}}; }
BatchSpec spec() {
  const Spec ids{{kRows}, DType::i64};
  return {{"ids", ids}, {"labels", ids}};
}

struct Model {
  Variable table{"table", random::normal({kTable, kWidth}, 0, 1, 1, 2)};
  Variable out{"out", random::normal({kTable, kWidth}, 0, 1, 1, 3)};
  Loss loss(const Batch& b) const {
    return linear_cross_entropy(embedding(table, b["ids"]), out, b["labels"]);
  }
};

double clip = 0;  // by norm; 0: not at all

template <class Optimizer, class... O>
std::vector<float> trained(bool compiled, O... options) {
  Model model;
  Optimizer optimizer({model.table, model.out}, options...);
  if (clip > 0) optimizer.clip_norm(clip);
  const auto fn = [&](const Batch& b) { return optimizer.minimize(model.loss(b)); };
  if (compiled) {
    auto step = compile(spec(), {}, fn);
    for (int i = 0; i < 4; ++i) step(batch(i));
  } else {
    for (int i = 0; i < 4; ++i) {
      Tape tape;
      fn(batch(i));
    }
  }
  std::vector<float> all;
  for (const Variable& v : {model.table, model.out}) {
    const auto values = v.value().template data<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

template <class Optimizer, class... O>
void expect_same(O... options) {
  const auto eager = trained<Optimizer>(false, options...);
  const auto compiled = trained<Optimizer>(true, options...);
  EXPECT_EQ(std::memcmp(eager.data(), compiled.data(), eager.size() * sizeof(float)), 0);
}

TEST(Sparse, CompiledStepsHaveTheBitsOfEagerOnes) {
  expect_same<optim::Sgd>();
  expect_same<optim::Adam>();
  expect_same<optim::AdamW>();
  expect_same<optim::Adagrad>();
  expect_same<optim::Rmsprop>();  // which has no sparse form
}

TEST(Sparse, LazyAdamIsTheSameRuleCompiled) {
  expect_same<optim::Adam>(optim::AdamOptions{.lazy = true});
  expect_same<optim::AdamW>(optim::AdamWOptions{.lazy = true});
  EXPECT_NE(trained<optim::Adam>(true, optim::AdamOptions{.lazy = true}),
            trained<optim::Adam>(true));
}

TEST(Sparse, ClippedByNormAsEagerOnes) {
  const auto free = trained<optim::Sgd>(true);
  clip = 0.01;
  EXPECT_NE(trained<optim::Sgd>(true), free) << "clipping changes the step";
  expect_same<optim::Sgd>();
  expect_same<optim::AdamW>();
  expect_same<optim::Adagrad>();
  expect_same<optim::Adam>(optim::AdamOptions{.lazy = true});
  clip = 0;
}

int count(const trace::Trace& t, std::string_view op) {
  return static_cast<int>(std::count_if(t.calls.begin(), t.calls.end(), [&](const trace::Call& c) {
    return c.op.type().name == op;
  }));
}

template <class Optimizer, class... O>
trace::Trace traced(O... options) {
  Model model;
  Optimizer optimizer({model.table, model.out}, options...);
  if (clip > 0) optimizer.clip_norm(clip);
  const Spec ids{{kRows}, DType::i64};
  const Spec in[] = {ids, ids};
  return trace::simplified(trace::trace(
      [&](std::span<const Tensor> x) {
        Tape tape;
        const Loss loss = linear_cross_entropy(embedding(model.table, x[0]), model.out, x[1]);
        const Tensor mean = loss.mean();
        optimizer.minimize(loss);
        return std::vector{mean};
      },
      in));
}

TEST(Sparse, TheLossIsThatOfItsWayBack) {
  const trace::Trace t = traced<optim::Adam>();
  EXPECT_EQ(count(t, "linear_cross_entropy"), 0) << to_string(t);
  EXPECT_EQ(count(t, "linear_cross_entropy_backward"), 1);
  // Every value is made before it is read.
  std::vector<bool> there(t.values.size());
  for (std::size_t i = 0; i < t.values.size(); ++i)
    there[i] = t.values[i].kind != trace::Kind::made;
  for (const trace::Call& c : t.calls) {
    for (const trace::Id id : c.in) EXPECT_TRUE(there[id]) << to_string(t);
    for (const trace::Id id : c.out) there[id] = true;
  }
}

TEST(Sparse, WithoutGradientsTheLossStays) {
  Model model;
  const Spec ids{{kRows}, DType::i64};
  const Spec in[] = {ids, ids};
  const trace::Trace t = trace::simplified(trace::trace(
      [&](std::span<const Tensor> x) {
        return std::vector{linear_cross_entropy(embedding(model.table, x[0]), model.out, x[1]).sum};
      },
      in));
  EXPECT_EQ(count(t, "linear_cross_entropy"), 1);
}

TEST(Sparse, AnEvaluatedLossTakesLessScratchWhereThereIsLess) {
  const Variable out("out", random::normal({6000, 64}, 0, 1, 1, 3));
  const Tensor x = random::normal({1024, 64}, 0, 1, 1, 4);
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 1024; ++i) ids.push_back(i * 5);
  const Batch b{{"x", x}, {"y", Tensor::from(ids, {1024})}};
  const auto fn = [&](const Batch& b) { return linear_cross_entropy(b["x"], out, b["y"]); };
  const auto made = [&](std::uint64_t budget) {
    CompileOptions options{.split = false, .spill = false};
    if (budget) options.memory = ByteSize{budget};
    return compile({{"x", b["x"].spec()}, {"y", b["y"].spec()}}, options, fn);
  };
  float eager = fn(b).sum.item<float>(), free = 0;
  std::uint64_t arena = 0, minimum = 0;
  {
    auto roomy = made(0);
    arena = roomy.plan().arena;
    minimum = roomy.plan().minimum;
    free = roomy(b).sum.item<float>();
  }
  auto tight = made(minimum + (64 << 10));
  EXPECT_GT(arena, tight.plan().arena + (1u << 20));
  EXPECT_LT(tight.plan().arena, 3u << 20) << tight.plan();
  EXPECT_EQ(tight(b).sum.item<float>(), free);
  EXPECT_EQ(free, eager);
}

TEST(Sparse, TheWholeGradientOfAnEmbeddingIsNotMade) {
  trace::Trace t = traced<optim::Adam>();
  EXPECT_EQ(count(trace::with_sparse_updates(t), "sparse_adam"), 0) << "a part's sum goes on";
  t.carry.clear();
  const trace::Trace sparse = trace::with_sparse_updates(t);
  EXPECT_EQ(count(sparse, "sparse_adam"), 1) << to_string(sparse);
  EXPECT_EQ(count(sparse, "adam"), 1);
  EXPECT_EQ(count(sparse, "scatter_add"), 0);
  trace::Trace lazy = traced<optim::Adam>(optim::AdamOptions{.lazy = true});
  lazy.carry.clear();
  lazy = trace::with_sparse_updates(lazy);
  EXPECT_EQ(count(lazy, "sparse_lazy_adam"), 1) << to_string(lazy);
  EXPECT_EQ(count(lazy, "lazy_adam"), 1);
  trace::Trace other = traced<optim::Rmsprop>();
  other.carry.clear();
  EXPECT_EQ(count(trace::with_sparse_updates(other), "scatter_add"), 1);
}

// Few rows of a table have sparse updates and many have not: a smaller batch, of few, does as the larger
// one that it runs in the place of.
TEST(Sparse, ASmallerBatchRunsInThePlacesOfTheLarger) {
  Model model;
  optim::Adam adam({model.table, model.out}, {});
  const auto fn = [&](const Batch& b) { return adam.minimize(model.loss(b)); };
  const auto ids = [](std::int64_t rows) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < rows; ++i) all.push_back(i * 31 % (kTable / 2));
    return Batch{{"ids", Tensor::from(all, {rows})}, {"labels", Tensor::from(all, {rows})}};
  };
  const Spec many{{kTable}, DType::i64};
  auto step = compile({{"ids", many}, {"labels", many}}, {.split = false, .spill = false}, fn);
  const auto arena = step.plan().arena;
  EXPECT_EQ(count(step.plan().programs[0].trace, "adam"), 2) << "whole gradients";
  step(ids(kRows));
  EXPECT_EQ(step.plan().arena, arena) << "planned anew";
  EXPECT_EQ(count(step.plan().programs[0].trace, "adam"), 2);
  const auto after = test::bytes(std::vector<Variable>{model.table, model.out});

  Model other;
  optim::Adam eager({other.table, other.out}, {});
  {
    Tape tape;
    eager.minimize(other.loss(ids(kRows)));
  }
  EXPECT_EQ(after, test::bytes(std::vector<Variable>{other.table, other.out}));
}

TEST(Sparse, NorIsItForTheNorm) {
  clip = 1;
  trace::Trace t = traced<optim::Adagrad>();
  clip = 0;
  EXPECT_EQ(count(t, "sum_of_squares"), 2);
  t.carry.clear();
  const trace::Trace sparse = trace::with_sparse_updates(t);
  EXPECT_EQ(count(sparse, "sparse_adagrad"), 1) << to_string(sparse);
  EXPECT_EQ(count(sparse, "sparse_sum_of_squares"), 1) << to_string(sparse);
  EXPECT_EQ(count(sparse, "sum_of_squares"), 1);
  EXPECT_EQ(count(sparse, "scatter_add"), 0);
}

}  // namespace
}  // namespace ebb
