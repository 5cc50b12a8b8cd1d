// Batches in micro-batches of any size, the last one ragged, and what may be split under which label.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ebb/exec/compile.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/dropout.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb {
namespace {

constexpr std::int64_t kRows = 41;

struct Net {  // each weight is used once for an example
  nn::Conv2d conv;
  nn::Dense up, head;
  nn::LayerNorm norm;
  explicit Net(const nn::Init& init)
      : conv(init / "conv", 2, 8, 3, {.padding = {1, 1, 1, 1}}),
        up(init / "up", 8, 24, {.activation = Activation::gelu}),
        head(init / "head", 24, 5),
        norm(init / "norm", 24) {}
  Tensor operator()(const Tensor& x) const {
    return head(dropout(norm(up(mean(relu(conv(x)), {1, 2}))), 0.2));
  }
  void each(auto&& f) {
    f("conv", conv);
    f("up", up);
    f("head", head);
    f("norm", norm);
  }
};

struct Tied {  // one weight, used twice
  Variable w;
  explicit Tied(const nn::Init&) : w("w", random::normal({18, 18}, 0, 0.3, 5, 5)) {}
  Tensor operator()(const Tensor& x) const {
    return matmul(tanh(matmul(reshape(mean(x, {1}), {x.dim(0), 18}), w)), w);
  }
  void each(auto&& f) { f("w", w); }
};

Tensor image() { return random::normal({kRows, 9, 9, 2}, 0, 1, 1, 1); }
Tensor labels() {
  std::vector<std::int32_t> all(kRows);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i * 7 % 5);
  return Tensor::from(all, {kRows});
}

// The parameters after a step of SGD at rate 1: their gradient, to the bit.
template <class Model>
std::vector<float> stepped(const CompileOptions* options, plan::Plan* plan = nullptr) {
  random::seed(3);
  Model model{nn::Init(2)};
  optim::Sgd sgd(params(model), {.lr = 1});
  const Batch batch{{"x", image()}, {"y", labels()}};
  const auto fn = [&](const Batch& b) {
    return sgd.minimize(sparse_cross_entropy(model(b["x"]), b["y"]));
  };
  if (options) {
    auto step = compile({{"x", batch["x"].spec()}, {"y", batch["y"].spec()}}, *options, fn);
    step(batch);
    if (plan) *plan = step.plan();
  } else {
    Tape tape;
    fn(batch);
  }
  std::vector<float> out;
  for (const Variable& v : params(model)) {
    const std::vector<float> part = v.value().to_vector<float>();
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

TEST(MicroBatches, RaggedOnesGiveTheGradientOfTheWhole) {
  const auto net = stepped<Net>(nullptr), tied = stepped<Tied>(nullptr);
  const unsigned seed = std::random_device{}();
  std::mt19937 draw(seed);
  for (int trial = 0; trial < 20; ++trial) {
    const auto rows = 1 + static_cast<std::int64_t>(draw() % (kRows - 1));
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", parts of " << rows << " rows");
    const CompileOptions options{.micro_batch = rows};
    plan::Plan plan;
    EXPECT_EQ(stepped<Net>(&options, &plan), net);
    ASSERT_EQ(plan.runs.size(), static_cast<std::size_t>((kRows + rows - 1) / rows));
    EXPECT_EQ(plan.runs.back().examples, kRows - (kRows - 1) / rows * rows);
    const auto close = stepped<Tied>(&options);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < close.size(); ++i) {
      difference += std::pow(double{close[i]} - double{tied[i]}, 2);
      size += std::pow(double{tied[i]}, 2);
    }
    EXPECT_LE(std::sqrt(difference / size), 1e-5);
  }
}

bool splits(const plan::Plan& plan) {
  bool any = false;
  for (const plan::FrontierPoint& w : plan.frontier) any |= w.split;
  return any;
}

TEST(MicroBatches, SameBitsAdmitsASplitOnlyWhereItIsBitEqual) {
  const CompileOptions bits{.allow = Allow::same_bits}, gradient{};
  plan::Plan plan;
  stepped<Net>(&bits, &plan);
  EXPECT_TRUE(splits(plan));
  for (const plan::FrontierPoint& w : plan.frontier)
    EXPECT_EQ(w.label, Allow::same_bits) << w.text();
  // And the smallest budget, which is one of parts, gives the bits of the whole.
  const CompileOptions smallest{.memory = ByteSize{plan.minimum}, .allow = Allow::same_bits};
  const auto whole = stepped<Net>(nullptr);
  EXPECT_EQ(stepped<Net>(&smallest, &plan), whole);
  EXPECT_TRUE(plan.split());

  stepped<Tied>(&bits, &plan);
  EXPECT_FALSE(splits(plan));
  stepped<Tied>(&gradient, &plan);
  EXPECT_TRUE(splits(plan));
  for (const plan::FrontierPoint& w : plan.frontier)
    EXPECT_EQ(w.label, w.split ? Allow::same_gradient : Allow::same_bits) << w.text();
}

// The gradient of a sum starts from a constant, broadcast to the rows of the part.
TEST(MicroBatches, ABroadcastOfConstantsHasTheRowsOfThePart) {
  const auto trained = [](std::int64_t rows_of_all, const CompileOptions* options,
                          plan::Plan* plan) {
    nn::Dense dense(nn::Init(1), 16, 40);
    optim::Sgd sgd({dense.weight, dense.bias}, {.lr = 0.5});
    const Tensor x = random::normal({rows_of_all, 16}, 0, 1, 1, 1);
    const auto fn = [&](const Batch& b) {
      const Tensor y = dense(b["x"]);
      return sgd.minimize(Loss{sum(y), sum(cast(y * 0.0f + 1.0f, DType::i64))});
    };
    if (options) {
      auto step = compile({{"x", x.spec()}}, *options, fn);
      step({{"x", x}});
      *plan = step.plan();
    } else {
      Tape tape;
      fn({{"x", x}});
    }
    return dense.weight.value().to_vector<float>();
  };
  plan::Plan plan;
  for (const std::int64_t all : {2, 23, 2000}) {
    const auto whole = trained(all, nullptr, nullptr);
    for (const std::int64_t rows : {1, 7, 700}) {
      if (rows >= all) continue;
      const CompileOptions options{.micro_batch = rows};
      EXPECT_EQ(trained(all, &options, &plan), whole) << all << " in parts of " << rows;
      EXPECT_EQ(plan.runs.size(), static_cast<std::size_t>((all + rows - 1) / rows));
    }
  }
  // 320 kB, which live from the loss to the walk back's first call.
  const CompileOptions options{.split = false};
  EXPECT_EQ(trained(2000, &options, &plan), trained(2000, nullptr, nullptr));
  for (const Tensor& t : plan.programs[0].trace.constants) EXPECT_LT(t.spec().bytes(), 1000u);
}

}  // namespace
}  // namespace ebb
