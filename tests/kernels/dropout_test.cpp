// Dropout and arrays of random numbers: the bits of the scalar definition, wherever work is cut.
#include "ebb/kernels/dropout.hpp"

#include "ebb/kernels/random.hpp"
#include "tests/kernels/rows_support.hpp"

namespace ebb::kernels::rows_test {
namespace {

bool kept(Draws d, std::size_t i, double rate) {
  const std::uint64_t p = d.first + i;
  const std::uint32_t half = draw(d.key, d.stream, p / 2) >> (p % 2 * 16) & 0xFFFF;
  return half >= std::round(rate * 65536);
}

template <class T>
void check_dropout(std::size_t n, double rate, Draws draws) {
  SCOPED_TRACE(::testing::Message() << "n " << n << " rate " << rate << " first " << draws.first);
  const auto x = random_values<T>(n, 1);
  Values<T> y(n, T(99));
  dropout(x.data(), y.data(), n, rate, draws);
  const T scale = static_cast<T>(1 / (1 - rate));
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_EQ(y[i], kept(draws, i, rate) ? x[i] * scale : T(0)) << i;
  }
}

template <class T>
class DropoutOf : public ::testing::Test {};
TYPED_TEST_SUITE(DropoutOf, Floats);

TYPED_TEST(DropoutOf, IsItsDefinition) {
  for_each_target([](std::int64_t) {
    for (const std::size_t n : {0, 1, 2, 31, 63, 64, 65, 127, 128, 129, 300, 5000}) {
      for (const std::uint64_t first : {0, 1, 5, 63, 64, 127, 128, 1001}) {
        check_dropout<TypeParam>(n, 0.3, {{1, 2}, 3, first});
      }
    }
    check_dropout<TypeParam>(100, 0, {{1, 2}, 3, 0});
    check_dropout<TypeParam>(100, 0.999, {{1, 2}, 3, 0});
    check_dropout<TypeParam>(100, 0.5, {{1, 2}, 3, (1ull << 39) - 50});  // blocks past 2^32
  });
}

TYPED_TEST(DropoutOf, RateOneKeepsNothingNotEvenNaN) {
  Values<TypeParam> x(10, std::numeric_limits<TypeParam>::quiet_NaN()), y(10, TypeParam(1));
  dropout(x.data(), y.data(), x.size(), 1.0, {{1, 2}, 3, 0});
  for (const auto v : y) EXPECT_EQ(v, 0);
}

TYPED_TEST(DropoutOf, OneResultHoweverItRunsAndLargeOutputsToo) {
  const std::size_t n = (std::size_t{9} << 20) / sizeof(TypeParam) + 5;
  const auto x = random_values<TypeParam>(n, 2);
  const auto run = [&] {
    Values<TypeParam> y(n);
    dropout(x.data(), y.data(), n, 0.1, {{1, 2}, 3, 7});
    return y;
  };
  expect_one_result(run);
  const auto whole = run();
  for (std::size_t i = 0; i < n; i += 997) {
    ASSERT_EQ(whole[i] != 0, kept({{1, 2}, 3, 7}, i, 0.1)) << i;
  }
  Values<TypeParam> parts(n);
  const std::size_t cut = 12345;
  dropout(x.data(), parts.data(), cut, 0.1, {{1, 2}, 3, 7});
  dropout(x.data() + cut, parts.data() + cut, n - cut, 0.1, {{1, 2}, 3, 7 + cut});
  EXPECT_TRUE(same_bits(whole, parts));
}

TYPED_TEST(DropoutOf, KeepsTheRightShare) {
  const std::size_t n = 200000;
  Values<TypeParam> x(n, TypeParam(1));
  dropout(x.data(), x.data(), n, 0.25, {{3, 4}, 5, 0});
  double kept_count = 0;
  for (const auto v : x) kept_count += v != 0;
  EXPECT_NEAR(kept_count / n, 0.75, 5 * std::sqrt(0.75 * 0.25 / n));
}

double unit_f32(Key key, std::uint64_t stream, std::uint64_t p) {
  return (draw(key, stream, p) >> 8) * 0x1p-24;
}
double unit_f64(Key key, std::uint64_t stream, std::uint64_t p) {
  return static_cast<double>(draw64(key, stream, p) >> 11) * 0x1p-53;
}
template <class T>
double unit_of(Draws d, std::uint64_t p) {
  return sizeof(T) == 4 ? unit_f32(d.key, d.stream, p) : unit_f64(d.key, d.stream, p);
}

TYPED_TEST(DropoutOf, UniformIsItsDefinition) {
  using T = TypeParam;
  for_each_target([](std::int64_t) {
    for (const std::uint64_t first : {0, 1, 33, 64}) {
      const Draws draws{{9, 8}, 7, first};
      Values<T> y(300);
      uniform(y.data(), y.size(), 0, 1, draws);
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], unit_of<T>(draws, first + i));
    }
  });
  Values<T> y(1000);
  uniform(y.data(), y.size(), -3, 5, {{1, 1}, 1, 0});
  for (const auto v : y) EXPECT_TRUE(v >= -3 && v <= 5);
}

TYPED_TEST(DropoutOf, NormalIsItsDefinition) {
  using T = TypeParam;
  for_each_target([](std::int64_t) {
    for (const std::uint64_t first : {0, 1, 16, 33, 64}) {
      const Draws draws{{9, 8}, 7, first};
      Values<T> y(300);
      normal(y.data(), y.size(), 1, 2, draws);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::uint64_t p = first + i, even = p / 16 % 2 == 0 ? p : p - 16;
        const Ld r = std::sqrt(-2 * std::log(1 - Ld(unit_of<T>(draws, even))));
        const Ld a = 2 * std::acos(Ld(-1)) * unit_of<T>(draws, even + 16);
        expect_near(y[i], 1 + 2 * r * (even == p ? std::cos(a) : std::sin(a)), 4, "normal", i);
      }
    }
  });
}

TYPED_TEST(DropoutOf, NormalHasItsMomentsAndOneResult) {
  using T = TypeParam;
  const auto run = [] {
    Values<T> y(100001);
    normal(y.data(), y.size(), 0, 1, {{2, 3}, 4, 5});
    return y;
  };
  expect_one_result(run);
  const auto y = run();
  double mean = 0, square = 0, fourth = 0;
  for (const double v : y) {
    mean += v;
    square += v * v;
    fourth += v * v * v * v;
  }
  const double n = static_cast<double>(y.size());
  EXPECT_NEAR(mean / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
}

}  // namespace
}  // namespace ebb::kernels::rows_test
