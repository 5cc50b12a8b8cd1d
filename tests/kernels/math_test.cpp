// Every elementary function against the C library in extended precision: all exponents, both signs,
// special values, on every target this machine has.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ebb/kernels/elementwise.hpp"
#include "tests/kernels/targets.hpp"

namespace ebb::kernels {
namespace {

using Ld = long double;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const Ld kPi = std::acos(Ld(-1));

Ld sigmoid(Ld x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
Ld normal_cdf(Ld x) { return std::erfc(-x / std::sqrt(Ld(2))) / 2; }
Ld normal_pdf(Ld x) { return std::exp(-x * x / 2) / std::sqrt(2 * kPi); }
Ld gelu_argument(Ld x) { return 2 * std::sqrt(2 / kPi) * (x + Ld(0.044715L) * x * x * x); }
Ld gelu_tanh_grad(Ld x) {
  const Ld s = sigmoid(gelu_argument(x)), rest = sigmoid(-gelu_argument(x));
  return s + x * s * rest * 2 * std::sqrt(2 / kPi) * (1 + 3 * Ld(0.044715L) * x * x);
}
Ld silu_grad(Ld x) { return sigmoid(x) + x * sigmoid(x) * sigmoid(-x); }

// Distance from the true value in units of the last place of the nearest float; subnormals count in
// steps of the smallest one.
double ulps(float got, Ld want) {
  const float nearest = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : kInf;
  if (std::isinf(nearest) || std::isinf(got)) {
    // At the edge of overflow, one step is one ulp.
    if (nearest == got) return 0;
    return std::fabs(want) > 3.4028233e38L && std::fabs(got) >= 3.4028233e38f ? 1 : kInf;
  }
  if (std::isnan(got)) return kInf;
  const float a = std::fabs(nearest);
  const Ld unit = a < std::numeric_limits<float>::min()
                      ? Ld(std::numeric_limits<float>::denorm_min())
                      : std::ldexp(Ld(1), std::ilogb(a) - 23);
  return static_cast<double>(std::fabs(Ld(got) - want) / unit);
}

struct Function {
  const char* name;
  std::function<void(const float*, float*, std::size_t)> run;
  std::function<Ld(Ld)> truth;
  double max_ulps;
  float lo = -std::numeric_limits<float>::max(), hi = std::numeric_limits<float>::max();
  double absolute = 0;  // an error below this is as good as none: where a derivative crosses zero
};

Function unary_function(const char* name, Unary op, std::function<Ld(Ld)> truth, double max_ulps,
                        float lo = -std::numeric_limits<float>::max(),
                        float hi = std::numeric_limits<float>::max(), double absolute = 0) {
  return {name,
          [op](const float* x, float* y, std::size_t n) { unary(op, x, y, n); },
          std::move(truth),
          max_ulps,
          lo,
          hi,
          absolute};
}

Function grad_function(const char* name, UnaryGrad op, std::function<Ld(Ld)> truth, double max_ulps,
                       double absolute) {
  return {name,
          [op](const float* x, float* y, std::size_t n) {
            std::vector<float> ones(n, 1.0f);
            unary_grad(op, x, ones.data(), y, n);
          },
          std::move(truth),
          max_ulps,
          -std::numeric_limits<float>::max(),
          std::numeric_limits<float>::max(),
          absolute};
}

std::vector<Function> functions() {
  const float max = std::numeric_limits<float>::max();
  return {
      unary_function(
          "exp", Unary::exp, [](Ld x) { return std::exp(x); }, 1.5),
      unary_function(
          "expm1", Unary::expm1, [](Ld x) { return std::expm1(x); }, 2),
      unary_function(
          "log", Unary::log, [](Ld x) { return std::log(x); }, 2),
      unary_function(
          "log1p", Unary::log1p, [](Ld x) { return std::log1p(x); }, 2),
      unary_function(
          "sqrt", Unary::sqrt, [](Ld x) { return std::sqrt(x); }, 0.51, 0, max),
      unary_function(
          "rsqrt", Unary::rsqrt, [](Ld x) { return 1 / std::sqrt(x); }, 1.5, 0, max),
      unary_function(
          "sin", Unary::sin, [](Ld x) { return std::sin(x); }, 2),
      unary_function(
          "cos", Unary::cos, [](Ld x) { return std::cos(x); }, 2),
      unary_function(
          "tanh", Unary::tanh, [](Ld x) { return std::tanh(x); }, 5),
      unary_function(
          "erf", Unary::erf, [](Ld x) { return std::erf(x); }, 3.5),
      unary_function("sigmoid", Unary::sigmoid, sigmoid, 3),
      unary_function(
          "softplus", Unary::softplus,
          [](Ld x) { return std::fmax(x, Ld(0)) + std::log1p(std::exp(-std::fabs(x))); }, 3),
      unary_function(
          "gelu", Unary::gelu, [](Ld x) { return x * normal_cdf(x); }, 6),
      // The sigmoid's argument is large where the value is small, and its rounding shows there.
      unary_function(
          "gelu_tanh", Unary::gelu_tanh, [](Ld x) { return x * sigmoid(gelu_argument(x)); }, 6,
          -max, max, 4e-8),
      unary_function(
          "silu", Unary::silu, [](Ld x) { return x * sigmoid(x); }, 4, -max, max, 1e-43),
      grad_function(
          "gelu_grad", UnaryGrad::gelu, [](Ld x) { return normal_cdf(x) + x * normal_pdf(x); }, 4,
          1.8e-7),
      grad_function("gelu_tanh_grad", UnaryGrad::gelu_tanh, gelu_tanh_grad, 4, 2.4e-7),
      grad_function("silu_grad", UnaryGrad::silu, silu_grad, 4, 1.2e-7),
      grad_function("softplus_grad", UnaryGrad::softplus, sigmoid, 3, 0),
  };
}

// Half the samples: random bits (all exponents, subnormals); half: evenly over (-20, 20).
std::vector<float> samples(std::uint64_t seed, std::size_t n) {
  std::mt19937_64 random(seed);
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    float v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (i % 2) v = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-53 * 40 - 20);
    x[i] = std::isfinite(v) ? v : 0.0f;
  }
  return x;
}

class MathTest : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(MathTest, IsWithinItsUlps) {
  const std::uint64_t seed = 20240917;
  const std::vector<float> x = samples(seed, 400000);
  std::vector<float> y(x.size());
  // Without FMA the square inside gelu is rounded, which shows far out on its tail; and every step
  // of a polynomial rounds twice.
  const bool fused = GetParam() != HWY_SSE4;
  const double floor = fused ? 0 : 4e-9, slack = fused ? 0 : 0.5;
  for (const Function& f : functions()) {
    f.run(x.data(), y.data(), x.size());
    double worst = 0;
    float at = 0, gave = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] < f.lo || x[i] > f.hi) continue;
      const Ld want = f.truth(x[i]);
      if (std::isfinite(y[i]) && std::fabs(y[i] - want) <= std::fmax(f.absolute, floor)) continue;
      const double error = ulps(y[i], want);
      if (error > worst) worst = error, at = x[i], gave = y[i];
    }
    std::printf("  %-16s %6.2f ulp at %.9g\n", f.name, worst, static_cast<double>(at));
    EXPECT_LE(worst, f.max_ulps + slack)
        << f.name << "(" << at << ") gave " << gave << ", seed " << seed;
  }
}

TEST_P(MathTest, SpecialValues) {
  const auto at = [](Unary op, float x) {
    float y;
    unary(op, &x, &y, 1);
    return y;
  };
  EXPECT_EQ(at(Unary::exp, 0), 1);
  EXPECT_EQ(at(Unary::exp, -kInf), 0);
  EXPECT_EQ(at(Unary::exp, kInf), kInf);
  EXPECT_EQ(at(Unary::exp, 88.8f), kInf);
  EXPECT_EQ(at(Unary::expm1, -kInf), -1);
  EXPECT_EQ(at(Unary::expm1, kInf), kInf);
  EXPECT_EQ(at(Unary::log, 0), -kInf);
  EXPECT_EQ(at(Unary::log, -0.0f), -kInf);
  EXPECT_EQ(at(Unary::log, 1), 0);
  EXPECT_EQ(at(Unary::log, kInf), kInf);
  EXPECT_TRUE(std::isnan(at(Unary::log, -1)));
  EXPECT_TRUE(std::isnan(at(Unary::log, -kInf)));
  EXPECT_EQ(at(Unary::log1p, -1), -kInf);
  EXPECT_EQ(at(Unary::log1p, kInf), kInf);
  EXPECT_TRUE(std::isnan(at(Unary::log1p, -1.5f)));
  EXPECT_TRUE(std::isnan(at(Unary::log1p, -kInf)));
  EXPECT_EQ(at(Unary::tanh, kInf), 1);
  EXPECT_EQ(at(Unary::tanh, -kInf), -1);
  EXPECT_EQ(at(Unary::erf, kInf), 1);
  EXPECT_EQ(at(Unary::erf, -kInf), -1);
  EXPECT_EQ(at(Unary::sigmoid, kInf), 1);
  EXPECT_EQ(at(Unary::sigmoid, -kInf), 0);
  EXPECT_EQ(at(Unary::softplus, kInf), kInf);
  EXPECT_EQ(at(Unary::softplus, -kInf), 0);
  EXPECT_EQ(at(Unary::rsqrt, 0), kInf);
  EXPECT_EQ(at(Unary::rsqrt, kInf), 0);
  for (const Unary op : {Unary::gelu, Unary::gelu_tanh, Unary::silu}) {
    EXPECT_EQ(at(op, kInf), kInf) << static_cast<int>(op);
    EXPECT_EQ(at(op, -kInf), 0) << static_cast<int>(op);
  }
  for (const Unary op : {Unary::sin, Unary::cos}) {
    EXPECT_TRUE(std::isnan(at(op, kInf)));
    EXPECT_TRUE(std::isnan(at(op, -kInf)));
  }
  for (const Unary op : {Unary::expm1, Unary::log1p, Unary::sin, Unary::tanh, Unary::erf}) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(at(op, -0.0f)), 0x80000000u) << static_cast<int>(op);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(at(op, 0.0f)), 0u) << static_cast<int>(op);
  }
  for (int op = 0; op <= static_cast<int>(Unary::clip); ++op)
    EXPECT_TRUE(std::isnan(at(static_cast<Unary>(op), kNan))) << op;
  float g;
  const float one = 1, inf = kInf, minus_inf = -kInf;
  for (const UnaryGrad op : {UnaryGrad::gelu, UnaryGrad::gelu_tanh, UnaryGrad::silu}) {
    unary_grad(op, &inf, &one, &g, 1);
    EXPECT_EQ(g, 1) << static_cast<int>(op);
    unary_grad(op, &minus_inf, &one, &g, 1);
    EXPECT_EQ(g, 0) << static_cast<int>(op);
  }
}

// Near 1 its roundings could carry tanh beyond: every argument from there on.
TEST_P(MathTest, TanhIsOddAndNeverBeyondOne) {
  const std::uint32_t first = std::bit_cast<std::uint32_t>(7.0f);
  const std::uint32_t last = std::bit_cast<std::uint32_t>(9.5f);
  std::vector<float> x, y, minus_y;
  for (std::uint32_t bits = first; bits <= last; ++bits) x.push_back(std::bit_cast<float>(bits));
  for (float tiny = 1e-44f; tiny < 1e-5f; tiny *= 1.7f) x.push_back(tiny);
  y.resize(x.size());
  minus_y.resize(x.size());
  unary(Unary::tanh, x.data(), y.data(), x.size());
  std::vector<float> minus_x = x;
  for (float& v : minus_x) v = -v;
  unary(Unary::tanh, minus_x.data(), minus_y.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(minus_y[i], -y[i]) << x[i];
    if (x[i] >= 7) {
      ASSERT_LE(y[i], 1) << x[i];
      ASSERT_GT(y[i], 0.999998f) << x[i];
      if (x[i] >= 9.3f) {
        ASSERT_EQ(y[i], 1) << x[i];
      }
    } else {
      ASSERT_LE(ulps(y[i], x[i]), 1) << x[i];
    }
  }
}

// Whatever its payload: some functions work on the bits.
TEST_P(MathTest, ANaNStaysOne) {
  std::vector<float> x, y(40);
  for (const std::uint32_t bits : {0x7fc00000u, 0x7fc00001u, 0x7f800001u, 0x7fc000ffu, 0xffc00080u,
                                   0x7fffffffu, 0xffc0ffffu, 0x7fd55555u})
    for (int i = 0; i < 5; ++i) x.push_back(std::bit_cast<float>(bits));
  for (int op = 0; op <= static_cast<int>(Unary::clip); ++op) {
    unary(static_cast<Unary>(op), x.data(), y.data(), x.size(), {.a = -1, .b = 1});
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(std::isnan(y[i])) << "function " << op << " of " << std::hex
                                    << std::bit_cast<std::uint32_t>(x[i]) << " gave " << y[i];
  }
}

TEST_P(MathTest, PowIsWithinOneUlpAndHasItsSpecialValues) {
  const std::uint64_t seed = 77;
  std::mt19937_64 random(seed);
  const std::size_t n = 200000;
  std::vector<float> x(n), y(n), z(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x7fffffffu);
    if (!std::isfinite(x[i])) x[i] = 3;
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    y[i] = static_cast<float>((u * 2 - 1) * (i % 3 == 0 ? 90.0 : 4.0));
    if (i % 2) x[i] = static_cast<float>(u * 4), y[i] = static_cast<float>(i % 41) - 20.0f;
    if (i % 4 == 3) x[i] = -x[i];  // y is whole there
  }
  binary(Binary::pow, same_shape<2>(n), x.data(), y.data(), z.data());
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double error = ulps(z[i], std::pow(Ld(x[i]), Ld(y[i])));
    ASSERT_LE(error, 1.0) << x[i] << "^" << y[i] << " = " << z[i] << ", seed " << seed;
    worst = std::max(worst, error);
  }
  std::printf("  %-16s %6.2f ulp\n", "pow", worst);
  const float values[] = {0.0f,  -0.0f,       1,           -1,     2,      -2,     0.5f,
                          -0.5f, 3,           -3,          1.5f,   -1.5f,  kInf,   -kInf,
                          kNan,  16777216.0f, 16777215.0f, -1e30f, 1e-40f, -1e-40f};
  for (float a : values) {
    for (float b : values) {
      float got;
      binary(Binary::pow, same_shape<2>(1), &a, &b, &got);
      const float want = static_cast<float>(std::pow(Ld(a), Ld(b)));
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << a << "^" << b << " gave " << got;
      } else {
        EXPECT_LE(ulps(got, want), 1.0) << a << "^" << b << " gave " << got << ", not " << want;
        EXPECT_EQ(std::signbit(got), std::signbit(want)) << a << "^" << b;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, MathTest, testing::ValuesIn(targets()), target_name);

}  // namespace
}  // namespace ebb::kernels
