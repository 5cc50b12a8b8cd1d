// Variables that a compiled function assigns itself, and plans for other numbers of threads.
#include <gtest/gtest.h>

#include <optional>

#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/exec/compile.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/attention.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/linear_cross_entropy.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/ema.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb {
namespace {

Variable variable(const char* name, const Shape& shape) {
  return nn::Init(1).make(name, shape, nn::normal(0, 1), false);
}

std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

TEST(Assigned, InputsViewsAndOtherVariables) {
  Variable h = variable("h", {1, 3}), c = variable("c", {1, 3}), copy = variable("copy", {2, 3});
  Variable twin = variable("twin", {2, 3}), source = variable("source", {2, 3});
  const Tensor x = random::normal({2, 3}, 0, 1, 1, 2);
  auto step = compile({{"x", x.spec()}}, {.split = false}, [&](const Batch& b) {
    const Tensor state = b["x"] * 2;  // (2, 3): its rows are views
    h.assign(slice(state, 0, 0, 1));
    c.assign(slice(state, 0, 1, 2));
    copy.assign(b["x"]);
    twin.assign(source.value());
    return sum(state);
  });
  step(Batch{{"x", x}});
  const std::vector<float> given = values(x);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(values(h.value())[i], 2 * given[i]);
    EXPECT_EQ(values(c.value())[i], 2 * given[i + 3]) << "the second row, not the first";
  }
  EXPECT_EQ(values(copy.value()), given);
  EXPECT_EQ(values(twin.value()), values(source.value()));
}

// Running statistics are made before the loss looks at its labels.
TEST(Assigned, AStepThatFailsAssignsNothing) {
  nn::BatchNorm norm(nn::Init(1), 3);
  freeze(norm);
  Variable w("w", Tensor::ones({5, 3}));
  optim::Sgd sgd({w});
  const BatchSpec spec{{"x", Spec{{2, 3}}}, {"y", Spec{{2}, DType::i64}}};
  auto step = compile(spec, {}, [&](const Batch& b) {
    return sgd.minimize(linear_cross_entropy(norm(b["x"]), w, b["y"]));
  });
  const Tensor x = Tensor::of({{1, 2, 3}, {4, 5, 6}});
  EXPECT_THROW(step(Batch{{"x", x}, {"y", Tensor::full({2}, 9, DType::i64)}}), Error);
  EXPECT_EQ(values(norm.running_mean.value()), std::vector<float>(3, 0));
  EXPECT_EQ(values(norm.running_var.value()), std::vector<float>(3, 1));
  EXPECT_EQ(values(w.value()), std::vector<float>(15, 1));
  step(Batch{{"x", x}, {"y", Tensor::full({2}, 4, DType::i64)}});
  EXPECT_NE(values(norm.running_mean.value()), std::vector<float>(3, 0));
  EXPECT_EQ(sgd.steps(), 1);
}

TEST(Assigned, AnOldValueReadAfterItsReplacement) {
  Variable v = variable("v", {4});
  const std::vector<float> before = values(v.value());
  const Tensor x = random::normal({4}, 0, 1, 1, 2);
  auto step = compile({{"x", x.spec()}}, {.split = false}, [&](const Batch& b) {
    const Tensor old = v.value();
    v.assign(b["x"] + 1);
    return old * b["x"];
  });
  const std::vector<float> y = values(step(Batch{{"x", x}}));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(y[i], before[i] * values(x)[i]);
    EXPECT_EQ(values(v.value())[i], values(x)[i] + 1);
  }
}

TEST(Assigned, TwiceInOneStepTheLastOneCounts) {
  const Tensor x = random::normal({4, 3}, 0, 1, 1, 2);
  const auto trained = [&](bool eager) {
    nn::Dense layer(nn::Init(1), 3, 2);
    optim::Adam adam(params(layer), {.lr = 0.1});
    const auto fn = [&](const Batch& b) {
      layer.weight.assign(clip(layer.weight, -0.25, 0.25));
      return adam.minimize(mse(layer(b["x"]), Tensor::zeros({b["x"].dim(0), 2})));
    };
    auto step = compile({{"x", x.spec()}}, {}, fn);
    for (int i = 0; i < 3; ++i) {
      std::optional<Tape> tape;
      if (eager) fn((tape.emplace(), Batch{{"x", x}}));
      if (!eager) step(Batch{{"x", x}});
    }
    return values(layer.weight.value());
  };
  EXPECT_EQ(trained(false), trained(true));
}

// Kernels take scratch for every thread there is: a plan is for a number of threads.
TEST(Threads, MoreThanAStepWasPlannedFor) {
  const int before = pool::threads();
  const Tensor x = random::normal({256, 512}, 0, 1, 1, 2),
               w = random::normal({512, 512}, 0, 1, 1, 3);
  const auto fn = [&](const Batch& b) {
    const Tensor y = matmul(b["x"], w);
    const Tensor q = y.viewed({4, 64, 512});
    return sum(attention(q, q, q, {.heads = 8, .causal = true})) + sum(y);
  };
  pool::set_threads(1);
  auto step = compile({{"x", x.spec()}}, {.split = false}, fn);
  const Tensor one = step(Batch{{"x", x}});
  pool::set_threads(4);
  const Tensor four = step(Batch{{"x", x}});
  pool::set_threads(before);
  EXPECT_EQ(one.item(), four.item());
}

TEST(Subsumed, ViewsThatNoCallMade) {
  const Tensor x = random::normal({6, 8}, 0, 1, 1, 2);
  Variable w = nn::Init(1).make("w", {5, 8}, nn::normal(0, 1));
  const Tensor labels = Tensor::from(std::vector<std::int32_t>{0, 1, 2, 3, 4, 0}, {6});
  const Batch batch{{"x", x}, {"y", labels}};
  const auto fn = [&](const Batch& b) {
    const Loss loss = linear_cross_entropy(b["x"].rows(0, 4), w, b["y"].rows(0, 4));
    return gradients(loss.sum, {w})[0];
  };
  auto step = compile({{"x", x.spec()}, {"y", labels.spec()}}, {.split = false}, fn);
  const Tensor compiled = step(batch);
  Tape tape;
  const Loss loss = linear_cross_entropy(x.rows(0, 4), w, labels.rows(0, 4));
  const Tensor eager = tape.gradient(loss.sum, w.value());
  EXPECT_EQ(std::memcmp(eager.raw(), compiled.raw(), eager.spec().bytes()), 0);
}

// The averages read the parameters' new values, so those are copied to their place at the end.
TEST(Assigned, AveragesWhereStateIsSpilled) {
  struct Net {
    std::vector<nn::Dense> layers;
    optim::Adam adam;
    optim::Ema ema;
    explicit Net(std::vector<nn::Dense> l)
        : layers(std::move(l)), adam(all(layers)), ema(all(layers), 0.9) {}
    static std::vector<Variable> all(std::vector<nn::Dense>& layers) {
      std::vector<Variable> found;
      for (nn::Dense& d : layers) found.push_back(d.weight);
      return found;
    }
    static std::vector<nn::Dense> made() {
      std::vector<nn::Dense> l;
      for (int i = 0; i < 6; ++i)
        l.emplace_back(nn::Init(1) / i, 256, 256, nn::DenseOptions{.bias = false});
      return l;
    }
  };
  const Tensor x = random::normal({16, 256}, 0, 1, 1, 2);
  std::vector<float> results[2];
  constexpr std::uint64_t kMargin = 256 << 10;
  std::uint64_t budget = 0;
  for (std::vector<float>& result : results) {
    Net net(Net::made());
    const auto fn = [&](const Batch& b) {
      Tensor y = b["x"];
      for (const nn::Dense& d : net.layers) y = d(y);
      const Loss loss = net.adam.minimize(mse(y, Tensor::zeros(y.shape())));
      net.ema.update();
      return loss;
    };
    const auto planned = [&] {
      return compile({{"x", x.spec()}}, {.memory = ByteSize{budget}, .split = false}, fn);
    };
    auto step = [&] {
      try {
        return planned();
      } catch (const BudgetTooSmall& e) {  // the process has grown meanwhile
        budget = e.minimum + kMargin;
        return planned();
      }
    }();
    for (int i = 0; i < 3; ++i) step(Batch{{"x", x}});
    const auto applied = net.ema.apply();
    for (const nn::Dense& d : net.layers) {
      std::vector<float> part(static_cast<std::size_t>(d.weight.spec().size()));
      d.weight.read(std::as_writable_bytes(std::span(part)), 0);
      result.insert(result.end(), part.begin(), part.end());
    }
    EXPECT_EQ(step.plan().chosen.state_spilled, budget != 0);
    budget = step.plan().minimum + kMargin;
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace ebb
