// The loss of a step in micro-batches is that of the whole batch, to the bit; so is an evaluation's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ebb/exec/compile.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/linear_cross_entropy.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb {
namespace {

constexpr std::int64_t kRows = 47, kIn = 12, kOut = 6;

struct Net {
  nn::Dense up, head;
  explicit Net(const nn::Init& init)
      : up(init / "up", kIn, 20, {.activation = Activation::gelu}), head(init / "head", 20, kOut) {}
  Tensor operator()(const Tensor& x) const { return head(up(x)); }
  void each(auto&& f) {
    f("up", up);
    f("head", head);
  }
};

using LossOf = std::function<Loss(const Net&, const Batch&)>;

Batch batch(std::int64_t rows = kRows) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = i % 7 == 3 ? -100 : static_cast<std::int32_t>(i * 5 % kOut);
  return {{"x", random::normal({rows, kIn}, 0, 1, 1, 1)},
          {"t", random::uniform({rows, kOut}, 0, 1, 2, 2)},
          {"y", Tensor::from(labels, {rows})}};
}
BatchSpec spec_of(const Batch& b) {
  return {{"x", b["x"].spec()}, {"t", b["t"].spec()}, {"y", b["y"].spec()}};
}

struct Named {
  const char* name;
  LossOf loss;
};
const Named kLosses[] = {
    {"sparse_cross_entropy",
     [](const Net& n, const Batch& b) { return sparse_cross_entropy(n(b["x"]), b["y"]); }},
    {"cross_entropy",
     [](const Net& n, const Batch& b) { return cross_entropy(n(b["x"]), b["t"]); }},
    {"binary_cross_entropy",
     [](const Net& n, const Batch& b) { return binary_cross_entropy(n(b["x"]), b["t"]); }},
    {"mse", [](const Net& n, const Batch& b) { return mse(n(b["x"]), b["t"]); }},
    {"mae", [](const Net& n, const Batch& b) { return mae(n(b["x"]), b["t"]); }},
    {"huber", [](const Net& n, const Batch& b) { return huber(n(b["x"]), b["t"], 0.5); }},
    {"linear_cross_entropy",
     [](const Net& n, const Batch& b) {
       return linear_cross_entropy(n.up(b["x"]), n.head.weight.value(), b["y"]);
     }},
    {"sum of squares",
     [](const Net& n, const Batch& b) {
       const Tensor away = n(b["x"]) - b["t"];
       return Loss{sum(away * away), Tensor::scalar(double(b["x"].dim(0)), DType::i64)};
     }},
    {"scaled and added",
     [](const Net& n, const Batch& b) {
       const Tensor y = n(b["x"]);
       const Loss a = cross_entropy(y, b["t"]), l = mse(y, b["t"]);
       return Loss{a.sum * 0.3f + l.sum / 7.0f, a.count};
     }},
};

struct Told {
  std::vector<Tensor> loss;
  std::vector<float> weights;
};

Told told(const LossOf& loss, bool train, std::int64_t rows, bool eager = false,
          bool rounded = false, std::int64_t made_for = kRows) {
  Net model{nn::Init(3)};
  optim::Sgd sgd(params(model), {.lr = 1});
  const Batch b = batch();
  const auto fn = [&](const Batch& in) {
    const Loss l = loss(model, in);
    return train ? sgd.minimize(l) : l;
  };
  Told out;
  if (eager) {
    Tape tape;
    const Loss l = fn(b);
    out.loss = {l.sum, l.count};
  } else {
    const Allow allow = rounded ? Allow::same_gradient : Allow::same_bits;
    auto step = compile(spec_of(batch(made_for)),
                        {.allow = allow, .split = rows > 0, .micro_batch = rows}, fn);
    const Loss l = step(b);
    out.loss = {l.sum, l.count};
    EXPECT_EQ(step.plan().split(), rows > 0);
    if (made_for > kRows && rows > 0) {  // the same places: what is left over is no last part
      EXPECT_EQ(step.plan().runs.back().examples, made_for % rows);
    }
  }
  for (const Variable& v : params(model)) {
    const auto all = v.value().to_vector<float>();
    out.weights.insert(out.weights.end(), all.begin(), all.end());
  }
  return out;
}

void expect_same(const Told& a, const Told& b) {
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(a.loss[i].spec(), b.loss[i].spec());
    EXPECT_EQ(std::memcmp(a.loss[i].raw(), b.loss[i].raw(), a.loss[i].spec().bytes()), 0)
        << (i ? "count " : "sum ") << a.loss[i].item() << " and " << b.loss[i].item();
  }
  EXPECT_EQ(a.weights, b.weights);
}

TEST(LossOfMicroBatches, AnyPartsGiveTheLossOfTheWhole) {
  const unsigned seed = std::random_device{}();
  std::mt19937 draw(seed);
  for (const Named& l : kLosses)
    for (const bool train : {true, false}) {
      const Told whole = told(l.loss, train, 0, true);
      for (int trial = 0; trial < 5; ++trial) {
        const auto rows = 1 + (trial == 0 ? 0 : static_cast<std::int64_t>(draw() % (kRows - 1)));
        SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << l.name << ", parts of "
                                        << rows << " rows, " << (train ? "trained" : "evaluated"));
        expect_same(told(l.loss, train, rows), whole);
      }
      expect_same(told(l.loss, train, 0), whole);
    }
}

// A ragged batch runs in the plan of a full one, and counts its own rows.
TEST(LossOfMicroBatches, ASmallerBatchHasTheLossOfItsOwnRows) {
  for (const Named& l : kLosses)
    for (const bool train : {true, false}) {
      const Told whole = told(l.loss, train, 0, true);
      for (const std::int64_t rows : {0, 10, 29}) {
        SCOPED_TRACE(testing::Message() << l.name << ", parts of " << rows << " rows, "
                                        << (train ? "trained" : "evaluated"));
        expect_same(told(l.loss, train, rows, false, false, 64), whole);
      }
    }
}

// What is made of several sums, which each go on by themselves.
TEST(LossOfMicroBatches, AnythingMadeOfThemIsThatOfTheWhole) {
  const unsigned seed = std::random_device{}();
  std::mt19937 draw(seed);
  for (int trial = 0; trial < 25; ++trial) {
    std::vector<int> kinds, ways;
    for (std::size_t n = 2 + draw() % 3; n > 0; --n) {
      kinds.push_back(static_cast<int>(draw() % 5));
      ways.push_back(static_cast<int>(draw() % 5));
    }
    const LossOf loss = [&](const Net& n, const Batch& b) {
      const Tensor y = n(b["x"]);
      const auto part = [&](int kind) -> Tensor {
        switch (kind) {
          case 0:
            return mse(y, b["t"]).sum;
          case 1:
            return sparse_cross_entropy(y, b["y"]).sum;
          case 2:
            return sum(reshape(square(y), {y.dim(0), 2, 3}));
          case 3:
            return huber(tanh(y), b["t"], 0.2).sum;
          default:
            return loss_of(sum(exp(y), {1})).sum;
        }
      };
      Tensor all = part(kinds[0]);
      for (std::size_t i = 1; i < kinds.size(); ++i) {
        const Tensor next = part(kinds[i]);
        if (ways[i] == 0) all = all + next;
        if (ways[i] == 1) all = 0.3 * all - next;
        if (ways[i] == 2) all = (all + next * 2) / 3;
        if (ways[i] == 3) all = -next + all * Tensor::scalar(0.7);
        if (ways[i] == 4) all = next;
      }
      return Loss{all, mse(y, b["t"]).count};
    };
    const bool train = draw() % 2;
    const auto rows = 1 + static_cast<std::int64_t>(draw() % (kRows - 1));
    std::string text;
    for (std::size_t i = 0; i < kinds.size(); ++i) text += fmt::format(" {}/{}", kinds[i], ways[i]);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", trial " << trial << ": parts of "
                                    << rows << (train ? ", trained," : ",") << text);
    // The gradients of several terms are added up part by part: up to rounding.
    const Told whole = told(loss, train, 0, true), parts = told(loss, train, rows, false, true);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(parts.loss[i].item(), whole.loss[i].item()) << i;
  }
}

// An evaluation needs no more than training, whose parts it can have as well.
TEST(LossOfMicroBatches, AnEvaluationFitsWhereTrainingDoes) {
  const std::int64_t rows = 4096;
  nn::Dense up(nn::Init(1) / "up", 256, 512), head(nn::Init(1) / "head", 512, 256);
  optim::Sgd sgd({up.weight, up.bias, head.weight, head.bias});
  const BatchSpec spec{{"x", {{rows, 256}, DType::f32}}};
  const auto loss = [&](const Batch& b) {
    const Tensor y = head(relu(up(b["x"])));
    return Loss{sum(y * y), Tensor::scalar(double(b["x"].dim(0)), DType::i64)};
  };
  const CompileOptions bits{.allow = Allow::same_bits};
  const auto smallest = [&](auto fn) { return compile(spec, bits, fn).plan().minimum; };
  const std::uint64_t evaluated = smallest(loss);
  EXPECT_LE(evaluated, smallest([&](const Batch& b) { return sgd.minimize(loss(b)); }));
  const CompileOptions little{.memory = ByteSize{evaluated}, .allow = Allow::same_bits};
  const auto first = [&](const CompileOptions& o, bool split) {  // its budget ends with it
    auto step = compile(spec, o, loss);
    EXPECT_EQ(step.plan().split(), split);
    const Loss l = step({{"x", random::normal({rows, 256}, 0, 1, 4, 4)}});
    return std::pair(l.sum.item(), l.count.item());
  };
  const auto in_parts = first(little, true);
  EXPECT_EQ(in_parts, first({.split = false}, false));
  EXPECT_EQ(in_parts.second, rows);
}

}  // namespace
}  // namespace ebb
