#include "ebb/kernels/update_8bit.hpp"

#include "tests/kernels/rows_support.hpp"

namespace ebb::kernels::rows_test {
namespace {

struct Model {
  Values<float> param, grad;
  Bytes state;
  explicit Model(std::size_t n)
      : param(random_values<float>(n, 1)),
        grad(random_values<float>(n, 2)),
        state(adam8_state_bytes(n)) {}
  Update8 tensor() { return update8(param.data(), grad.data(), state.data(), param.size()); }
  void step(const Adam8Rule& rule, GradientUse use = {}) {
    const Update8 t = tensor();
    adam8(std::span(&t, 1), rule, use);
  }
  Values<float> flat() {
    Values<float> all = param;
    for (const std::byte b : state) all.push_back(static_cast<float>(b));
    return all;
  }
  Values<float> m() { return read(true); }
  Values<float> root() {
    Values<float> v = read(false);
    for (float& x : v) x = std::sqrt(x);
    return v;
  }

 private:
  Values<float> read(bool first) {
    Values<float> m(param.size()), v(param.size());
    adam8_read(tensor(), m.data(), v.data());
    return first ? m : v;
  }
};

const std::size_t kSizes[] = {0, 1, 7, 255, 256, 257, 1000, 5120};

AdamRule first_step() {
  return {
      .lr = 0.01, .weight_decay = 0.1, .correction1 = 0.1, .correction2 = 0.001, .decoupled = true};
}

TEST(Update8, TwoBytesAndALittle) {
  for (const std::size_t n : {4096ul, 100000ul, 1000003ul})
    EXPECT_LE(static_cast<double>(adam8_state_bytes(n)), 2.04 * static_cast<double>(n)) << n;
}

// From a state of zeros nothing was rounded yet.
TEST(Update8, TheFirstStepHasTheBitsOfAdam) {
  for_each_target([](std::int64_t) {
    for (const std::size_t n : kSizes) {
      Model model(n);
      Values<float> p = model.param, m(n), v(n);
      const Update<float> same{p.data(), model.grad.data(), {m.data(), v.data()}, n};
      update(std::span<const Update<float>>(&same, 1), first_step(), {0.5, 0.7});
      model.step({first_step()}, {0.5, 0.7});
      EXPECT_TRUE(same_bits(model.param, p)) << n;
    }
  });
}

// What is stored is the moment, rounded: by half a code of m, by one of sqrt(v).
TEST(Update8, StateIsTheMomentsToAFewPercent) {
  for_each_target([](std::int64_t) {
    for (const std::size_t n : kSizes) {
      Model model(n);
      model.step({first_step()});
      const Values<float> m = model.m(), root = model.root();
      for (std::size_t i = 0; i < n; ++i) {
        const float want_m = 0.1f * model.grad[i];
        const float want_root = std::sqrt(0.001f) * std::fabs(model.grad[i]);
        const float most = 0.2f, most_root = std::sqrt(0.001f) * 2;
        EXPECT_NEAR(m[i], want_m, std::fabs(want_m) / 31 + most / 4096) << i;
        EXPECT_NEAR(root[i], want_root, want_root / 31 + most_root / 4096) << i;
      }
    }
  });
}

TEST(Update8, OneResultHoweverItRuns) {
  for (const std::size_t n : {100ul, 100001ul})
    expect_one_result([&] {
      Model model(n);
      for (int t = 1; t <= 3; ++t) model.step({first_step(), t}, {0.5, 1});
      return model.flat();
    });
}

TEST(Update8, PartsAreAsTheWhole) {
  Model whole(3000), parts(3000);
  for (int t = 1; t <= 3; ++t) {
    whole.step({first_step(), t});
    for (const std::size_t from : {0, 1024, 2048}) {
      const Update8 t8 =
          part_of(parts.tensor(), parts.param.data() + from, parts.grad.data() + from, from,
                  std::min<std::size_t>(1024, 3000 - from));
      adam8(std::span(&t8, 1), {first_step(), t});
    }
  }
  EXPECT_TRUE(same_bits(whole.flat(), parts.flat()));
  Model a(300), b(70000);
  const Update8 both[] = {a.tensor(), b.tensor()};
  adam8(both, {first_step()});
  Model c(300), d(70000);
  c.step({first_step()});
  d.step({first_step()});
  EXPECT_TRUE(same_bits(a.flat(), c.flat()));
  EXPECT_TRUE(same_bits(b.flat(), d.flat()));
}

// An average with a memory of a thousand steps moves by less than a code at a time; rounded to the
// nearest it would stand still.
TEST(Update8, ALongAverageFollowsItsGradients) {
  Model model(2048);
  for (std::size_t i = 0; i < model.grad.size(); ++i) model.grad[i] = i % 2 ? 1.f : -1.f;
  AdamRule rule{.lr = 0};
  std::int64_t t = 1;
  for (; t <= 2000; ++t) model.step({rule, t});
  for (std::size_t i = 1; i < model.grad.size(); i += 2) model.grad[i] = 0.25f;
  for (; t <= 8000; ++t) model.step({rule, t});
  double even = 0, odd = 0;
  const Values<float> root = model.root();
  for (std::size_t i = 0; i < root.size(); i += 2) {
    even += root[i] / 1024;
    odd += root[i + 1] / 1024;
  }
  EXPECT_NEAR(even, 1, 0.03);
  EXPECT_NEAR(odd, 0.25, 0.03);
}

TEST(Update8, NothingIsDividedByEpsAlone) {
  Model model(256);
  for (std::size_t i = 0; i < 256; ++i) model.grad[i] = i == 0 ? 1e4f : i % 2 ? 1e-6f : 0.f;
  AdamRule rule{.lr = 1};
  for (int t = 1; t <= 20; ++t) {
    const Values<float> before = model.param;
    rule.correction1 = 1 - std::pow(0.9, t);
    rule.correction2 = 1 - std::pow(0.999, t);
    model.step({rule, t});
    for (std::size_t i = 0; i < 256; ++i) {
      const float move = std::fabs(model.param[i] - before[i]);
      EXPECT_LE(move, 1.2f) << i << " in step " << t;
      EXPECT_TRUE(move == 0 || i % 2 == 1 || i == 0) << i;
    }
  }
}

}  // namespace
}  // namespace ebb::kernels::rows_test
