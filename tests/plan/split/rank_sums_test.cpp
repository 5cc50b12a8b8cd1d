// Which sums ranks hand on, asked of small functions.
#include "ebb/plan/split/rank_sums.hpp"

#include <gtest/gtest.h>

#include "ebb/nn/layers.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/trace/passes.hpp"
#include "ebb/trace/pipeline.hpp"
#include "tests/error_of.hpp"

namespace ebb::plan {
namespace {

constexpr std::int64_t kFew = 2, kSome = 3, kAll = 6, kWidth = 3;

using Fn = std::function<Loss(const Tensor& x)>;  // of x (examples, kWidth)

trace::Trace last(const Fn& fn, optim::Optimizer& optimizer, std::int64_t examples) {
  const Spec x{{examples, kWidth}, DType::f32};
  const trace::Function f = [&](std::span<const Tensor> in) {
    const Loss loss = optimizer.minimize(fn(in[0]));
    return std::vector{loss.sum, loss.count};
  };
  const trace::Trace probe = trace::trace(f, {&x, 1}, trace::MicroBatch::probe);
  return trace::simplified(trace::trace(f, {&x, 1}, trace::MicroBatch::last, &probe));
}

struct Asked {
  RankSums sums;
  trace::Trace adds, updates;  // of some examples
};
Asked asked(const Fn& fn, const std::vector<Variable>& weights) {
  optim::Sgd sgd(weights, {.lr = 0.1});
  Asked a{find_rank_sums(last(fn, sgd, kFew), kFew, last(fn, sgd, kSome), kSome), {}, {}};
  if (!a.sums.possible()) return a;
  const trace::Trace t =
      with_rank_sums(last(fn, sgd, 1), a.sums, last(fn, sgd, kAll));  // of one example, too
  a.adds = trace::before_last(t, {false, false}, std::vector<bool>(t.assigns.size()));
  a.updates = trace::after_sums(t, {false, false});
  return a;
}

bool calls(const trace::Trace& t, std::string_view op) {
  for (const trace::Call& call : t.calls)
    if (call.op.type().name == op) return true;
  return false;
}

TEST(RankSums, AWeightThatIsUsedOnce) {
  const Variable w("w", Tensor::ones({kWidth, 2}));
  const Asked a =
      asked([&](const Tensor& x) { return loss_of(sum(relu(matmul(x, w)), {1})); }, {w});
  ASSERT_TRUE(a.sums.possible()) << a.sums.reason;
  EXPECT_FALSE(a.sums.in_turn());
  EXPECT_TRUE(calls(a.adds, "matmul"));
  EXPECT_FALSE(calls(a.adds, "sgd"));
  EXPECT_TRUE(calls(a.updates, "sgd"));
  EXPECT_FALSE(calls(a.updates, "matmul"));
  EXPECT_EQ(a.adds.carry.size(), a.updates.carry.size());
}

// The second use goes on from the first one's total.
TEST(RankSums, AWeightThatIsUsedTwice) {
  const Variable w("w", Tensor::ones({kWidth, kWidth}));
  const Asked a = asked(
      [&](const Tensor& x) { return loss_of(sum(relu(matmul(relu(matmul(x, w)), w)), {1})); }, {w});
  ASSERT_TRUE(a.sums.possible()) << a.sums.reason;
  EXPECT_TRUE(a.sums.in_turn());
  const std::vector<trace::Id>& starts = a.adds.starts;
  ASSERT_EQ(starts.size(), a.adds.carry.size());
  EXPECT_EQ(std::count(starts.begin(), starts.end(), trace::kNone), std::ssize(starts) - 1);
}

// A gradient that is made of a sum is made once, of the total.
TEST(RankSums, WhatIsMadeOfSumsIsMadeOnce) {
  const Variable table("table", Tensor::ones({8, kWidth}));
  const Asked a = asked(
      [&](const Tensor& x) {
        return loss_of(sum(relu(x + sum(ops::first_rows(table, 2), {0})), {1}));
      },
      {table});
  ASSERT_TRUE(a.sums.possible()) << a.sums.reason;
  EXPECT_FALSE(calls(a.adds, "unslice"));
  EXPECT_TRUE(calls(a.updates, "unslice"));
}

TEST(RankSums, ExamplesThatDependOnEachOtherAreNoSums) {
  const Variable w("w", Tensor::ones({kWidth, 2}));
  const Asked a = asked(
      [&](const Tensor& x) {
        const Tensor y = matmul(x, w);
        return loss_of(sum(y * mean(y, {0}, true), {1}));
      },
      {w});
  EXPECT_FALSE(a.sums.possible());
  EXPECT_HAS(a.sums.reason, "depend");
}

}  // namespace
}  // namespace ebb::plan
