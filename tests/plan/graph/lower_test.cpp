// From a trace to the graph that is searched: what lies where, and what a node may do.
#include "ebb/plan/graph/lower.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/trace/pipeline.hpp"

namespace ebb::plan {
namespace {

using trace::MicroBatch;

constexpr std::int64_t kWidth = 8;

using Fn = std::function<std::vector<Tensor>(const Tensor& x)>;

trace::Trace traced(const Fn& fn, std::int64_t examples = 4, MicroBatch which = MicroBatch::whole) {
  const Spec x{{examples, kWidth}, DType::f32};
  const trace::Function f = [&](std::span<const Tensor> in) { return fn(in[0]); };
  const trace::Trace first = trace::trace(f, {&x, 1}, MicroBatch::probe);
  return trace::simplified(trace::trace(f, {&x, 1}, which, &first));
}

Lowered lowered(const trace::Trace& t, bool state = false, bool stream = false) {
  return lower(t, Machine{}, state, stream);
}

// The node of the call with this op, and the buffer of its first result.
struct Found {
  const Node& node;
  Id buffer;
};
Found find(const trace::Trace& t, const Lowered& l, std::string_view op) {
  for (std::size_t n = 0; n < l.call.size(); ++n) {
    const trace::Call& call = t.calls[l.call[n]];
    if (call.op.type().name == op) return {l.graph.nodes[n], l.buffer_of[call.out[0]]};
  }
  throw Error(std::string("no node is ").append(op));
}

TEST(Lower, ViewsLieInTheirBaseAndRunNothing) {
  const trace::Trace t = traced([](const Tensor& x) {
    const Tensor y = exp(x);
    return std::vector{relu(reshape(y, {y.dim(0) * kWidth})), relu(y)};
  });
  const Lowered l = lowered(t);
  EXPECT_EQ(t.calls.size(), 4u);
  EXPECT_EQ(l.graph.nodes.size(), 3u) << "the reshape is none";
  const Id made = find(t, l, "exp").buffer;
  for (const Node& node : l.graph.nodes)
    if (&node != &find(t, l, "exp").node) {
      EXPECT_EQ(node.in, std::vector<Id>{made});
    }
  EXPECT_EQ(l.graph.buffers.size(), 4u) << "input, exp, and two of relu";
}

TEST(Lower, AResultMayTakeOverBytesOfItsSize) {
  const trace::Trace t = traced([](const Tensor& x) {
    const Tensor y = exp(x);
    return std::vector{relu(y), tanh(x), sum(y, {1}), y * y};
  });
  const Lowered l = lowered(t);
  const Id made = find(t, l, "exp").buffer;
  EXPECT_EQ(find(t, l, "relu").node.reuse, made);
  EXPECT_EQ(find(t, l, "tanh").node.reuse, kNone) << "an input is not the step's";
  EXPECT_EQ(find(t, l, "sum").node.reuse, kNone) << "it is smaller";
  EXPECT_EQ(find(t, l, "mul").node.reuse, kNone) << "it is read twice";
}

TEST(Lower, AVariableIsUpdatedInItsPlace) {
  Variable w("w", Tensor::ones({kWidth, kWidth}));
  optim::Sgd sgd({w});
  const trace::Trace t =
      traced([&](const Tensor& x) { return std::vector{sgd.minimize(mse(matmul(x, w), x)).sum}; });
  const Lowered l = lowered(t, true);
  ASSERT_EQ(t.assigns.size(), 1u);
  const Id state = l.buffer_of[t.assigns[0].value];
  EXPECT_EQ(l.graph.buffers[state].origin, Origin::state);
  EXPECT_EQ(l.graph.buffers[state].bytes, w.spec().bytes());
  EXPECT_TRUE(l.copies.empty());
  const Node& update = find(t, l, t.calls[t.values[t.assigns[0].value].call].op.type().name).node;
  EXPECT_EQ(update.updates, std::vector<Id>{state});
  EXPECT_EQ(std::count(update.in.begin(), update.in.end(), state), 0);
  EXPECT_FALSE(update.again);
  EXPECT_TRUE(find(t, l, "matmul").node.again);
  EXPECT_EQ(lowered(t, false).graph.buffers[state].bytes, 0u) << "it stays where it is";
}

// A bad label may yet stop the step: what the forward pass assigns waits for its end.
TEST(Lower, WhatTheForwardPassAssignsIsCopiedAtTheEnd) {
  Variable stat("stat", Tensor::zeros({kWidth}), false);
  const trace::Trace t = traced([&](const Tensor& x) {
    stat.assign(stat.value() + sum(x, {0}));
    return std::vector{relu(x)};
  });
  const Lowered l = lowered(t, true);
  ASSERT_EQ(l.copies.size(), 1u);
  EXPECT_EQ(l.copies[0].variable, 0);
  const Id from = l.copies[0].from_buffer;
  EXPECT_EQ(from, l.buffer_of[t.assigns[0].value]);
  EXPECT_EQ(l.graph.buffers[from].origin, Origin::made);
  EXPECT_TRUE(l.graph.buffers[from].kept);
}

TEST(Lower, SumsThatGoOnHaveAPlaceOfTheirOwn) {
  Variable w("w", Tensor::ones({kWidth, kWidth}));
  optim::Sgd sgd({w});
  const auto step = [&](const Tensor& x) {
    return std::vector{sgd.minimize(mse(matmul(x, w), x)).sum};
  };
  const trace::Trace t = traced(step, 4, MicroBatch::last);
  const Lowered l = lowered(t);
  std::vector<int> held(t.carry.size());
  for (std::size_t b = 0; b < l.sum_of.size(); ++b) {
    if (l.sum_of[b] == kNone) continue;
    ++held[l.sum_of[b]];
    EXPECT_EQ(l.graph.buffers[b].bytes, 0u);
  }
  std::uint64_t bytes = 0;
  for (std::size_t k = 0; k < held.size(); ++k) {
    if (t.carry[k] == trace::kNone) continue;
    EXPECT_EQ(held[k], 2) << "before this micro-batch and after it";
    EXPECT_TRUE(l.graph.buffers[l.buffer_of[t.carry[k]]].kept);
    bytes += memory::aligned(t.values[t.carry[k]].spec.bytes());
  }
  EXPECT_GE(bytes, w.spec().bytes());
  EXPECT_EQ(l.carry_bytes, bytes);
  for (const Node& node : l.graph.nodes)
    for (const Id b : node.out)
      if (l.sum_of[b] != kNone) {
        EXPECT_FALSE(node.again) << "it would add twice";
        EXPECT_EQ(node.reuse, kNone);
      }
}

TEST(Lower, ALargeResultIsWrittenWhereTheCallerWantsIt) {
  const auto results = [](std::int64_t examples, bool twice) {
    const trace::Trace t = traced(
        [&](const Tensor& x) {
          const Tensor y = exp(x);
          return twice ? std::vector{y, y} : std::vector{y};
        },
        examples);
    const Lowered l = lowered(t);
    const Id b = l.buffer_of[t.results[0]];
    EXPECT_TRUE(l.graph.buffers[b].kept);
    EXPECT_EQ(l.graph.buffers[b].bytes == 0, l.result_of[b] != kNone);
    return l.result_of[b];
  };
  EXPECT_EQ(results(1 << 10, false), 0);
  EXPECT_EQ(results(4, false), kNone) << "a few bytes are copied";
  EXPECT_EQ(results(1 << 10, true), kNone) << "two results cannot be in one place";
}

TEST(Lower, LargeStateIsStreamedWhereItsUpdateAloneUsesIt) {
  constexpr std::int64_t kRows = kPiece * static_cast<std::int64_t>(kPiecesAtOnce) / kWidth + 8;
  Variable w("w", Tensor::ones({kWidth, kRows})), small("small", Tensor::ones({kWidth}));
  optim::Adam adam({w, small});
  const trace::Trace t = traced([&](const Tensor& x) {
    const Tensor y = matmul(x * small, w);
    return std::vector{adam.minimize(mse(y, y * 2.0f)).sum};
  });
  const Lowered l = lowered(t, true, true), whole = lowered(t, true, false);
  EXPECT_TRUE(whole.streams.empty());
  EXPECT_EQ(whole.streamed_bytes, 0u);
  ASSERT_EQ(l.streams.size(), 1u) << "not that of the small one";
  const Lowered::Stream& s = l.streams[0];
  EXPECT_EQ(s.arrays.size(), 2u) << "both moments; the weight is read by the product";
  EXPECT_EQ(l.streamed_bytes, 2 * w.spec().bytes());
  EXPECT_EQ(s.memory, 2 * kPiecesAtOnce * s.place(sizeof(float)));
  EXPECT_EQ(l.graph.nodes[s.node].scratch, whole.graph.nodes[s.node].scratch + s.memory);
  EXPECT_GT(l.graph.nodes[s.node].seconds, whole.graph.nodes[s.node].seconds);
  int streamed = 0;
  for (std::size_t b = 0; b < l.streamed.size(); ++b) {
    if (!l.streamed[b]) continue;
    ++streamed;
    EXPECT_EQ(l.graph.buffers[b].bytes, 0u);
    EXPECT_FALSE(l.graph.buffers[b].spillable) << "its update moves it";
  }
  EXPECT_EQ(streamed, 2);

  optim::Adam of_small({small});
  const trace::Trace little = traced(
      [&](const Tensor& x) { return std::vector{of_small.minimize(mse(x * small, x)).sum}; });
  EXPECT_TRUE(lowered(little, true, true).streams.empty()) << "all of it is no more than a piece";
}

TEST(Lower, OnlyLargeBuffersAreWorthATransfer) {
  const trace::Trace t = traced(
      [](const Tensor& x) { return std::vector{sum(exp(exp(x)) * sum(x, {1}, true))}; }, 1 << 10);
  const Lowered l = lowered(t);
  EXPECT_TRUE(l.graph.buffers[find(t, l, "exp").buffer].spillable);
  EXPECT_FALSE(l.graph.buffers[find(t, l, "sum").buffer].spillable);
  for (const Buffer& b : l.graph.buffers)
    if (b.origin == Origin::given) {
      EXPECT_FALSE(b.spillable);
      EXPECT_EQ(b.bytes, 0u);
    }
}

}  // namespace
}  // namespace ebb::plan
