// Layouts, tails, threads and targets of the elementwise kernels; conversions. (Accuracy of the
// functions themselves: math_test.cpp.)
#include "ebb/kernels/elementwise.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "ebb/base/half.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/kernels/convert.hpp"
#include "tests/kernels/targets.hpp"
#include "tests/kernels/threads.hpp"

namespace ebb::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
const std::size_t kSizes[] = {0, 1, 7, 8, 9, 31, 32, 33, 1000, 40001, 1000003};

std::vector<float> random_floats(std::uint64_t seed, std::size_t n, float scale = 4) {
  std::mt19937_64 random(seed);
  std::vector<float> x(n);
  for (float& v : x)
    v = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-53 * 2 - 1) * scale;
  return x;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

constexpr int kUnaries = static_cast<int>(Unary::clip) + 1;
constexpr int kGrads = static_cast<int>(UnaryGrad::clip) + 1;
const Scalars kScalars{0.25, 0.75};

TEST(Elementwise, AValueHasOneResultWhereverItStands) {
  const std::size_t n = 1101;
  std::vector<float> x(n), y(n), g(n, 1.0f);
  for (const float value : {-2.5f, -0.1f, 0.3f, 1.7f, 40.0f, 1e-40f}) {
    std::fill(x.begin(), x.end(), value);
    for (int op = 0; op < kUnaries; ++op) {
      float alone;
      unary(static_cast<Unary>(op), &value, &alone, 1, kScalars);
      unary(static_cast<Unary>(op), x.data(), y.data(), n, kScalars);
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_EQ(std::memcmp(&alone, &y[i], 4), 0)
            << "op " << op << " of " << value << " at " << i;
    }
    for (int op = 0; op < kGrads; ++op) {
      unary_grad(static_cast<UnaryGrad>(op), x.data(), g.data(), y.data(), n, kScalars);
      for (std::size_t i = 1; i < n; ++i)
        ASSERT_EQ(std::memcmp(&y[0], &y[i], 4), 0)
            << "grad " << op << " of " << value << " at " << i;
    }
  }
}

TEST(Elementwise, ThreadsInPlaceAndUnalignedGiveTheSameBits) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> x = random_floats(n + 1, n);
    for (const Unary op : {Unary::relu, Unary::gelu, Unary::log, Unary::sin, Unary::softplus}) {
      std::vector<float> one(n), other(n), in_place = x, shifted(n + 1);
      {
        const Threads threads(1);
        unary(op, x.data(), one.data(), n);
      }
      for (const int count : {2, 3}) {
        const Threads threads(count);
        unary(op, x.data(), other.data(), n);
        EXPECT_TRUE(same_bits(one, other)) << n << " elements, threads " << count;
      }
      unary(op, in_place.data(), in_place.data(), n);
      EXPECT_TRUE(same_bits(one, in_place)) << n << " elements, in place";
      unary(op, x.data(), shifted.data() + 1, n);
      shifted.erase(shifted.begin());
      EXPECT_TRUE(same_bits(one, shifted)) << n << " elements, unaligned";
    }
  }
}

TEST(Elementwise, LargeOutputsStoredPastTheCachesHaveTheSameBits) {
  const std::size_t n = (std::size_t{5} << 20) + 13;  // 20 MiB
  const std::vector<float> x = random_floats(5, n), g = random_floats(6, n);
  std::vector<float> whole(n + 1), parts(n);
  for (const Unary op : {Unary::tanh, Unary::softplus}) {
    unary(op, x.data(), whole.data() + 1, n);
    for (std::size_t i = 0; i < n; i += 300)
      unary(op, x.data() + i, parts.data() + i, std::min<std::size_t>(300, n - i));
    EXPECT_EQ(std::memcmp(whole.data() + 1, parts.data(), n * 4), 0);
  }
  binary(Binary::add, same_shape<2>(n), x.data(), g.data(), whole.data() + 1);
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(whole[i + 1], x[i] + g[i]) << i;
}

TEST(Elementwise, FmaTargetsGiveTheSameBits) {
  const std::size_t n = 10007;
  const std::vector<float> x = random_floats(9, n, 30);
  std::vector<std::vector<float>> results;
  for (const std::int64_t target : {HWY_AVX2, HWY_AVX3, HWY_NEON}) {
    if (!(hwy::SupportedTargets() & target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    std::vector<float> all;
    for (int op = 0; op < kUnaries; ++op) {
      std::vector<float> y(n);
      unary(static_cast<Unary>(op), x.data(), y.data(), n, kScalars);
      all.insert(all.end(), y.begin(), y.end());
    }
    results.push_back(all);
    hwy::SetSupportedTargetsForTest(0);
  }
  if (results.empty()) GTEST_SKIP() << "no target with FMA here";
  for (const auto& r : results) EXPECT_TRUE(same_bits(results[0], r));
}

TEST(Elementwise, SimpleFunctions) {
  const std::vector<float> x = {-3, -0.5f, -0.0f, 0, 0.5f, 3, kInf, -kInf, kNan};
  const auto at = [&](Unary op, std::size_t i, Scalars s = {}) {
    float y;
    unary(op, &x[i], &y, 1, s);
    return y;
  };
  EXPECT_EQ(at(Unary::relu, 0), 0);
  EXPECT_EQ(at(Unary::relu, 5), 3);
  EXPECT_TRUE(std::isnan(at(Unary::relu, 8)));
  EXPECT_EQ(at(Unary::sign, 0), -1);
  EXPECT_EQ(at(Unary::sign, 3), 0);
  EXPECT_EQ(at(Unary::sign, 6), 1);
  EXPECT_EQ(at(Unary::leaky_relu, 0, {0.1, 0}), -3 * 0.1f);
  EXPECT_FLOAT_EQ(at(Unary::elu, 1, {2, 0}), 2 * std::expm1(-0.5f));
  EXPECT_EQ(at(Unary::clip, 0, {-1, 2}), -1);
  EXPECT_EQ(at(Unary::clip, 5, {-1, 2}), 2);
  EXPECT_EQ(at(Unary::clip, 4, {-1, 2}), 0.5f);
  EXPECT_EQ(at(Unary::reciprocal, 3), kInf);
  std::vector<std::int64_t> i64 = {-5, 0, 7, std::numeric_limits<std::int64_t>::min()}, out(4);
  unary(Unary::neg, i64.data(), out.data(), 4);
  EXPECT_EQ(out, (std::vector<std::int64_t>{5, 0, -7, std::numeric_limits<std::int64_t>::min()}));
  unary(Unary::square, i64.data(), out.data(), 4);
  EXPECT_EQ(out, (std::vector<std::int64_t>{25, 0, 49, 0}));
  std::vector<std::int32_t> i32 = {-5, 0, 7}, out32(3);
  unary(Unary::clip, i32.data(), out32.data(), 3, {-1, 3});
  EXPECT_EQ(out32, (std::vector<std::int32_t>{-1, 0, 3}));
}

// Reference: the index of each operand worked out per element.
template <int K>
std::vector<std::size_t> places(const std::vector<std::int64_t>& out,
                                const std::vector<std::int64_t>& in) {
  std::size_t size = 1;
  for (auto n : out) size *= static_cast<std::size_t>(n);
  std::vector<std::size_t> at(size);
  for (std::size_t i = 0; i < size; ++i) {
    std::size_t rest = i, place = 0, step = 1;
    for (std::size_t b = 1; b <= out.size(); ++b) {
      const auto n = static_cast<std::size_t>(out[out.size() - b]);
      const std::size_t index = rest % n;
      rest /= n;
      if (b <= in.size() && in[in.size() - b] != 1) {
        place += index * step;
        step *= n;
      }
    }
    at[i] = place;
  }
  return at;
}

TEST(Elementwise, Broadcasts) {
  struct Layout {
    std::vector<std::int64_t> out, a, b;
  };
  const std::vector<Layout> layouts = {
      {{5}, {5}, {5}},
      {{}, {}, {}},
      {{3, 7}, {3, 7}, {7}},
      {{3, 7}, {7}, {3, 7}},
      {{3, 7}, {3, 1}, {3, 7}},
      {{3, 7}, {3, 1}, {7}},
      {{300, 333}, {300, 333}, {333}},
      {{300, 333}, {300, 1}, {1, 333}},
      {{4, 3, 5}, {4, 1, 5}, {3, 1}},
      {{4, 3, 5}, {1}, {4, 3, 5}},
      {{2, 3, 4, 5}, {3, 1, 5}, {2, 1, 4, 1}},
      {{2, 1, 2, 1, 3, 2, 1, 2}, {2, 1, 1, 1, 3, 1, 1, 2}, {2, 1, 3, 2, 1, 1}},
      {{0, 4}, {0, 4}, {4}},
      {{6, 2}, {1, 1}, {}},
  };
  for (const Layout& l : layouts) {
    const auto pa = places<2>(l.out, l.a), pb = places<2>(l.out, l.b);
    const std::size_t n = pa.size();
    const std::vector<float> a = random_floats(1, 110000), b = random_floats(2, 110000);
    const auto walk = broadcast<2>(
        l.out, {std::span<const std::int64_t>(l.a), std::span<const std::int64_t>(l.b)});
    ASSERT_EQ(walk.size, n);
    std::vector<float> y(n), one(n);
    for (const int count : {1, 2, 3}) {
      const Threads threads(count);
      binary(Binary::sub, walk, a.data(), b.data(), y.data());
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(y[i], a[pa[i]] - b[pb[i]]) << i;
    }
    std::vector<char> less(n);
    compare(Compare::lt, walk, a.data(), b.data(), reinterpret_cast<bool*>(less.data()));
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(less[i], a[pa[i]] < b[pb[i]]) << i;
    // 16-bit operands: computed in f32, rounded once.
    std::vector<bf16> a16(a.size()), b16(b.size()), y16(n);
    convert(a.data(), a16.data(), a.size());
    convert(b.data(), b16.data(), b.size());
    binary(Binary::mul, walk, a16.data(), b16.data(), y16.data());
    for (std::size_t i = 0; i < n; ++i)
      ASSERT_EQ(y16[i].bits, to_bf16(to_float(a16[pa[i]]) * to_float(b16[pb[i]])).bits) << i;
    // where: the condition has the layout of a, the first value that of b, the second stands still.
    std::vector<char> c(a.size());
    for (std::size_t i = 0; i < c.size(); ++i) c[i] = i % 3 == 0;
    const std::vector<std::int64_t> scalar;
    const auto walk3 =
        broadcast<3>(l.out, {std::span<const std::int64_t>(l.a), std::span<const std::int64_t>(l.b),
                             std::span<const std::int64_t>(scalar)});
    const float otherwise = 99;
    where(walk3, 4, reinterpret_cast<const bool*>(c.data()), b.data(), &otherwise, y.data());
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(y[i], c[pa[i]] ? b[pb[i]] : otherwise) << i;
  }
}

TEST(Elementwise, NaNAndIntegers) {
  const float a[] = {1, kNan, kNan, 2}, b[] = {kNan, 1, kNan, -1};
  float y[4];
  bool t[4];
  for (const Binary op : {Binary::minimum, Binary::maximum}) {
    binary(op, same_shape<2>(4), a, b, y);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(y[i]));
    EXPECT_EQ(y[3], op == Binary::minimum ? -1 : 2);
  }
  for (const Compare op : {Compare::eq, Compare::lt, Compare::le, Compare::gt, Compare::ge}) {
    compare(op, same_shape<2>(4), a, b, t);
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(t[i]);
  }
  compare(Compare::ne, same_shape<2>(4), a, b, t);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(t[i]);
  const std::int32_t least = std::numeric_limits<std::int32_t>::min();
  const std::int32_t u[] = {7, -7, 5, least}, v[] = {2, 2, 0, -1};
  std::int32_t w[4];
  binary(Binary::div, same_shape<2>(4), u, v, w);
  EXPECT_EQ((std::vector<std::int32_t>(w, w + 4)), (std::vector<std::int32_t>{3, -3, 0, least}));
  binary(Binary::add, same_shape<2>(4), u, v, w);
  EXPECT_EQ((std::vector<std::int32_t>(w, w + 4)),
            (std::vector<std::int32_t>{9, -5, 5, std::numeric_limits<std::int32_t>::max()}));
  const bool p[] = {false, false, true, true}, q[] = {false, true, false, true};
  logic(Logic::and_, same_shape<2>(4), p, q, t);
  EXPECT_EQ((std::vector<bool>(t, t + 4)), (std::vector<bool>{false, false, false, true}));
  logic(Logic::or_, same_shape<2>(4), p, q, t);
  EXPECT_EQ((std::vector<bool>(t, t + 4)), (std::vector<bool>{false, true, true, true}));
  logic(Logic::xor_, same_shape<2>(4), p, q, t);
  EXPECT_EQ((std::vector<bool>(t, t + 4)), (std::vector<bool>{false, true, true, false}));
  logical_not(p, t, 4);
  EXPECT_EQ((std::vector<bool>(t, t + 4)), (std::vector<bool>{true, true, false, false}));
}

TEST(Elementwise, GradientsAgreeWithDifferences) {
  // In double, four-point differences of the function itself.
  const std::pair<UnaryGrad, Unary> pairs[] = {
      {UnaryGrad::relu, Unary::relu},       {UnaryGrad::leaky_relu, Unary::leaky_relu},
      {UnaryGrad::elu, Unary::elu},         {UnaryGrad::tanh, Unary::tanh},
      {UnaryGrad::sigmoid, Unary::sigmoid}, {UnaryGrad::softplus, Unary::softplus},
      {UnaryGrad::gelu, Unary::gelu},       {UnaryGrad::gelu_tanh, Unary::gelu_tanh},
      {UnaryGrad::silu, Unary::silu},       {UnaryGrad::erf, Unary::erf},
      {UnaryGrad::abs, Unary::abs},         {UnaryGrad::clip, Unary::clip}};
  const auto from_output = [](UnaryGrad g) { return g <= UnaryGrad::sigmoid; };
  for (const auto& [grad, op] : pairs) {
    for (const double x : {-3.1, -0.9, -0.2, 0.3, 0.6, 1.4, 5.0}) {
      const auto f = [&, op = op](double v) {
        double y;
        unary(op, &v, &y, 1, kScalars);
        return y;
      };
      const double h = 1e-3;
      const double want = (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h);
      const double saved = from_output(grad) ? f(x) : x, dy = 2;
      double dx;
      unary_grad(grad, &saved, &dy, &dx, 1, kScalars);
      EXPECT_NEAR(dx, 2 * want, 1e-9) << static_cast<int>(grad) << " at " << x;
      const float saved32 = static_cast<float>(saved), dy32 = 2;
      float dx32;
      unary_grad(grad, &saved32, &dy32, &dx32, 1, kScalars);
      EXPECT_NEAR(dx32, 2 * want, 2e-6) << static_cast<int>(grad) << " at " << x << " in f32";
    }
  }
}

class ConvertTest : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(ConvertTest, HalvesHaveTheBitsOfTheScalarFunctions) {
  const std::uint64_t seed = 31;
  std::mt19937_64 random(seed);
  std::vector<float> x;
  for (int i = 0; i < 300000; ++i)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (std::uint32_t h = 0; h < 65536; ++h) {  // every f16 and the halfway points around it
    const float f = to_float(f16{static_cast<std::uint16_t>(h)});
    for (const std::uint32_t shift : {0u, 0xfffu, 0x1000u, 0x1001u})
      x.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(f) + shift));
  }
  const std::size_t n = x.size();
  std::vector<bf16> b(n);
  std::vector<f16> h(n);
  convert(x.data(), b.data(), n);
  convert(x.data(), h.data(), n);
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_EQ(b[i].bits, to_bf16(x[i]).bits) << x[i] << " seed " << seed;
    ASSERT_EQ(h[i].bits, to_f16(x[i]).bits) << x[i] << " seed " << seed;
  }
  std::vector<bf16> all_b(65536);
  std::vector<f16> all_h(65536);
  for (std::uint32_t i = 0; i < 65536; ++i)
    all_b[i].bits = all_h[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> back(65536);
  convert(all_b.data(), back.data(), back.size());
  for (std::uint32_t i = 0; i < 65536; ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]),
              std::bit_cast<std::uint32_t>(to_float(all_b[i])))
        << i;
  convert(all_h.data(), back.data(), back.size());
  for (std::uint32_t i = 0; i < 65536; ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]),
              std::bit_cast<std::uint32_t>(to_float(all_h[i])))
        << i;
}

TEST_P(ConvertTest, FloatsToIntegersAreLimited) {
  const std::vector<float> x = {
      0,     -0.9f, 1.9f,  -1.9f, 2147483520.0f, 2147483648.0f, 3e9f, -2147483648.0f,
      -3e9f, kInf,  -kInf, kNan,  255.9f,        256,           -1,   1e30f};
  std::vector<std::int32_t> i32(x.size());
  convert(x.data(), i32.data(), x.size());
  const std::int32_t most = std::numeric_limits<std::int32_t>::max(), least = -most - 1;
  EXPECT_EQ(i32, (std::vector<std::int32_t>{0, 0, 1, -1, 2147483520, most, most, least, least, most,
                                            least, 0, 255, 256, -1, most}));
  std::vector<std::int32_t> one(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) convert(&x[i], &one[i], 1);
  EXPECT_EQ(i32, one);
  std::vector<std::uint8_t> u8(x.size());
  convert(x.data(), u8.data(), x.size());
  EXPECT_EQ(u8, (std::vector<std::uint8_t>{0, 0, 1, 0, 255, 255, 255, 0, 0, 255, 0, 0, 255, 255, 0,
                                           255}));
  std::vector<std::int64_t> i64(x.size());
  convert(x.data(), i64.data(), x.size());
  EXPECT_EQ(i64[6], 3000000000);
  EXPECT_EQ(i64[9], std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(i64[10], std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(i64[11], 0);
  std::vector<char> truth(x.size());
  convert(x.data(), reinterpret_cast<bool*>(truth.data()), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(truth[i], x[i] != 0) << i;
}

TEST_P(ConvertTest, EveryPairOfTypes) {
  const auto check = []<class From, class To>(From, To) {
    for (const std::size_t n :
         {std::size_t{0}, std::size_t{1}, std::size_t{9}, std::size_t{1003}}) {
      std::vector<double> values(n), back(n);
      for (std::size_t i = 0; i < n; ++i)
        values[i] = static_cast<double>(i % 2);  // fits every type
      std::vector<From> from(n + 1);  // + 1: vector<bool> has no data(), so bools are bytes below
      std::vector<To> to(n + 1);
      convert(values.data(), from.data(), n);
      convert(from.data(), to.data(), n);
      convert(to.data(), back.data(), n);
      EXPECT_EQ(values, back);
    }
  };
  const auto from_type = [&]<class From>(From from) {
    check(from, float());
    check(from, double());
    check(from, bf16());
    check(from, f16());
    check(from, std::int32_t());
    check(from, std::int64_t());
    check(from, std::uint8_t());
  };
  from_type(float());
  from_type(double());
  from_type(bf16());
  from_type(f16());
  from_type(std::int32_t());
  from_type(std::int64_t());
  from_type(std::uint8_t());
}

INSTANTIATE_TEST_SUITE_P(Targets, ConvertTest, testing::ValuesIn(targets()), target_name);

}  // namespace
}  // namespace ebb::kernels
