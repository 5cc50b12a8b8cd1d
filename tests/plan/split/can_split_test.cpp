// Whether a batch can be split, asked of small functions: what decides that micro-batches give the
// bits of the whole batch.
#include "ebb/plan/split/can_split.hpp"

#include <gtest/gtest.h>

#include "ebb/ops/binary.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/trace/pipeline.hpp"

namespace ebb::plan {
namespace {

constexpr std::int64_t kFew = 2, kAll = 6, kWidth = 3;

using Fn = std::function<std::vector<Tensor>(const Tensor& x)>;  // of x (examples, kWidth)

trace::Trace last(const Fn& fn, std::int64_t examples) {
  const Spec x{{examples, kWidth}, DType::f32};
  const trace::Function f = [&](std::span<const Tensor> in) { return fn(in[0]); };
  const trace::Trace first = trace::trace(f, {&x, 1}, trace::MicroBatch::probe);
  return trace::simplified(trace::trace(f, {&x, 1}, trace::MicroBatch::last, &first));
}

SplitAnswer asked(const Fn& fn, bool mixed = false) {
  return can_split(last(fn, kFew), kFew, last(fn, kAll), kAll, mixed);
}

std::string reason(const Fn& fn) {
  const SplitAnswer answer = asked(fn);
  EXPECT_EQ(answer.possible, answer.reason.empty());
  return answer.reason;
}

Fn one(std::function<Tensor(const Tensor&)> f) {
  return [f = std::move(f)](const Tensor& x) { return std::vector{f(x)}; };
}

Fn by_mean() {  // examples depend on each other
  return one([](const Tensor& x) { return x * mean(x, {0}, true); });
}

TEST(CanSplit, WhatIsMadeForEachExample) {
  const Variable w("w", Tensor::ones({kWidth, 2}));
  const SplitAnswer answer = asked([&](const Tensor& x) {
    return std::vector{relu(matmul(x, w)), w * 2.0f, reshape(x, {x.dim(0) * kWidth})};
  });
  EXPECT_TRUE(answer.possible) << answer.reason;
  EXPECT_TRUE(answer.same_bits);
  EXPECT_EQ(answer.result_per_example, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(answer.mixed, "");
}

TEST(CanSplit, ASumOverExamplesOnlyWhereALossAddsItUp) {
  EXPECT_EQ(reason(one([](const Tensor& x) { return sum(x, {0}); })),
            "a result is a sum over the examples that no Loss adds up");
  const SplitAnswer total = asked(one([](const Tensor& x) { return sum(x); }));
  EXPECT_TRUE(total.possible) << total.reason;
  EXPECT_EQ(total.result_per_example, std::vector<bool>{false});
}

TEST(CanSplit, ExamplesThatDependOnEachOther) {
  EXPECT_EQ(reason(by_mean()).find("examples depend on each other in mean"), 0u)
      << reason(by_mean());
  const SplitAnswer allowed = asked(by_mean(), true);
  EXPECT_TRUE(allowed.possible);
  EXPECT_FALSE(allowed.same_bits);
  EXPECT_NE(allowed.mixed, "");
  EXPECT_EQ(allowed.mixed, allowed.reason);
  EXPECT_EQ(allowed.result_per_example, std::vector<bool>{true});
}

// A weight that is used once has one chain of sums over all micro-batches; used twice, it has two.
TEST(CanSplit, OneChainForTheSameBits) {
  Variable w("w", Tensor::ones({kWidth, kWidth}));
  optim::Sgd sgd({w});
  const auto step = [&](bool twice) {
    return asked([&, twice](const Tensor& x) {
      const Tensor y = tanh(matmul(x, w));
      const Loss loss = sgd.minimize(mse(twice ? matmul(y, w) : y, x));
      return std::vector{loss.sum};
    });
  };
  const SplitAnswer once = step(false), twice = step(true);
  EXPECT_TRUE(once.possible && once.same_bits) << once.reason;
  EXPECT_EQ(once.reason, "");
  EXPECT_TRUE(twice.possible);
  EXPECT_FALSE(twice.same_bits);
  EXPECT_NE(twice.reason.find("is not one chain"), std::string::npos) << twice.reason;
}

TEST(CanSplit, CountsAreThoseOfTheWholeBatch) {
  Variable w("w", Tensor::ones({kWidth, kWidth}));
  optim::Sgd sgd({w});
  const Fn fn = [&](const Tensor& x) {  // the mean over examples, not over elements
    const Loss loss = mse(matmul(x, w), x);
    return std::vector{sgd.minimize({loss.sum, Tensor::scalar(x.dim(0), DType::i64)}).sum};
  };
  const SplitAnswer answer = asked(fn);
  ASSERT_EQ(answer.counts.size(), 1u) << answer.reason;
  EXPECT_EQ(answer.counts[0].whole.item(), kAll);

  trace::Trace few = last(fn, kFew);
  const trace::Id constant = answer.counts[0].constant;
  EXPECT_EQ(few.constants[constant].item(), kFew);
  EXPECT_TRUE(with_counts(few, answer));
  EXPECT_EQ(few.constants[constant].item(), kAll);
  few.constants.push_back(Tensor::scalar(1.0f));
  EXPECT_FALSE(with_counts(few, answer)) << "one constant too many";
}

TEST(CanSplit, NumbersMadeOfTheNumberOfExamples) {
  const std::string expected =
      "a number that the function computes with depends on how many examples there are";
  EXPECT_EQ(reason(one([](const Tensor& x) {
              return x * Tensor::scalar(static_cast<float>(x.dim(0)));  // read for every example
            })),
            expected);
  EXPECT_EQ(reason(one([](const Tensor& x) { return x * Tensor::scalar(2.0f); })), "");
}

TEST(CanSplit, ConstantsThatGrowWithTheBatch) {
  EXPECT_EQ(reason(one([](const Tensor& x) { return x + Tensor::ones({x.dim(0), kWidth}); })), "");
  const Fn numbered = one([](const Tensor& x) {
    return x + reshape(Tensor::arange(x.dim(0), DType::f32), {x.dim(0), 1});
  });
  EXPECT_NE(reason(numbered), "") << "not the same for all examples";
}

TEST(CanSplit, WhatAnOpIsTold) {
  EXPECT_EQ(reason(one([](const Tensor& x) { return slice(x, 1, 0, x.dim(0) == kFew ? 1 : 2); })),
            "what slice is told depends on how many examples there are");
  EXPECT_EQ(reason(one([](const Tensor& x) { return reshape(x, {x.dim(0), 1, kWidth}); })), "");
  EXPECT_EQ(reason(one([](const Tensor& x) { return x.dim(0) > kFew ? exp(x) : tanh(x); })),
            "what the function does depends on how many examples there are");
}

TEST(CanSplit, SomeExamples) {
  EXPECT_EQ(reason(one([](const Tensor& x) { return relu(x.rows(0, 1)); })),
            "relu reads some examples of the batch");
  EXPECT_EQ(reason(one([](const Tensor& x) { return x.rows(0, 1); })),
            "a result is some examples of the batch");
}

TEST(CanSplit, Assignments) {
  Variable stat("stat", Tensor::zeros({kWidth}), false);
  const auto assigning = [&](std::function<Tensor(const Tensor&)> to) {
    return Fn([&, to](const Tensor& x) {
      stat.assign(to(x));
      return std::vector{relu(x)};
    });
  };
  const Fn summed = assigning([](const Tensor& x) { return sum(x, {0}); });
  EXPECT_EQ(reason(summed),
            "variable stat is assigned a sum over the examples that no Loss adds up");
  EXPECT_EQ(reason(assigning([&](const Tensor&) { return stat.value() * 0.5f; })), "");
  EXPECT_EQ(asked(assigning([&](const Tensor&) { return stat.value() * 0.5f; })).assigned_in_each,
            std::vector<bool>{false});

  // Where examples may depend on each other, each micro-batch goes on from the one before it.
  const SplitAnswer mixed = asked(
      [&](const Tensor& x) {
        stat.assign(sum(x, {0}));
        return std::vector{x * mean(x, {0}, true)};
      },
      true);
  EXPECT_TRUE(mixed.possible) << mixed.reason;
  EXPECT_EQ(mixed.assigned_in_each, std::vector<bool>{true});
}

TEST(CanSplit, NotExamplesAfterTheOptimizersStep) {
  Variable w("w", Tensor::ones({kWidth, kWidth}));
  optim::Sgd sgd({w});
  EXPECT_EQ(reason([&](const Tensor& x) {
              const Loss loss = sgd.minimize(mse(matmul(x, w), x));
              return std::vector{loss.sum, matmul(x, w)};
            }),
            "matmul reads examples after the optimizer's step");
}

// What was asked of two sizes is asked again of every other one that is run.
TEST(CanSplit, EverySizeDoesTheSame) {
  const Fn jumps =
      one([](const Tensor& x) { return x * Tensor::scalar(x.dim(0) == 4 ? 3.0f : 2.0f); });
  const SplitAnswer answer = asked(jumps);
  ASSERT_TRUE(answer.possible) << "what it was asked of does not show it";
  const trace::Trace few = last(jumps, kFew);
  EXPECT_EQ(why_different(last(jumps, 3), 3, few, kFew, answer), "");
  EXPECT_EQ(why_different(last(jumps, 4), 4, few, kFew, answer),
            "a number that the function computes with depends on how many examples there are");
}

}  // namespace
}  // namespace ebb::plan
