// What of a step comes from memory: what the shared cache has lost since it was used last.
#include "ebb/plan/graph/far.hpp"

#include <gtest/gtest.h>

#include "ebb/base/error.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/plan/graph/lower.hpp"
#include "ebb/trace/pipeline.hpp"

namespace ebb::plan {
namespace {

constexpr double kMiB = 1 << 20;

using Fn = std::function<std::vector<Tensor>(const Tensor& x)>;

trace::Trace traced(const Fn& fn, const Spec& x) {
  const trace::Function f = [&](std::span<const Tensor> in) { return fn(in[0]); };
  const trace::Trace first = trace::trace(f, {&x, 1}, trace::MicroBatch::probe);
  return trace::simplified(trace::trace(f, {&x, 1}, trace::MicroBatch::whole, &first));
}

// Of the calls of an op, one after the other.
std::vector<double> parts_of(const trace::Trace& t, std::string_view op, double cache) {
  const std::vector<double> all = far_parts(t, lower(t, Machine{}, true, false).buffer_of, cache);
  std::vector<double> found;
  for (std::size_t c = 0; c < t.calls.size(); ++c)
    if (t.calls[c].op.type().name == op) found.push_back(all[c]);
  if (found.empty()) throw Error(std::string("no call is ").append(op));
  return found;
}
double part_of(const trace::Trace& t, std::string_view op, double cache) {
  return parts_of(t, op, cache).at(0);
}

// 256 KiB of weights, their gradient and two states; activations of 32 KiB.
struct Trained {
  Variable w{"w", Tensor::ones({256, 256})};
  optim::AdamW adam{{w}};
  trace::Trace trace = traced(
      [&](const Tensor& x) { return std::vector{adam.minimize(mse(relu(matmul(x, w)), x)).sum}; },
      {{32, 256}, DType::f32});
};

TEST(Far, NothingIsWhereStepsFitIntoTheCache) {
  const Trained model;
  for (const double part :
       far_parts(model.trace, lower(model.trace, Machine{}, true, false).buffer_of, 4 * kMiB))
    EXPECT_EQ(part, 0);
}

TEST(Far, StateIsWhereStepsDoNotFit) {
  const Trained model;
  const double update = part_of(model.trace, "adam", 0.5 * kMiB);
  EXPECT_NEAR(update, 6.0 / 7, 0.01) << "all but the gradient, which was just made";
  EXPECT_EQ(part_of(model.trace, "relu_backward", 0.5 * kMiB), 0) << "activations stay";
  EXPECT_EQ(part_of(model.trace, "adam", 0), 1) << "without a cache";
}

TEST(Far, WhatWasJustWrittenIsNear) {
  const trace::Trace t = traced(
      [](const Tensor& x) {
        const Tensor a = exp(x), b = tanh(a), c = relu(b);
        return std::vector{sum(c, {0, 1}), sum(sin(x) * a, {0, 1})};
      },
      {{256, 256}, DType::f32});  // 256 KiB each
  EXPECT_EQ(part_of(t, "exp", 2 * kMiB), 0) << "all of them fit";
  EXPECT_EQ(part_of(t, "tanh", 0.6 * kMiB), 0.5) << "what it reads is near, what it writes is not";
  EXPECT_GT(part_of(t, "mul", 0.6 * kMiB), 0) << "too much was used since exp";
}

TEST(Far, LargeResultsAreWrittenPastTheCache) {
  const auto of_rows = [](std::int64_t rows) {
    return traced(
        [](const Tensor& x) {
          return std::vector{sum(exp(x), {0, 1})};
        },
        {{rows, 1024}, DType::f32});
  };
  EXPECT_EQ(part_of(of_rows(1024), "sum", 64 * kMiB), 0);
  EXPECT_GT(part_of(of_rows(4096), "sum", 64 * kMiB), 0.99);
}

// Only the rows that are read count, not the whole table.
TEST(Far, ATableCountsForTheRowsThatAreRead) {
  Variable table("table", Tensor::ones({4096, 256}));  // 4 MiB
  const trace::Trace t = traced(
      [&](const Tensor& x) {
        const Tensor rows = gather(table, cast(sum(x, {1}), DType::i32));
        return std::vector{sum(rows, {0, 1})};
      },
      {{64, 8}, DType::f32});
  EXPECT_NEAR(part_of(t, "gather", 1 * kMiB), 0.5, 0.01);
  EXPECT_EQ(part_of(t, "gather", 8 * kMiB), 0);
}

TEST(Far, ACallIsAsLongAsMemoryTakes) {
  const Trained model;
  Machine m;
  m.shared_cache = 0.5 * kMiB;
  const auto seconds = [&] {
    double all = 0;
    for (const Node& n : lower(model.trace, m, true, false).graph.nodes) all += n.seconds;
    return all;
  };
  for (Machine::Speed& s : m.speeds) s.far = 8e9;
  const double near = seconds();
  for (Machine::Speed& s : m.speeds) s.far = 4e9;
  const double far = seconds();
  EXPECT_GT(far, near + 6 * 256 * 1024 / 8e9) << "at least the update's share, twice as long";
  m.shared_cache = 4 * kMiB;
  EXPECT_LT(seconds(), near);
}

}  // namespace
}  // namespace ebb::plan
