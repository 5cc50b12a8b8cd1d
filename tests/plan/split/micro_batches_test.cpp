// How a batch is cut, and the traces of a step that is.
#include "ebb/plan/split/micro_batches.hpp"

#include <gtest/gtest.h>

#include "ebb/ops/binary.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "tests/error_of.hpp"

namespace ebb::plan {
namespace {

using Sizes = std::vector<std::int64_t>;

trace::TraceBatch traces_of(const trace::Function& fn) {
  return [fn](std::int64_t examples, trace::MicroBatch which) {
    const Spec x{{examples, 3}, DType::f32};
    const trace::Trace first = trace::trace(fn, {&x, 1}, trace::MicroBatch::probe);
    return trace::trace(fn, {&x, 1}, which, &first);
  };
}

const trace::TraceBatch kRelu =
    traces_of([](std::span<const Tensor> in) { return std::vector{relu(in[0])}; });

TEST(MicroBatches, SizesFallToASingleExample) {
  const CompileOptions options;
  EXPECT_EQ(MicroBatches(kRelu, 16, options).sizes(false), (Sizes{16, 4, 1}));
  EXPECT_EQ(MicroBatches(kRelu, 16, options).sizes(true), (Sizes{16, 8, 6, 4, 3, 2, 1}));
  EXPECT_EQ(MicroBatches(kRelu, 10, options).sizes(false), (Sizes{10, 3, 1}));
  EXPECT_EQ(MicroBatches(kRelu, 1, options).sizes(true), Sizes{1});
  EXPECT_EQ(MicroBatches(kRelu, 10, {.micro_batch = 3}).sizes(true), Sizes{3});
  EXPECT_EQ(MicroBatches(kRelu, 10, {.split = false}).sizes(true), Sizes{10});
}

TEST(MicroBatches, TheLastOneUpdatesTheOthersAddUp) {
  Variable w("w", Tensor::ones({3, 3}));
  optim::Sgd sgd({w});
  const trace::TraceBatch step = traces_of([&](std::span<const Tensor> in) {
    const Tensor y = matmul(in[0], w);
    return std::vector{sgd.minimize(mse(y, in[0])).sum, y};
  });
  const CompileOptions options;
  const MicroBatches batch(step, 10, options);
  const std::optional<Traced> traced = batch.traced(4, DType::f32);
  ASSERT_TRUE(traced);
  EXPECT_EQ(traced->micro_batch, 4);
  EXPECT_EQ(traced->count, 3);
  ASSERT_EQ(traced->traces.size(), 2u);
  const trace::Trace &before = traced->traces[0], &last = traced->traces[1];
  EXPECT_EQ(before.inputs[0].shape[0], 4);
  EXPECT_EQ(last.inputs[0].shape[0], 2) << "what is left of ten";
  EXPECT_TRUE(before.assigns.empty());
  EXPECT_EQ(last.assigns.size(), 1u);
  EXPECT_EQ(before.results.size(), 1u) << "what is made for each example";
  EXPECT_EQ(last.results.size(), 2u);
  EXPECT_EQ(before.carry.size(), last.carry.size());

  const std::optional<Traced> whole = batch.traced(10, DType::f32);
  ASSERT_EQ(whole->traces.size(), 1u);
  EXPECT_TRUE(whole->traces[0].carry.empty());
  EXPECT_EQ(whole->traces[0], batch.whole());
}

TEST(MicroBatches, WhatCannotBeAskedForIsAnError) {
  const trace::TraceBatch mixed = traces_of(
      [](std::span<const Tensor> in) { return std::vector{in[0] * mean(in[0], {0}, true)}; });
  EXPECT_FALSE(MicroBatches(mixed, 8, {}).may_split());
  const std::string error = test::error_of([&] { MicroBatches(mixed, 8, {.micro_batch = 2}); });
  EXPECT_EQ(error.find("compile: .micro_batch is 2, but the batch cannot be taken in "
                       "micro-batches: examples depend on each other in mean"),
            0u)
      << error;
  EXPECT_TRUE(MicroBatches(mixed, 8, {.independent_micro_batches = true}).may_split());

  const trace::TraceBatch picky = traces_of([](std::span<const Tensor> in) {
    if (in[0].dim(0) == 3) throw Error("not three");
    return std::vector{relu(in[0])};
  });
  const CompileOptions options;
  const MicroBatches batch(picky, 8, options);
  EXPECT_TRUE(batch.traced(2, DType::f32));
  EXPECT_FALSE(batch.traced(3, DType::f32)) << "nobody has asked for it";
  const std::string three = test::error_of([&] { MicroBatches(picky, 8, {.micro_batch = 3}); });
  EXPECT_EQ(three,
            "compile: .micro_batch is 3, but the function does not take 3 of the 8 examples: "
            "not three");
}

}  // namespace
}  // namespace ebb::plan
