#include "ebb/base/half.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>

namespace ebb {
namespace {

bool is_nan(f16 h) { return (h.bits & 0x7fffu) > 0x7c00u; }
bool is_nan(bf16 h) { return (h.bits & 0x7fffu) > 0x7f80u; }

// What a pattern of bits means, from the definition of the format, in double (exact for both).
double meaning(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  double value;
  if (exponent == (1 << exponent_bits) - 1)
    value = mantissa ? std::numeric_limits<double>::quiet_NaN()
                     : std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  else
    value = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return std::copysign(value, bits & 0x8000u ? -1.0 : 1.0);
}
double meaning(f16 h) { return meaning(h.bits, 5, 10); }
double meaning(bf16 h) { return meaning(h.bits, 8, 7); }

f16 narrow(float x, f16) { return to_f16(x); }
bf16 narrow(float x, bf16) { return to_bf16(x); }

template <class H>
class Half : public testing::Test {};
using Halves = testing::Types<f16, bf16>;
TYPED_TEST_SUITE(Half, Halves);

TYPED_TEST(Half, EveryPatternMeansWhatTheFormatSaysAndRoundTrips) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const TypeParam h{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(h);
    const TypeParam back = narrow(wide, TypeParam{});
    if (is_nan(h)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(is_nan(back)) << bits;
      ASSERT_EQ(back.bits & 0x8000u, bits & 0x8000u) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(static_cast<double>(wide)),
                std::bit_cast<std::uint64_t>(meaning(h)))
          << bits;
      ASSERT_EQ(back.bits, bits);
    }
  }
}

// Between each two neighbours: the middle goes to the even one, one step off it to the nearer one.
TYPED_TEST(Half, RoundsToNearestAndTiesToEven) {
  const std::uint16_t infinity = std::is_same_v<TypeParam, f16> ? 0x7c00 : 0x7f80;
  for (std::uint32_t bits = 0; bits + 1 < infinity; ++bits) {
    for (const std::uint16_t sign : {0x0000, 0x8000}) {
      const TypeParam low{static_cast<std::uint16_t>(bits | sign)};
      const TypeParam high{static_cast<std::uint16_t>((bits + 1) | sign)};
      const double middle = (meaning(low) + meaning(high)) / 2;
      const auto tie = static_cast<float>(middle);
      ASSERT_EQ(static_cast<double>(tie), middle) << "a tie must be exact in f32, " << bits;
      const float toward_low = std::nextafterf(tie, to_float(low));
      const float toward_high = std::nextafterf(tie, to_float(high));
      ASSERT_EQ(narrow(tie, TypeParam{}).bits, bits % 2 == 0 ? low.bits : high.bits) << bits;
      ASSERT_EQ(narrow(toward_low, TypeParam{}).bits, low.bits) << bits;
      ASSERT_EQ(narrow(toward_high, TypeParam{}).bits, high.bits) << bits;
    }
  }
}

TEST(HalfF16, Edges) {
  EXPECT_EQ(to_f16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(to_f16(std::nextafterf(65520.0f, 0.0f)).bits, 0x7bff);
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7c00);  // half way to 2^16, and the even one is infinity
  EXPECT_EQ(to_f16(std::numeric_limits<float>::max()).bits, 0x7c00);
  EXPECT_EQ(to_f16(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_EQ(to_f16(0x1p-24f).bits, 1);
  EXPECT_EQ(to_f16(0x1p-25f).bits, 0);  // a tie with zero
  EXPECT_EQ(to_f16(std::nextafterf(0x1p-25f, 1.0f)).bits, 1);
  EXPECT_EQ(to_f16(0x1.ffcp-15f).bits, 0x0400);  // rounds up out of the subnormals
  EXPECT_EQ(to_f16(-0.0f).bits, 0x8000);
  EXPECT_EQ(to_f16(std::numeric_limits<float>::denorm_min()).bits, 0);
}

TEST(HalfBf16, Edges) {
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(to_bf16(0x1.fep127f).bits, 0x7f7f);
  EXPECT_EQ(to_bf16(0x1.ffp127f).bits, 0x7f80);  // half way to 2^128, and the even one is infinity
  EXPECT_EQ(to_bf16(std::nextafterf(0x1.ffp127f, 0.0f)).bits, 0x7f7f);
  EXPECT_EQ(to_bf16(-std::numeric_limits<float>::infinity()).bits, 0xff80);
  EXPECT_EQ(to_bf16(-0.0f).bits, 0x8000);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::denorm_min()).bits, 0);
}

// A NaN whose payload sits only in the bits that are cut off must not become infinity.
TEST(HalfNan, StaysNanWhateverItsPayload) {
  for (int bit = 0; bit < 23; ++bit) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const auto nan = std::bit_cast<float>(sign | 0x7f800000u | (1u << bit));
      EXPECT_TRUE(is_nan(to_f16(nan))) << bit;
      EXPECT_TRUE(is_nan(to_bf16(nan))) << bit;
      EXPECT_EQ(to_f16(nan).bits >> 15, sign >> 31);
      EXPECT_EQ(to_bf16(nan).bits >> 15, sign >> 31);
      EXPECT_TRUE(to_f16(nan).bits & 0x0200u) << "quiet";
      EXPECT_TRUE(to_bf16(nan).bits & 0x0040u) << "quiet";
    }
  }
}

#if defined(__FLT16_MANT_DIG__) && !defined(__clang__)
// The compiler's own type as a second opinion, over random patterns of every magnitude.
TEST(HalfF16, AgreesWithTheCompiler) {
  const unsigned seed = 11;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 2'000'000; ++i) {
    // Half of them in f16's range, where rounding is worth a look.
    std::uint32_t bits = random();
    if (i % 2) bits = (bits & 0x807fffffu) | ((100u + bits / 8388608u % 46u) << 23);
    const auto x = std::bit_cast<float>(bits);
    const auto theirs = static_cast<_Float16>(x);
    std::uint16_t expected;
    std::memcpy(&expected, &theirs, sizeof expected);
    if (std::isnan(x)) continue;
    ASSERT_EQ(to_f16(x).bits, expected) << std::hexfloat << x;
    ASSERT_EQ(to_float(f16{expected}), static_cast<float>(theirs));
  }
}
#endif

}  // namespace
}  // namespace ebb
