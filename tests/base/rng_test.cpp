#include "ebb/base/rng.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

namespace ebb {
namespace {

// The known answers that the authors of Philox publish for 10 rounds.
TEST(Rng, PhiloxKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, DrawIsAWordOfItsBlock) {
  const Key key{7, 11};
  const std::uint64_t stream = 0x100000002;
  // Position 64 + 37 is lane 5 of the second group, word 2.
  const auto block = philox({16 + 5, 0, 2, 1}, key.philox_key());
  EXPECT_EQ(draw(key, stream, 64 + 37), block[2]);
  static_assert(draw({1, 2}, 3, 4) == draw({1, 2}, 3, 4), "known at compile time");
}

TEST(Rng, NoTwoPositionsShareAWord) {
  // 32-bit words collide by chance: in 4096 of them about 0.002 times.
  std::set<std::uint32_t> words;
  for (std::uint64_t p = 0; p < 4096; ++p) words.insert(draw({1, 0}, 0, p));
  EXPECT_GE(words.size(), 4095u);
}

TEST(Rng, EverythingCounts) {
  const std::uint32_t w = draw({1, 2}, 3, 4);
  EXPECT_NE(w, draw({2, 2}, 3, 4));
  EXPECT_NE(w, draw({1, 3}, 3, 4));
  EXPECT_NE(w, draw({1, 2}, 4, 4));
  EXPECT_NE(w, draw({1, 2}, 3, 5));
  EXPECT_NE(w, draw({1 + (1ull << 32), 2}, 3, 4));
  EXPECT_NE(w, draw({1, 2}, 3 + (1ull << 32), 4));
  EXPECT_NE(w, draw({1, 2}, 3, 4 + (1ull << 40)));
}

TEST(Rng, SeedsAndStepsMakeDifferentKeys) {
  std::set<PhiloxKey> keys;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    for (std::uint64_t step = 0; step < 64; ++step) keys.insert(Key{seed, step}.philox_key());
  }
  EXPECT_EQ(keys.size(), 64u * 64u);
}

TEST(Rng, BitsAreEven) {
  int ones[32] = {};
  constexpr int kDraws = 20000;
  for (std::uint64_t p = 0; p < kDraws; ++p) {
    const std::uint32_t w = draw({5, 6}, 7, p);
    for (int bit = 0; bit < 32; ++bit) ones[bit] += w >> bit & 1;
  }
  for (int bit = 0; bit < 32; ++bit) {
    EXPECT_NEAR(ones[bit], kDraws / 2, 5 * std::sqrt(kDraws) / 2) << "bit " << bit;
  }
}

}  // namespace
}  // namespace ebb
