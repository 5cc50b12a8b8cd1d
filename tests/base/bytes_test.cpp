#include "ebb/base/bytes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "ebb/base/error.hpp"

namespace ebb {
namespace {

TEST(ByteSize, LiteralsAreExact) {
  static_assert((512_MiB).bytes == 512ull << 20);
  static_assert((64_KiB).bytes == 65536);
  static_assert((2_GiB).bytes == 2ull << 30);
  static_assert((1_TiB).bytes == 1ull << 40);
  static_assert((200_MB).bytes == 200'000'000);
  static_assert((1_KB).bytes == 1000);
  static_assert((3_GB).bytes == 3'000'000'000);
  static_assert((2_TB).bytes == 2'000'000'000'000);
  static_assert((10_B).bytes == 10);
  static_assert((1'000_KiB).bytes == 1024000);
  static_assert((1.5_GiB).bytes == 3ull << 29);
  static_assert((0.1_MB).bytes == 100'000, "decimals are exact, not binary floating point");
  static_assert((1.1_GiB).bytes == 1181116007, "a part of a byte rounds up");
  static_assert((18446744073709551615_B).bytes == UINT64_MAX);
}

TEST(ByteSize, OrdersAndAdds) {
  static_assert(1_KB < 1_KiB && 1_MiB == 1024_KiB);
  static_assert(1_KiB + 24_B == 1048_B && 1_KiB - 24_B == 1_KB && 4_KiB * 256 == 1_MiB);
  EXPECT_THROW((void)(ByteSize{UINT64_MAX} + 1_B), Error);
  EXPECT_THROW((void)(1_KiB - 1025_B), Error);
  EXPECT_THROW((void)(1_TiB * (1ull << 24)), Error);
  EXPECT_EQ((1_TiB * ((1ull << 24) - 1)).bytes, ((1ull << 24) - 1) << 40);
  EXPECT_EQ((ByteSize{UINT64_MAX} * 0).bytes, 0u);
}

TEST(ByteSize, Parses) {
  const struct {
    const char* text;
    std::uint64_t bytes;
  } cases[] = {
      {"0", 0},
      {"4096", 4096},
      {"4096B", 4096},
      {"4096 b", 4096},
      {"17.0", 17},
      {"17.000000000000000000000000B", 17},
      {"1kB", 1000},
      {"1KB", 1000},
      {"1KiB", 1024},
      {"1kib", 1024},
      {"200MB", 200'000'000},
      {"512 MiB", 512ull << 20},
      {"512   mib", 512ull << 20},
      {"1.5GiB", 3ull << 29},
      {"1.5GB", 1'500'000'000},
      {"0.1MB", 100'000},
      {"1.1GiB", 1181116007},
      {"3TB", 3'000'000'000'000},
      {"2.5TiB", 5ull << 39},
      {"00012", 12},
      {"18446744073709551615", UINT64_MAX},
      {"16777215.999999TiB", 18446744073708452105ull},
  };
  for (const auto& c : cases) EXPECT_EQ(ByteSize::parse(c.text).bytes, c.bytes) << c.text;
}

TEST(ByteSize, RefusesNonsenseAndSaysWhy) {
  const struct {
    std::string text;
    const char* why;
  } cases[] = {
      {"", "nothing was given"},
      {"-1", "cannot be negative"},
      {"-512MiB", "cannot be negative"},
      {"+1", "does not start with a number"},
      {" 1", "does not start with a number"},
      {"MiB", "does not start with a number"},
      {"nan", "does not start with a number"},
      {"inf", "does not start with a number"},
      {".5GiB", "malformed"},
      {"1.GiB", "malformed"},
      {"1..5GiB", "malformed"},
      {"1.2.3GiB", "malformed"},
      {"1'000", "unknown unit"},
      {"1,5GiB", "unknown unit"},
      {"1e9", "unknown unit"},
      {"0x10", "unknown unit"},
      {"1GiBs", "unknown unit"},
      {"1GiB ", "unknown unit"},
      {"1 GiB 2", "unknown unit"},
      {"1EB", "unknown unit"},
      {"1 ", "ends in spaces"},
      {"512M", "power of 1000 or of 1024"},
      {"4k", "power of 1000 or of 1024"},
      {"1.5", "a byte has no fractions"},
      {"0.5B", "a byte has no fractions"},
      {"1.0000000000000000001GiB", "more than 18 decimals"},
      {"18446744073709551616", "too large"},
      {"16777216TiB", "too large"},
      {"99999999999999999999999999999999999999999999", "too large"},
      {std::string("1\0MiB", 5), "unknown unit"},
  };
  for (const auto& c : cases) {
    try {
      ByteSize::parse(c.text);
      ADD_FAILURE() << "accepted \"" << c.text << '"';
    } catch (const Error& e) {
      const std::string line = e.what();
      EXPECT_NE(line.find(c.why), std::string::npos) << c.text << " gave: " << line;
      EXPECT_NE(line.find("KiB MiB GiB TiB"), std::string::npos) << line;
      EXPECT_EQ(line.find('\n'), std::string::npos);
      if (c.text.size() <= 40 && c.text.find('\0') == std::string::npos) {
        EXPECT_NE(line.find('"' + c.text + '"'), std::string::npos) << line;
      }
    }
  }
}

TEST(ByteSize, PrintsReadably) {
  EXPECT_EQ(to_string(0_B), "0 B");
  EXPECT_EQ(to_string(17_B), "17 B");
  EXPECT_EQ(to_string(1023_B), "1023 B");
  EXPECT_EQ(to_string(1_KiB), "1 KiB");
  EXPECT_EQ(to_string(1025_B), "1.00 KiB");
  EXPECT_EQ(to_string(512_MiB), "512 MiB");
  EXPECT_EQ(to_string(1.5_GiB), "1.50 GiB");
  EXPECT_EQ(to_string(200_MB), "190.73 MiB");
  EXPECT_EQ(to_string(1_MiB - 1_B), "1.00 MiB");
  EXPECT_EQ(to_string(1023_KiB), "1023 KiB");
  EXPECT_EQ(to_string(ByteSize{UINT64_MAX}), "16777216.00 TiB");
}

TEST(ByteSize, ExactFormParsesBack) {
  EXPECT_EQ(to_exact_string(0_B), "0 B");
  EXPECT_EQ(to_exact_string(1.5_GiB), "1536 MiB");
  EXPECT_EQ(to_exact_string(1025_B), "1025 B");
  const unsigned seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10000; ++i) {
    const ByteSize size{random() >> (random() % 64) << (random() % 24)};
    EXPECT_EQ(ByteSize::parse(to_exact_string(size)), size) << size.bytes;
  }
}

}  // namespace
}  // namespace ebb
