#include "ebb/tape/custom.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/dropout.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb {
namespace {

Tensor d(std::initializer_list<Tensor::Nested<double>> items) { return Tensor::of<double>(items); }

TEST(CustomGradient, ReplacesTheRule) {
  const Tensor x = d({100});
  Tape tape;
  tape.watch(x);
  const Tensor y = custom_gradient(
      [](const Tensor& v) {
        const Tensor e = exp(v);
        return Custom{log(e + 1.0), [e](const Tensor& dy) {
                        return std::vector<Tensor>{dy * (1.0 - 1.0 / (e + 1.0))};
                      }};
      },
      x);
  EXPECT_EQ(tape.gradient(y * 2.0, x).item(), 2);
}

TEST(CustomGradient, ItsRuleCanBeDifferentiated) {
  const Tensor x = d({0.3});
  Tape outer;
  outer.watch(x);
  Tensor first;
  {
    Tape inner;
    inner.watch(x);
    const Tensor y = custom_gradient(
        [](const Tensor& v) {
          const Tensor e = exp(v);
          return Custom{log1p(e), [e](const Tensor& dy) {
                          return std::vector<Tensor>{dy * (e / (e + 1.0))};
                        }};
        },
        x);
    first = inner.gradient(y, x);
  }
  const double s = 1 / (1 + std::exp(-0.3));
  EXPECT_NEAR(first.item(), s, 1e-15);
  EXPECT_NEAR(outer.gradient(first, x).item(), s * (1 - s), 1e-15);
}

TEST(CustomGradient, WithoutAResultIsRefused) {
  EXPECT_THROW(custom_gradient([](const Tensor&) { return Custom{}; }, d({1})), Error);
}

TEST(CustomGradient, OfTheInputItself) {
  const Tensor x = d({3});
  Tape tape;
  tape.watch(x);
  const Tensor y = custom_gradient(  // reverses the gradient
      [](const Tensor& v) {
        return Custom{v, [](const Tensor& dy) { return std::vector<Tensor>{-dy}; }};
      },
      x);
  EXPECT_EQ(tape.gradient(y * 5.0, x).item(), -5);
}

TEST(CustomGradient, OfTheWrongCountIsRefused) {
  const Tensor x = d({3});
  Tape tape;
  tape.watch(x);
  const Tensor y = custom_gradient(
      [](const Tensor& v) {
        return Custom{v * 2.0, [](const Tensor&) { return std::vector<Tensor>{}; }};
      },
      x);
  try {
    tape.gradient(y, x);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "custom_gradient: 0 gradients were given for 1 inputs");
  }
}

struct Block {
  Variable w1{"w1", random::uniform({32, 32}, -0.3, 0.3, 1, 1)};
  Variable w2{"w2", random::uniform({32, 32}, -0.3, 0.3, 1, 2)};
  Tensor operator()(const Tensor& x) const {
    return linear(dropout(tanh(linear(x, w1, {})), 0.5), w2, {});
  }
  std::vector<Variable> params() const { return {w1, w2}; }
};

std::vector<Tensor> gradients(const Block& block, const Tensor& x, bool recompute) {
  random::seed(7);
  Tape tape;
  Tensor h = x;
  for (int i = 0; i < 4; ++i)
    h = recompute ? checkpoint([&](const Tensor& v) { return block(v); })(h) : block(h);
  return tape.gradient(sum(h * h), block.params());
}

TEST(Checkpoint, GivesTheSameBitsWithDropout) {
  const Block block;
  const Tensor x = random::uniform({16, 32}, -1, 1, 2, 1);
  const auto kept = gradients(block, x, false), again = gradients(block, x, true);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(kept[i].to_vector<float>(), again[i].to_vector<float>()) << i;
}

TEST(Checkpoint, KeepsLess) {
  const Block block;
  const Tensor x = random::uniform({256, 32}, -1, 1, 2, 1);
  std::uint64_t live[2];
  for (const bool recompute : {false, true}) {
    const std::uint64_t before = ledger::total().live;
    Tape tape;
    Tensor h = x;
    for (int i = 0; i < 8; ++i)
      h = recompute ? checkpoint([&](const Tensor& v) { return block(v); })(h) : block(h);
    live[recompute] = ledger::total().live - before;
  }
  EXPECT_LT(live[1], live[0] / 2);
}

TEST(Checkpoint, NestsAndDifferentiatesTwice) {
  const Tensor x = d({0.5, 0.25});
  const auto f = [](const Tensor& v) { return tanh(v * v); };
  double plain[2][2], nested[2][2];
  for (const bool recompute : {false, true}) {
    auto& out = recompute ? nested : plain;
    Tape outer;
    outer.watch(x);
    Tensor g;
    {
      Tape inner;
      inner.watch(x);
      Tensor y;
      if (recompute) {
        y = checkpoint([&](const Tensor& v) { return checkpoint(f)(v * 3.0) + checkpoint(f)(v); })(
            x);
      } else {
        y = f(x * 3.0) + f(x);
      }
      g = inner.gradient(y, x);
    }
    const Tensor h = outer.gradient(g, x);
    for (int i = 0; i < 2; ++i) {
      out[0][i] = g.data<double>()[i];
      out[1][i] = h.data<double>()[i];
    }
  }
  for (int o = 0; o < 2; ++o)
    for (int i = 0; i < 2; ++i) EXPECT_NEAR(plain[o][i], nested[o][i], 1e-14);
}

TEST(Checkpoint, NoticesThatAVariableMovedOn) {
  Variable u("u", d({2}));
  const Tensor x = d({3});
  Tape tape;
  const Tensor z = checkpoint([&](const Tensor& v) { return v * u * u; })(x);
  u.assign(d({5}));
  try {
    tape.gradient(z, u.value());
    FAIL() << "the recomputed block used other values";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("read other values on the way back"), std::string::npos);
  }
}

}  // namespace
}  // namespace ebb
