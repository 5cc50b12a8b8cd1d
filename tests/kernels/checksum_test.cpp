#include "ebb/kernels/checksum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace ebb {
namespace {

TEST(Checksum, SeesEveryBitEveryLengthAndEveryExchange) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const bool zeros : {true, false}) {
    std::vector<std::byte> bytes(1003);  // from an odd address on
    std::byte* const a = bytes.data() + 3;
    std::mt19937_64 random(seed);
    for (int i = 0; !zeros && i < 1000; ++i) a[i] = static_cast<std::byte>(random());
    const auto sum = [&](std::size_t n) { return kernels::checksum(a, n, 7); };
    const std::uint64_t whole = sum(1000);
    EXPECT_NE(whole, kernels::checksum(a, 1000, 8));
    for (std::size_t n = 0; n < 1000; ++n) ASSERT_NE(sum(n), sum(n + 1)) << n;
    for (std::size_t bit = 0; bit < 8000; ++bit) {
      a[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      ASSERT_NE(sum(1000), whole) << bit;
      a[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    }
    if (zeros) continue;
    for (std::size_t i = 0; i + 8 <= 1000; i += 8) {
      for (std::size_t j = i + 8; j + 8 <= 1000; j += 8) {
        std::swap_ranges(&a[i], &a[i] + 8, &a[j]);
        ASSERT_NE(sum(1000), whole) << i << ' ' << j;
        std::swap_ranges(&a[i], &a[i] + 8, &a[j]);
      }
    }
    const std::vector<std::byte> copy(a, a + 1000);
    EXPECT_EQ(kernels::checksum(copy.data(), 1000, 7), whole);
  }
}

}  // namespace
}  // namespace ebb
