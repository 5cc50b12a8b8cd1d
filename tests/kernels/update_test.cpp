#include "ebb/kernels/update.hpp"

#include <functional>

#include "tests/kernels/rows_support.hpp"

namespace ebb::kernels::rows_test {
namespace {

template <class T>
class UpdateOf : public ::testing::Test {};
TYPED_TEST_SUITE(UpdateOf, Floats);

// One element's state in extended precision.
struct Element {
  Ld p, g, s0, s1;
};

// Some tensors of odd sizes, one of them empty.
template <class T>
struct Model {
  std::vector<Values<T>> param, grad, first, second;
  std::vector<Update<T>> tensors;

  explicit Model(std::vector<std::size_t> sizes) {
    for (const std::size_t n : sizes) {
      const std::uint64_t seed = param.size() * 4;
      param.push_back(random_values<T>(n, seed));
      grad.push_back(random_values<T>(n, seed + 1));
      first.push_back(random_values<T>(n, seed + 2));
      second.push_back(random_values<T>(n, seed + 3, 0.1, 1));
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      tensors.push_back(
          {param[i].data(), grad[i].data(), {first[i].data(), second[i].data()}, sizes[i]});
    }
  }
  std::span<const Update<T>> all() const { return tensors; }
  Values<T> flat() const {
    Values<T> out;
    for (const auto* group : {&param, &first, &second}) {
      for (const auto& v : *group) out.insert(out.end(), v.begin(), v.end());
    }
    return out;
  }
};

struct Rule {
  const char* name;
  std::function<void(std::span<const Update<float>>, GradientUse)> f32;
  std::function<void(std::span<const Update<double>>, GradientUse)> f64;
  std::function<void(Element&)> definition;  // g already scaled and clipped

  void operator()(std::span<const Update<float>> t, GradientUse use) const { f32(t, use); }
  void operator()(std::span<const Update<double>> t, GradientUse use) const { f64(t, use); }
};

template <class Options>
Rule rule(const char* name, const Options& o, std::function<void(Element&)> definition) {
  return {name, [=](std::span<const Update<float>> t, GradientUse u) { update(t, o, u); },
          [=](std::span<const Update<double>> t, GradientUse u) { update(t, o, u); },
          std::move(definition)};
}

std::vector<Rule> all_rules() {
  const auto lion_definition = [](LionRule o) {
    return [o](Element& e) {
      const Ld c = o.beta1 * e.s0 + (1 - Ld(o.beta1)) * e.g;
      e.p = e.p * (1 - Ld(o.lr) * o.weight_decay) - o.lr * (c > 0 ? 1 : c < 0 ? -1 : 0);
      e.s0 = o.beta2 * e.s0 + (1 - Ld(o.beta2)) * e.g;
    };
  };
  const auto sgd_definition = [](SgdRule o) {
    return [o](Element& e) {
      const Ld g = e.g + o.weight_decay * e.p;
      if (o.momentum == 0) {
        e.p -= o.lr * g;
        return;
      }
      e.s0 = o.first ? g : o.momentum * e.s0 + (1 - o.dampening) * g;
      e.p -= o.lr * (o.nesterov ? g + o.momentum * e.s0 : e.s0);
    };
  };
  const auto adam_definition = [](AdamRule o) {
    return [o](Element& e) {
      Ld g = e.g;
      if (o.decoupled) {
        e.p *= 1 - Ld(o.lr) * o.weight_decay;
      } else {
        g += o.weight_decay * e.p;
      }
      e.s0 = o.beta1 * e.s0 + (1 - Ld(o.beta1)) * g;
      e.s1 = o.beta2 * e.s1 + (1 - Ld(o.beta2)) * g * g;
      e.p -= o.lr / o.correction1 * e.s0 / (std::sqrt(e.s1 / o.correction2) + o.eps);
    };
  };
  const auto rmsprop_definition = [](RmspropRule o) {
    return [o](Element& e) {
      const Ld g = e.g + o.weight_decay * e.p;
      e.s0 = o.alpha * e.s0 + (1 - Ld(o.alpha)) * g * g;
      Ld move = g / (std::sqrt(e.s0) + o.eps);
      if (o.momentum != 0) move = e.s1 = o.momentum * e.s1 + move;
      e.p -= o.lr * move;
    };
  };
  const auto adagrad_definition = [](AdagradRule o) {
    return [o](Element& e) {
      const Ld g = e.g + o.weight_decay * e.p;
      e.s0 += g * g;
      e.p -= o.lr * g / (std::sqrt(e.s0) + o.eps);
    };
  };
  std::vector<Rule> rules;
  for (const SgdRule& o :
       {SgdRule{.lr = 0.1}, SgdRule{.lr = 0.1, .weight_decay = 0.2},
        SgdRule{.lr = 0.1, .momentum = 0.9},
        SgdRule{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.3, .nesterov = true},
        SgdRule{.lr = 0.1, .momentum = 0.9, .dampening = 0.5},
        SgdRule{.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .first = true}}) {
    rules.push_back(rule("sgd", o, sgd_definition(o)));
  }
  for (const AdamRule& o :
       {AdamRule{.lr = 0.01, .correction1 = 0.1, .correction2 = 0.001},
        AdamRule{.lr = 0.01, .eps = 1e-3, .weight_decay = 0.2, .correction1 = 0.3},
        AdamRule{.lr = 0.01, .weight_decay = 0.2, .correction2 = 0.2, .decoupled = true}}) {
    rules.push_back(rule(o.decoupled ? "adamw" : "adam", o, adam_definition(o)));
  }
  for (const RmspropRule& o : {RmspropRule{}, RmspropRule{.weight_decay = 0.1, .momentum = 0.8}}) {
    rules.push_back(rule("rmsprop", o, rmsprop_definition(o)));
  }
  for (const AdagradRule& o : {AdagradRule{}, AdagradRule{.lr = 0.2, .weight_decay = 0.1}}) {
    // Its first state is a sum of squares; the test's first states may be negative, so squares.
    rules.push_back(rule("adagrad", o, adagrad_definition(o)));
  }
  for (const LionRule& o : {LionRule{.lr = 0.1}, LionRule{.lr = 0.1, .weight_decay = 0.3}}) {
    rules.push_back(rule("lion", o, lion_definition(o)));
  }
  return rules;
}

// States that stand for squares must not be negative.
template <class T>
void make_squares(Model<T>& m) {
  for (auto& v : m.first) {
    for (auto& s : v) s = std::fabs(s);
  }
}

TYPED_TEST(UpdateOf, EveryRuleIsItsFormula) {
  using T = TypeParam;
  for_each_target([](std::int64_t) {
    for (const auto& rule : all_rules()) {
      SCOPED_TRACE(rule.name);
      for (const GradientUse use : {GradientUse{}, GradientUse{0.125, 0.1}}) {
        Model<T> m({1, 0, 7, 16, 33, 100});
        make_squares(m);
        const Model<T> before = [&] {
          Model<T> copy({1, 0, 7, 16, 33, 100});
          make_squares(copy);
          return copy;
        }();
        rule(m.all(), use);
        for (std::size_t t = 0; t < m.param.size(); ++t) {
          for (std::size_t i = 0; i < m.param[t].size(); ++i) {
            Ld g = before.grad[t][i] * Ld(use.scale);
            g = std::min<Ld>(std::max<Ld>(g, -use.clip), use.clip);
            Element e{before.param[t][i], g, before.first[t][i], before.second[t][i]};
            rule.definition(e);
            expect_near(m.param[t][i], e.p, 1, "param", i);
            expect_near(m.first[t][i], e.s0, 1, "state 0", i);
            expect_near(m.second[t][i], e.s1, 1, "state 1", i);
          }
        }
      }
    }
  });
}

TYPED_TEST(UpdateOf, OneResultHoweverItRuns) {
  using T = TypeParam;
  for (const auto& rule : all_rules()) {
    SCOPED_TRACE(rule.name);
    expect_one_result([&] {
      Model<T> m({50000, 3, 33333, 1});
      make_squares(m);
      rule(m.all(), {0.5, 1});
      return m.flat();
    });
    // One call for all tensors is as one call for each.
    Model<T> together({1000, 0, 37}), apart({1000, 0, 37});
    make_squares(together);
    make_squares(apart);
    rule(together.all(), {});
    for (std::size_t i = 0; i < 3; ++i) rule(apart.all().subspan(i, 1), {});
    EXPECT_TRUE(same_bits(together.flat(), apart.flat()));
  }
}

TYPED_TEST(UpdateOf, StateThatIsNotUsedMayBeAbsent) {
  using T = TypeParam;
  Values<T> p(70000, T(1)), g(70000, T(2));
  const Update<T> one[] = {{p.data(), g.data(), {nullptr, nullptr}, p.size()}};
  update(std::span<const Update<T>>(one), SgdRule{.lr = 0.25});
  for (const T v : p) ASSERT_EQ(v, T(0.5));
}

TYPED_TEST(UpdateOf, AClippedNaNStaysNaN) {
  using T = TypeParam;
  Values<T> p(3, T(1)), g = {std::numeric_limits<T>::quiet_NaN(), T(100), T(-100)};
  const Update<T> one[] = {{p.data(), g.data(), {nullptr, nullptr}, p.size()}};
  for_each_target([&](std::int64_t) {
    std::fill(p.begin(), p.end(), T(1));
    update(std::span<const Update<T>>(one), SgdRule{.lr = 1}, {.clip = 2});
    EXPECT_TRUE(std::isnan(p[0]));
    EXPECT_EQ(p[1], -1);
    EXPECT_EQ(p[2], 3);
  });
}

TYPED_TEST(UpdateOf, AnAverageThatMoves) {
  using T = TypeParam;
  const auto run = [](double decay) {
    Model<T> m({1, 0, 7, 33, 70000});
    update(m.all(), EmaRule{decay}, {0.5, 0.1});  // neither scaled nor clipped
    return m;
  };
  const Model<T> before({1, 0, 7, 33, 70000}), m = run(0.9);
  for (std::size_t t = 0; t < m.param.size(); ++t)
    for (std::size_t i = 0; i < m.param[t].size(); ++i)
      expect_near(m.param[t][i], 0.9L * before.param[t][i] + 0.1L * before.grad[t][i], 1, "average",
                  i);
  expect_one_result([&] { return run(0.9).flat(); });
  Values<T> average(100), values = random_values<T>(100, 5);
  const Update<T> one{average.data(), values.data(), {}, 100};
  update(std::span<const Update<T>>(&one, 1), EmaRule{0});
  EXPECT_TRUE(same_bits(average, values)) << "without a past it is the value itself";
}

TYPED_TEST(UpdateOf, LionStandsStillWhereNothingPulls) {
  using T = TypeParam;
  Values<T> p(5, T(1)), g(5), m(5);
  g[1] = std::numeric_limits<T>::quiet_NaN();
  const Update<T> one[] = {{p.data(), g.data(), {m.data(), nullptr}, p.size()}};
  update(std::span<const Update<T>>(one), LionRule{.lr = 0.25});
  EXPECT_EQ(p[0], 1);
  EXPECT_TRUE(std::isnan(p[1]));
}

TYPED_TEST(UpdateOf, SumOfSquares) {
  using T = TypeParam;
  const Model<T> m({1, 0, 17, kSquaresPiece, kSquaresPiece + 1, 100001});
  Ld want = 0;
  for (const auto& v : m.grad) {
    for (const T g : v) want += Ld(g) * g;
  }
  Bytes scratch(sum_of_squares_scratch(m.all()));
  const auto run = [&] { return Values<double>{sum_of_squares(m.all(), std::span(scratch))}; };
  for_each_target([&](std::int64_t) {
    EXPECT_NEAR(run()[0], static_cast<double>(want), 1e-12 * static_cast<double>(want));
  });
  expect_one_result(run);
  EXPECT_EQ(sum_of_squares(m.all().subspan(1, 1), std::span(scratch)), 0);
}

}  // namespace
}  // namespace ebb::kernels::rows_test
