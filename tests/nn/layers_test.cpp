#include "ebb/nn/layers.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/nn/params.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using test::error_of;

std::vector<std::string> names(const std::vector<Variable>& vs) {
  std::vector<std::string> all;
  for (const Variable& v : vs) all.push_back(v.name());
  return all;
}

struct Net {
  nn::Conv2d conv;
  nn::BatchNorm norm;
  nn::Sequential<nn::Dense, Tensor (*)(const Tensor&), nn::Dense> head;
  explicit Net(nn::Init init)
      : conv(init / "conv", 3, 8, 3, {.padding = {1, 1, 1, 1}}),
        norm(init / "norm", 8),
        head(nn::Dense(init / "head" / 0, 8, 16), &relu, nn::Dense(init / "head" / 2, 16, 4)) {}
  Tensor operator()(const Tensor& x) const { return head(mean(relu(norm(conv(x))), {1, 2})); }
  void each(auto&& f) {
    f("conv", conv);
    f("norm", norm);
    f("head", head);
  }
};

TEST(Params, HaveStableNamesInOrder) {
  Net net(nn::Init(1));
  EXPECT_EQ(
      names(params(net)),
      (std::vector<std::string>{"conv.weight", "conv.bias", "norm.weight", "norm.bias",
                                "head.0.weight", "head.0.bias", "head.2.weight", "head.2.bias"}));
  EXPECT_EQ(variables(net).size(), 10u) << "running statistics are not trained, but are part of it";
}

struct Twice {
  nn::Dense a, b;
  void each(auto&& f) {
    f("a", a);
    f("b", b);
  }
};

TEST(Params, ADuplicateNameIsRefusedAndATiedOneCountsOnce) {
  const nn::Init init(1);
  Twice bad{nn::Dense(init / "x", 2, 2), nn::Dense(init / "x", 2, 2)};
  EXPECT_NE(error_of([&] { params(bad); }).find("two parameters are named x.weight"),
            std::string::npos);
  const nn::Dense one(init / "x", 2, 2);
  Twice tied{one, one};
  EXPECT_EQ(params(tied).size(), 2u);
}

TEST(Init, DependsOnSeedAndNameOnly) {
  const nn::Dense a(nn::Init(1) / "up", 20, 30), b(nn::Init(1) / "up", 20, 30);
  const nn::Dense c(nn::Init(2) / "up", 20, 30), e(nn::Init(1) / "down", 20, 30);
  const auto w = [](const nn::Dense& l) { return l.weight.value().to_vector<float>(); };
  EXPECT_EQ(w(a), w(b));
  EXPECT_NE(w(a), w(c));
  EXPECT_NE(w(a), w(e));
  for (const float x : w(a)) EXPECT_LE(std::abs(x), 1 / std::sqrt(20.f));
}

TEST(Init, DistributionsHaveTheirMoments) {
  const nn::Init init(3);
  const auto moments = [&](const char* name, const nn::Initialiser& first) {
    const auto all = init.make(name, {200, 500}, first).value().to_vector<float>();
    double sum = 0, squares = 0;
    for (const double x : all) sum += x, squares += x * x;
    const double n = static_cast<double>(all.size());
    return std::pair(sum / n, std::sqrt(squares / n - sum / n * sum / n));
  };
  const auto [m1, s1] = moments("normal", nn::normal(1, 2));
  EXPECT_NEAR(m1, 1, 0.03);
  EXPECT_NEAR(s1, 2, 0.03);
  const auto [m2, s2] = moments("xavier", nn::xavier_uniform(500, 200));
  EXPECT_NEAR(m2, 0, 0.001);
  EXPECT_NEAR(s2, std::sqrt(2.0 / 700), 0.001);
  EXPECT_NEAR(moments("kn", nn::kaiming_normal(500)).second, std::sqrt(2.0 / 500), 0.001);
  EXPECT_NEAR(moments("ku", nn::kaiming_uniform(500)).second, std::sqrt(2.0 / 500), 0.001);
  EXPECT_NEAR(moments("xn", nn::xavier_normal(500, 200)).second, std::sqrt(2.0 / 700), 0.001);
}

TEST(Dense, IsTheProductPlusBias) {
  const nn::Dense layer(nn::Init(1) / "d", 5, 3, {.activation = Activation::relu});
  const Tensor x = random::uniform({2, 4, 5}, -1, 1, 9, 9);
  const Tensor y = layer(x);
  ASSERT_EQ(y.shape(), Shape({2, 4, 3}));
  const auto w = layer.weight.value().data<float>(), b = layer.bias.value().data<float>();
  for (int r = 0; r < 8; ++r)
    for (int o = 0; o < 3; ++o) {
      double sum = b[o];
      for (int i = 0; i < 5; ++i) sum += double(x.data<float>()[r * 5 + i]) * w[o * 5 + i];
      EXPECT_NEAR(y.data<float>()[r * 3 + o], std::max(sum, 0.0), 1e-6);
    }
  EXPECT_EQ(error_of([] { nn::Dense(nn::Init(1), 0, 3); }), "Dense: in is 0, expected at least 1");
}

TEST(Layers, EnterTheirBytesUnderTheirScope) {
  const nn::Dense layer(nn::Init(1) / "decoder" / "layer3", 64, 64);
  const Tensor y = layer(Tensor::ones({100, 64}));
  bool found = false;
  for (const ScopeUsage& s : ledger::scopes())
    if (s.path == "decoder/layer3") {
      found = true;
      EXPECT_EQ(s.usage.live, (64 * 64 + 64 + 100 * 64) * 4 + 3 * 128u);
    }
  EXPECT_TRUE(found);
}

TEST(Layers, ErrorsNameTheLayer) {
  const nn::Dense dense(nn::Init(1) / "decoder" / 3 / "up", 4, 8);
  const std::string line = error_of([&] { dense(Tensor::zeros({2, 5})); });
  EXPECT_NE(line.find("(2, 5)"), std::string::npos) << line;
  EXPECT_TRUE(line.ends_with(", in decoder/3/up")) << line;
}

TEST(BatchNorm, TrainsOnTheBatchAndEvaluatesOnTheRunningStatistics) {
  const nn::BatchNorm norm(nn::Init(1) / "bn", 2);
  const Tensor x = Tensor::of({{1, 10}, {3, 30}, {5, 50}});
  {
    Tape tape;
    const Tensor y = norm(x);
    EXPECT_NEAR(y.data<float>()[0], -std::sqrt(1.5), 1e-4);
    EXPECT_EQ(norm.running_mean.value().data<float>()[0], 0) << "not before the step has gone well";
  }
  EXPECT_NEAR(norm.running_mean.value().data<float>()[0], 0.3, 1e-6);
  EXPECT_NEAR(norm.running_var.value().data<float>()[1], 0.9 + 0.1 * 400, 1e-4);
  const nn::Evaluation evaluation;
  const Tensor y = norm(x);
  EXPECT_NEAR(y.data<float>()[0], (1 - 0.3) / std::sqrt(0.9 + 0.1 * 4 + 1e-5), 1e-5);
}

TEST(BatchNorm, CalledTwiceInAStepLearnsTwice) {
  const nn::BatchNorm norm(nn::Init(1) / "twice", 1);
  const Tensor x = Tensor::of({{10}, {10}});
  {
    Tape tape;
    norm(x);
    norm(x);
  }
  EXPECT_NEAR(norm.running_mean.value().item(), 1.9, 1e-6);
}

TEST(BatchNorm, LearnsNothingFromAnEmptyBatch) {
  const nn::BatchNorm norm(nn::Init(1) / "empty", 2);
  norm(Tensor::zeros({0, 2}));
  EXPECT_EQ(norm.running_mean.value().to_vector<float>(), (std::vector<float>{0, 0}));
}

TEST(BatchNorm, Takes16BitInputs) {
  const nn::BatchNorm norm(nn::Init(1) / "half", 2);
  const Tensor y = norm(cast(Tensor::of({{1, 10}, {3, 30}}), DType::bf16));
  EXPECT_NEAR(norm.running_mean.value().data<float>()[1], 2, 1e-2);
  EXPECT_EQ(y.shape(), Shape({2, 2}));
}

TEST(Pooling, StandsInASequential) {
  nn::Sequential net(nn::Conv2d(nn::Init(1) / "c", 1, 4, 3), nn::MaxPool2d{}, nn::AvgPool2d{});
  EXPECT_EQ(net(Tensor::ones({1, 10, 10, 1})).shape(), Shape({1, 2, 2, 4}));
  EXPECT_EQ(params(net).size(), 2u);
}

TEST(Conv, GroupsMustDivideTheChannels) {
  EXPECT_EQ(error_of([] { nn::Conv2d(nn::Init(1), 5, 4, 3, {.groups = 2}); }),
            "Conv2d: 5 channels in and 4 out do not divide into 2 groups");
}

TEST(Dropout, ActsInTrainingOnly) {
  const nn::Dropout dropout(0.5);
  const Tensor x = Tensor::ones({1000});
  const double kept = sum(dropout(x)).item() / 2;
  EXPECT_GT(kept, 400);
  EXPECT_LT(kept, 600);
  const nn::Evaluation evaluation;
  EXPECT_EQ(sum(dropout(x)).item(), 1000);
  EXPECT_EQ(error_of([] { nn::Dropout(1.0); }),
            "Dropout: the rate is 1, expected at least 0 and below 1");
}

TEST(Layers, EveryParameterOfAModelGetsAGradient) {
  Net net(nn::Init(4));
  Tape tape;
  const Tensor y = net(random::uniform({2, 6, 6, 3}, -1, 1, 5, 5));
  for (const Tensor& g : tape.gradient(sum(y * y), params(net))) {
    ASSERT_TRUE(g);
    EXPECT_GT(sum(abs(g)).item(), 0);
  }
}

}  // namespace
}  // namespace ebb
