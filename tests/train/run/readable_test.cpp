#include "ebb/train/run/readable.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/answers.hpp"

namespace ebb::train {
namespace {

TEST(Readable, Numbers) {
  EXPECT_EQ(readable_number(0.2310049), "0.2310");
  EXPECT_EQ(readable_number(12.34567), "12.35");
  EXPECT_EQ(readable_number(9.99996), "10.00");
  EXPECT_EQ(readable_number(-1234.4), "-1234");
  EXPECT_EQ(readable_number(123456.7), "123457");
  EXPECT_EQ(readable_number(0), "0.000");
  EXPECT_EQ(readable_number(2.31e-5), "2.310e-5");
  EXPECT_EQ(readable_number(1.5e12, 3), "1.50e12");
  EXPECT_EQ(readable_number(0.9996, 3), "1.00");
  EXPECT_EQ(readable_number(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(readable_number(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(Readable, LearningRates) {
  test::expect_answers<double>(readable_rate, {{0.001, "0.001"},
                                               {0.1, "0.1"},
                                               {3e-4, "3e-4"},
                                               {2.5e-5, "2.5e-5"},
                                               {0.00123456, "0.00123"},
                                               {0, "0"}});
}

TEST(Readable, Counts) {
  test::expect_answers<double>(readable_count, {{0.5, "0.5"},
                                                {512, "512"},
                                                {999.7, "1.00k"},
                                                {12345, "12.3k"},
                                                {1.2e6, "1.20M"},
                                                {5e16, "50000T"}});
}

TEST(Readable, Bytes) {
  EXPECT_EQ(readable_bytes(0), "0 B");
  EXPECT_EQ(readable_bytes(512), "512 B");
  EXPECT_EQ(readable_bytes(64ull << 20), "64 MiB");
  EXPECT_EQ(readable_bytes((64ull << 20) + 100000), "64.1 MiB");
  EXPECT_EQ(readable_bytes(1000ull << 20), "0.98 GiB");
  EXPECT_EQ(readable_bytes(3ull << 29), "1.50 GiB");
  EXPECT_EQ(short_bytes(3ull << 29), "1.50G");
  EXPECT_EQ(short_bytes(812ull << 20), "812M");
}

TEST(Readable, Seconds) {
  EXPECT_EQ(readable_seconds(0.2), "0s");
  EXPECT_EQ(readable_seconds(59.4), "59s");
  EXPECT_EQ(readable_seconds(59.6), "1m00s");
  EXPECT_EQ(readable_seconds(200), "3m20s");
  EXPECT_EQ(readable_seconds(7500), "2h05m");
  EXPECT_EQ(readable_seconds(86400 * 3 + 3600 * 4), "3d04h");
  EXPECT_EQ(readable_seconds(1e12), ">999d");
  EXPECT_EQ(readable_seconds(std::numeric_limits<double>::infinity()), ">999d");
  EXPECT_EQ(readable_seconds(std::numeric_limits<double>::quiet_NaN()), "?");
}

}  // namespace
}  // namespace ebb::train
