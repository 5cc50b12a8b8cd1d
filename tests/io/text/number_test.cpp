#include "ebb/io/text/number.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "tests/answers.hpp"

namespace ebb::io {
namespace {

Number parsed(const std::string& text) {
  return parse_number(text.data(), text.data() + text.size());
}

// strtof rounds once, too.
TEST(Number, IsRoundedAsTheCLibraryDoes) {
  const unsigned seed = 1;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  char text[64];
  for (int i = 0; i < 300'000; ++i) {
    const double wide =
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 160);
    float near = 0;
    const auto bits = static_cast<std::uint32_t>(random());
    std::memcpy(&near, &bits, 4);
    switch (random() % 4) {
      case 0:
        std::snprintf(text, sizeof text, "%.*f", static_cast<int>(random() % 10),
                      static_cast<double>(random() % 2'000'000) / 1000 - 1000);
        break;
      case 1:
        std::snprintf(text, sizeof text, "%.*g", static_cast<int>(random() % 18), wide);
        break;
      case 2:  // halfway between two floats, or about so
        std::snprintf(text, sizeof text, "%.*e", static_cast<int>(random() % 20),
                      (static_cast<double>(near) + std::nextafter(near, 1e38f)) / 2);
        break;
      default:
        std::snprintf(text, sizeof text, "%llu.%lluE%d",
                      static_cast<unsigned long long>(random() >> random() % 64),
                      static_cast<unsigned long long>(random() >> random() % 64),
                      static_cast<int>(random() % 60) - 30);
    }
    const float expected = std::strtof(text, nullptr);
    const Number n = parsed(text);
    if (std::strstr(text, "nan") || std::strstr(text, "inf")) {
      EXPECT_EQ(n.state, NumberState::none) << text;
    } else if (std::isinf(expected)) {
      EXPECT_EQ(n.state, NumberState::too_large) << text;
    } else {
      ASSERT_EQ(n.state, NumberState::good) << text;
      ASSERT_EQ(std::memcmp(&n.value, &expected, 4), 0)
          << text << " " << n.value << " " << expected;
    }
  }
}

TEST(Number, TakesWhatIsOneAndNoMore) {
  const auto rest = [](const std::string& text) {
    const Number n = parsed(text);
    return n.state == NumberState::good ? std::to_string(static_cast<int>(n.value)) + "|" + n.end
                                        : "";
  };
  test::expect_answers(rest, {{"12,5", "12|,5"},
                              {"+5", "5|"},
                              {"7e", "7|e"},
                              {"7e+x", "7|e+x"},
                              {"2e1x", "20|x"},
                              {"3.", "3|"},
                              {".5e1", "5|"},
                              {"0000000000000000000000000000000000000012", "12|"}});
  for (const char* text : {"", "-", ".", "+.", "e5", "x", "inf", "nan", "--1"})
    EXPECT_EQ(parsed(text).state, NumberState::none) << text;
}

TEST(Number, ExtremesAreToldApart) {
  for (const char* text : {"1e999", "-1e999", "1e39", "1e99999999999999999999", "4e38"})
    EXPECT_EQ(parsed(text).state, NumberState::too_large) << text;
  EXPECT_EQ(parsed(std::string(400, '9')).state, NumberState::too_large);
  for (const std::string& text : {std::string("1e-999"), std::string("0e999"), std::string("-0"),
                                  "0." + std::string(400, '0') + "1", std::string("0e99999999999")})
    EXPECT_EQ(parsed(text).value, 0) << text;
  EXPECT_EQ(parsed("-9007199254740993").integer, -9007199254740993);
  EXPECT_TRUE(parsed("123").whole);
  EXPECT_FALSE(parsed("1e2").whole);
  EXPECT_FALSE(parsed("1.0").whole);
  EXPECT_FALSE(parsed("1234567890123456789").whole);
}

}  // namespace
}  // namespace ebb::io
