#include "ebb/base/round.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace ebb {
namespace {

TEST(Round, CountsWholeParts) {
  EXPECT_EQ(ceil_div(std::size_t{0}, 64), 0u);
  EXPECT_EQ(ceil_div(std::size_t{1}, 64), 1u);
  EXPECT_EQ(ceil_div(std::size_t{64}, 64), 1u);
  EXPECT_EQ(ceil_div(std::int64_t{65}, 64), 2);
}

TEST(Round, GoesUpToTheNextMultiple) {
  EXPECT_EQ(round_up(std::size_t{0}, 6), 0u);
  EXPECT_EQ(round_up(std::size_t{6}, 6), 6u);
  EXPECT_EQ(round_up(std::size_t{7}, 6), 12u);
}

}  // namespace
}  // namespace ebb
