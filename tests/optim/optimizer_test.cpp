#include "ebb/optim/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/optim/accumulator.hpp"
#include "ebb/tape/tape.hpp"
#include "tests/error_of.hpp"
#include "tests/optim/model.hpp"

namespace ebb {
namespace {

using Vec = std::vector<double>;

using test::error_of;

// Five steps of an optimizer on fixed gradients, beside the same by a plain formula.
template <class Optimizer, class Options, class Formula>
void compare(Options options, Formula formula) {
  const std::vector<Vec> gradients{{0.5, -1}, {0.25, 2}, {-3, 0.125}, {1, 1}, {0.1, -0.2}};
  Variable p("p", Tensor::of<double>({1.5, -0.5}));
  Optimizer optimizer({p}, options);
  Vec expected{1.5, -0.5};
  for (std::size_t t = 0; t < gradients.size(); ++t) {
    const std::vector<Tensor> g{Tensor::from(gradients[t], {2})};
    optimizer.step(g, 2);  // gradients of a sum over two examples
    for (int i = 0; i < 2; ++i)
      formula(static_cast<int>(t) + 1, i, expected[i], gradients[t][i] / 2);
    for (int i = 0; i < 2; ++i)
      EXPECT_NEAR(p.value().data<double>()[i], expected[i], 1e-12)
          << "step " << t << " element " << i;
  }
  EXPECT_EQ(optimizer.steps(), 5);
}

TEST(Sgd, FollowsItsFormula) {
  compare<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .weight_decay = 0.01},
                      [](int, int, double& p, double g) { p -= 0.1 * (g + 0.01 * p); });
}

TEST(Sgd, MomentumAndNesterov) {
  for (const bool nesterov : {false, true}) {
    Vec b(2);
    compare<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = nesterov},
                        [&](int t, int i, double& p, double g) {
                          b[i] = t == 1 ? g : 0.9 * b[i] + g;
                          p -= 0.1 * (nesterov ? g + 0.9 * b[i] : b[i]);
                        });
  }
}

TEST(Adam, FollowsItsFormula) {
  for (const bool decoupled : {false, true}) {
    Vec m(2), v(2);
    const auto formula = [&](int t, int i, double& p, double g) {
      if (decoupled) {
        p *= 1 - 0.01 * 0.1;
      } else {
        g += 0.1 * p;
      }
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.99 * v[i] + 0.01 * g * g;
      const double mh = m[i] / (1 - std::pow(0.9, t)), vh = v[i] / (1 - std::pow(0.99, t));
      p -= 0.01 * mh / (std::sqrt(vh) + 1e-8);
    };
    if (decoupled) {
      compare<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .beta2 = 0.99, .weight_decay = 0.1},
                            formula);
    } else {
      compare<optim::Adam>(optim::AdamOptions{.lr = 0.01, .beta2 = 0.99, .weight_decay = 0.1},
                           formula);
    }
  }
}

TEST(Rmsprop, FollowsItsFormula) {
  Vec v(2), b(2);
  compare<optim::Rmsprop>(optim::RmspropOptions{.lr = 0.01, .alpha = 0.9, .momentum = 0.5},
                          [&](int, int i, double& p, double g) {
                            v[i] = 0.9 * v[i] + 0.1 * g * g;
                            b[i] = 0.5 * b[i] + g / (std::sqrt(v[i]) + 1e-8);
                            p -= 0.01 * b[i];
                          });
}

TEST(Adagrad, FollowsItsFormula) {
  Vec s(2);
  compare<optim::Adagrad>(optim::AdagradOptions{.lr = 0.1}, [&](int, int i, double& p, double g) {
    s[i] += g * g;
    p -= 0.1 * g / (std::sqrt(s[i]) + 1e-10);
  });
}

TEST(Lion, FollowsItsFormula) {
  Vec m(2);
  compare<optim::Lion>(optim::LionOptions{.lr = 0.01, .weight_decay = 0.1},
                       [&](int, int i, double& p, double g) {
                         const double c = 0.9 * m[i] + 0.1 * g;
                         p = p * (1 - 0.01 * 0.1) - 0.01 * (c > 0 ? 1 : c < 0 ? -1 : 0);
                         m[i] = 0.99 * m[i] + 0.01 * g;
                       });
}

// A vector is not factored; its updates are clipped together.
TEST(Adafactor, OfAVectorFollowsItsFormula) {
  const std::vector<Vec> gradients{{0.5, -1}, {0.25, 2}, {-3, 0.125}, {1, 1}};
  Variable p("p", Tensor::of<double>({1.5, -0.5}));
  optim::Adafactor optimizer({p}, {.lr = 0.1, .weight_decay = 0.01});
  Vec expected{1.5, -0.5}, v(2);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    optimizer.step(std::vector<Tensor>{Tensor::from(gradients[i], {2})});
    const double t = static_cast<double>(i) + 1, beta2 = 1 - std::pow(t, -0.8);
    double u[2], moves = 0, size = 0;
    for (int k = 0; k < 2; ++k) {
      const double g = gradients[i][k];
      v[k] = beta2 * v[k] + (1 - beta2) * (g * g + 1e-30);
      u[k] = g / std::sqrt(v[k]);
      moves += u[k] * u[k] / 2;
      size += expected[k] * expected[k] / 2;
    }
    const double rate = std::min(0.1, 1 / std::sqrt(t)) * std::max(1e-3, std::sqrt(size)) /
                        std::max(1.0, std::sqrt(moves));
    for (int k = 0; k < 2; ++k) {
      expected[k] = expected[k] * (1 - 0.1 * 0.01) - rate * u[k];
      EXPECT_NEAR(p.value().data<double>()[k], expected[k], 1e-12) << "step " << t;
    }
  }
}

TEST(Adafactor, KeepsRowsAndColumns) {
  Variable matrix("w", Tensor::zeros({30, 50})), kernel("k", Tensor::zeros({3, 3, 8, 16})),
      bias("b", Tensor::zeros({50}));
  optim::Adafactor optimizer({matrix, kernel, bias});
  std::vector<std::string> state;
  for (const Variable& v : optimizer.state()) state.push_back(v.name() + to_string(v.spec()));
  EXPECT_EQ(state,
            (std::vector<std::string>{"adafactor.row.wf32(30)", "adafactor.row.kf32(3, 3, 8)",
                                      "adafactor.v.bf32(50)", "adafactor.col.wf32(50)",
                                      "adafactor.col.kf32(3, 3, 16)", "adafactor.lrf64()",
                                      "adafactor.skippedi64()", "adafactor.stepsi64()"}));
}

TEST(AdamW8bit, KeepsTwoBytesForAParameter) {
  Variable large("w", Tensor::zeros({300, 400})), bias("b", Tensor::zeros({400}));
  optim::AdamW8bit optimizer({large, bias});
  double bytes = 0;
  for (const Variable& v : optimizer.state()) bytes += static_cast<double>(v.spec().bytes());
  EXPECT_LE(bytes, 2.1 * (300 * 400 + 400));
}

TEST(Optimizer, RefusesParametersItDoesNotTrain) {
  Variable half("h", cast(Tensor::zeros({4, 4}), DType::bf16));
  Variable precise("p", Tensor::zeros({4, 4}, DType::f64)),
      whole("i", Tensor::zeros({4}, DType::i64));
  EXPECT_NE(error_of([&] { optim::Adafactor({half}); }).find("parameter h is bf16"),
            std::string::npos);
  EXPECT_NE(error_of([&] { optim::AdamW8bit({precise}); }).find("parameter p is f64"),
            std::string::npos);
  EXPECT_NE(error_of([&] { optim::Sgd({whole}); }).find("parameter i is i64"), std::string::npos);
}

TEST(Clipping, ByValueAndByGlobalNorm) {
  Variable a("a", Tensor::of({0, 0})), b("b", Tensor::of({0}));
  const std::vector<Tensor> g{Tensor::of({3, -0.5}), Tensor::of({4})};
  {
    optim::Sgd sgd({a, b}, {.lr = 1});
    sgd.clip_value(1);
    sgd.step(g);
    EXPECT_EQ(a.value().to_vector<float>(), (std::vector<float>{-1, 0.5}));
    EXPECT_EQ(b.value().item(), -1);
  }
  a.assign(Tensor::of({0, 0}));
  b.assign(Tensor::of({0}));
  optim::Sgd sgd({a, b}, {.lr = 1});
  sgd.clip_norm(1);
  sgd.step(g);
  const double norm = std::sqrt(9 + 0.25 + 16);
  EXPECT_NEAR(sgd.last_norm(), norm, 1e-6);
  EXPECT_NEAR(a.value().data<float>()[0], -3 / norm, 1e-6);
  EXPECT_NEAR(b.value().item(), -4 / norm, 1e-6);
}

TEST(Clipping, AStepWithoutALengthIsSkippedAndCounted) {
  Variable w("w", Tensor::of({1, 2}));
  optim::Adam adam({w}, {.lr = 1});
  adam.clip_norm(1);
  const auto bytes = [&] { return test::bytes({w, adam.state()[0], adam.state()[1]}); };
  const auto before = bytes();
  const float bad[] = {INFINITY, -INFINITY, NAN};
  for (int i = 0; i < 3; ++i) {
    adam.step(std::vector<Tensor>{Tensor::of({bad[i], 1})});
    EXPECT_EQ(bytes(), before);
    EXPECT_EQ(adam.steps(), 0);
    EXPECT_EQ(adam.skipped(), i + 1);
    EXPECT_FALSE(std::isfinite(adam.last_norm()));
  }
  adam.step(std::vector<Tensor>{Tensor::of({3, 4})});
  EXPECT_NE(bytes(), before);
  EXPECT_EQ(adam.steps(), 1);
  EXPECT_EQ(adam.skipped(), 3);
}

TEST(Optimizer, MinimizeTakesAStepDownTheMean) {
  Variable w("w", Tensor::of({3}));
  optim::Sgd sgd({w}, {.lr = 0.5});
  for (int i = 0; i < 30; ++i) {
    Tape tape;
    sgd.minimize(mse(w * Tensor::of({1, 1, 1}), Tensor::of({2, 2, 2})));
  }
  EXPECT_NEAR(w.value().item(), 2, 1e-5);
}

TEST(Optimizer, AParameterWithoutGradientIsLeftAlone) {
  Variable used("used", Tensor::of({1})), idle("idle", Tensor::of({7}));
  optim::Adam adam({used, idle});
  Tape tape;
  adam.minimize(mse(used, Tensor::of({0})));
  EXPECT_EQ(idle.value().item(), 7);
  EXPECT_NE(used.value().item(), 1);
}

TEST(Optimizer, SaysWhatIsWrong) {
  Variable w("w", Tensor::of({3})), other("o", Tensor::of({3}));
  optim::Sgd sgd({w});
  EXPECT_EQ(
      error_of([&] { sgd.minimize(mse(w, Tensor::of({2}))); }),
      "sgd: no tape has recorded this loss; make a Tape before the forward pass, and let the loss "
      "depend on a trainable variable");
  EXPECT_EQ(error_of([&] {
              Tape tape;
              const Loss loss = mse(w, Tensor::of({2}));
              sgd.minimize(loss);
              sgd.minimize(loss);
            }),
            "sgd: the tape was used up by an earlier gradient; make one for each step");
  EXPECT_EQ(error_of([&] { optim::Sgd({w, w}); }), "sgd: parameter w is listed twice");
  EXPECT_EQ(error_of([&] { optim::Sgd({Variable()}); }),
            "variable: this handle names no variable; it was never assigned");
  EXPECT_EQ(error_of([&] {
              Tape tape;
              sgd.minimize(mse(other, Tensor::of({2})));
            }),
            "sgd: the loss depends on none of the parameters");
  EXPECT_EQ(error_of([&] { optim::Sgd({}, {}); }), "sgd: there are no parameters to train");
  EXPECT_EQ(error_of([&] { optim::Adam({w}, {.lr = -1}); }),
            "optimizer: lr is -1, expected a number from 0 on");
  EXPECT_EQ(error_of([&] { optim::Adam({w}, {.beta1 = 1}); }),
            "optimizer: beta1 is 1, expected at least 0 and below 1");
  EXPECT_EQ(error_of([&] { optim::Sgd({w}, {.nesterov = true}); }),
            "sgd: nesterov needs momentum above 0 and no dampening");
  const std::vector<Tensor> wrong{Tensor::of({1, 2})};
  EXPECT_EQ(error_of([&] { sgd.step(wrong); }),
            "sgd: the gradient of w is f32(2), the parameter f32(1)");
}

TEST(Optimizer, StateIsEnteredAsOptimizerAndNamed) {
  const std::uint64_t before = ledger::of(Category::optimizer).live;
  Variable w("layer.weight", Tensor::zeros({1000}));
  optim::Adam adam({w});
  const auto state = adam.state();
  EXPECT_LT(ledger::of(Category::optimizer).live, before + 4000)
      << "bytes come with their first use";
  for (const Variable& v : state) EXPECT_TRUE(v.value());
  EXPECT_GE(ledger::of(Category::optimizer).live, before + 8000);
  ASSERT_EQ(state.size(), 5u);
  EXPECT_EQ(state[0].name(), "adam.m.layer.weight");
  EXPECT_EQ(state[2].name(), "adam.lr");
  EXPECT_EQ(state[3].name(), "adam.skipped");
  EXPECT_EQ(state[4].name(), "adam.steps");
}

TEST(Schedule, Shapes) {
  EXPECT_EQ(optim::constant(0.5)(100), 0.5);
  const auto step = optim::step_decay(1, 10, 0.5);
  EXPECT_EQ(step(9), 1);
  EXPECT_EQ(step(10), 0.5);
  EXPECT_EQ(step(20), 0.25);
  EXPECT_NEAR(optim::exponential(1, 0.9)(3), 0.729, 1e-12);
  const auto cosine = optim::warmup_cosine(1, 10, 110, 0.1);
  EXPECT_NEAR(cosine(0), 0.1, 1e-12);
  EXPECT_NEAR(cosine(9), 1, 1e-12);
  EXPECT_NEAR(cosine(10), 1, 1e-12);
  EXPECT_NEAR(cosine(60), 0.55, 1e-12);
  EXPECT_NEAR(cosine(110), 0.1, 1e-12);
  EXPECT_NEAR(cosine(1000), 0.1, 1e-12);
  EXPECT_EQ(error_of([] { optim::warmup_cosine(1, 10, 10); }),
            "schedule: total must be above warmup; found 10");
}

TEST(Schedule, IsAskedBeforeEveryStep) {
  Variable w("w", Tensor::of({0}));
  optim::Sgd sgd({w}, {.lr = 1});
  sgd.set_schedule(optim::step_decay(1, 2, 0.1));
  const std::vector<Tensor> g{Tensor::of({-1})};
  for (int i = 0; i < 4; ++i) sgd.step(g);
  EXPECT_NEAR(w.value().item(), 2.2, 1e-6);
}

TEST(Plateau, LowersTheRateWhenProgressStops) {
  optim::Plateau plateau(1, {.factor = 0.5, .patience = 2});
  EXPECT_EQ(plateau.observe(10), 1);
  EXPECT_EQ(plateau.observe(9), 1);
  EXPECT_EQ(plateau.observe(9), 1);
  EXPECT_EQ(plateau.observe(9), 1);
  EXPECT_EQ(plateau.observe(9), 0.5);
  EXPECT_EQ(plateau.observe(8), 0.5);
}

// A schedule may end at 0, and a run may take a step too many: it changes nothing.
TEST(Optimizer, ARateOfZero) {
  Variable w("w", Tensor::of({1, 2}));
  optim::AdamW adam({w}, {.lr = 0.1, .weight_decay = 0.1});
  adam.set_schedule(optim::warmup_cosine(0.1, 1, 3));
  std::vector<float> before;
  for (int i = 0; i < 5; ++i) {
    Tape tape;
    before = w.value().to_vector<float>();
    adam.minimize(mse(w.value(), Tensor::of({3, 4})));
  }
  EXPECT_EQ(w.value().to_vector<float>(), before);
  EXPECT_EQ(adam.steps(), 5);
  adam.set_lr(0);
  EXPECT_EQ(adam.lr(), 0);
}

}  // namespace
}  // namespace ebb
