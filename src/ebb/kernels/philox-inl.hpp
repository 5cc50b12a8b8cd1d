// Philox for many counters at once: the words that ebb::draw gives, in order of position.

#if defined(EBB_KERNELS_PHILOX_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_PHILOX_INL_HPP_
#undef EBB_KERNELS_PHILOX_INL_HPP_
#else
#define EBB_KERNELS_PHILOX_INL_HPP_
#endif

#include <cstddef>
#include <cstdint>

#include "ebb/base/rng.hpp"
#include "ebb/base/round.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kGroup = 64;         // positions dealt to 16 blocks of 4 words
inline constexpr std::size_t kWordsAtOnce = 128;  // few, so that drawing and using overlap

using PhiloxTag = hn::CappedTag<std::uint64_t, 8>;

// The keys of all rounds, in all lanes.
struct PhiloxKeys {
  HWY_ALIGN_MAX std::uint64_t rounds[kPhiloxRounds][2][hn::MaxLanes(PhiloxTag())];

  HWY_INLINE explicit PhiloxKeys(const PhiloxKey& key) {
    const PhiloxTag d;
    std::uint32_t k0 = key[0], k1 = key[1];
    for (auto& round : rounds) {
      hn::Store(hn::Set(d, k0), d, round[0]);
      hn::Store(hn::Set(d, k1), d, round[1]);
      k0 += kPhiloxW0;
      k1 += kPhiloxW1;
    }
  }
};

// out[0 .. 64 * groups): the words at positions 64 * group and on.
//
// A 64-bit lane holds one 32-bit word of the state in its low half and leftovers above it, which
// the widening multiply ignores. One vector takes the even blocks and one the odd ones, so that the
// two zip into 32-bit lanes in order. A round is a chain of few steps: several vectors go in step.
//
// What the blocks of a call have in common is computed once: the words of the stream, and so their
// products in round one, are the same in all; the high word of the block number is that of the
// group and, with it, a product of round two.
HWY_INLINE void philox_groups(const PhiloxKeys& keys, std::uint64_t stream, std::uint64_t group,
                              std::size_t groups, std::uint32_t* HWY_RESTRICT out) {
  const PhiloxTag d64;
  const hn::Repartition<std::uint32_t, decltype(d64)> d32;
  using V = hn::Vec<decltype(d64)>;
  constexpr std::size_t kBlocks = 2 * hn::MaxLanes(d64);  // blocks per pair of vectors: 16 at most
  constexpr std::size_t kPairs = 16 / kBlocks < 2 ? 1 : 2;  // in step
  static_assert(16 % (kPairs * kBlocks) == 0);

  const V m0 = hn::Set(d64, kPhiloxM0), m1 = hn::Set(d64, kPhiloxM1);
  const auto widening = [&](V a, V b) HWY_ATTR {
    return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b));
  };
  const auto key = [&](std::size_t round, int word)
                       HWY_ATTR { return hn::Load(d64, keys.rounds[round][word]); };
  // Round one, but for the product of the low word of the block number.
  const V product = widening(m1, hn::Set(d64, stream & 0xFFFFFFFFu));
  const V stream_part = hn::Xor(key(0, 0), hn::ShiftRight<32>(product));
  const V high_part = hn::Xor(hn::Set(d64, stream >> 32), key(0, 1));
  const V lane = hn::Iota(d64, 0), even = hn::Add(lane, lane);

  for (std::size_t g = 0; g < groups; ++g) {
    const std::uint64_t first = (group + g) * 16;
    // Round two takes this in; a group's 16 blocks have one high word.
    const V first_word = hn::Xor(hn::Set(d64, first >> 32), stream_part);
    const V first_product = widening(m0, first_word);
    for (std::size_t b = 0; b < 16; b += kPairs * kBlocks) {
      V c[2 * kPairs][4];
      for (std::size_t v = 0; v < 2 * kPairs; ++v) {
        const V low = hn::Add(hn::Set(d64, first + b + v / 2 * kBlocks + v % 2), even);
        const V p0 = widening(m0, low);
        const V third_word = hn::Xor(high_part, hn::ShiftRight<32>(p0));
        const V p1 = widening(m1, third_word);
        c[v][0] = hn::Xor(hn::Xor(product, key(1, 0)), hn::ShiftRight<32>(p1));
        c[v][1] = p1;
        c[v][2] = hn::Xor(hn::Xor(p0, key(1, 1)), hn::ShiftRight<32>(first_product));
        c[v][3] = first_product;
      }
      for (std::size_t round = 2; round < kPhiloxRounds; ++round) {
        const V k0 = key(round, 0), k1 = key(round, 1);
        for (auto& state : c) {  // what does not wait for the products comes first
          const V p0 = widening(m0, state[0]), p1 = widening(m1, state[2]);
          state[0] = hn::Xor(hn::Xor(state[1], k0), hn::ShiftRight<32>(p1));
          state[1] = p1;
          state[2] = hn::Xor(hn::Xor(state[3], k1), hn::ShiftRight<32>(p0));
          state[3] = p0;
        }
      }
      for (std::size_t pair = 0; pair < kPairs; ++pair) {
        for (std::size_t word = 0; word < 4; ++word) {
          const auto zipped =
              hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(c[2 * pair + 1][word])),
                          hn::BitCast(d32, c[2 * pair][word]));
          hn::StoreU(zipped, d32, out + g * kGroup + word * 16 + b + pair * kBlocks);
        }
      }
    }
  }
}

HWY_INLINE void philox_groups(Draws draws, std::uint64_t group, std::size_t groups,
                              std::uint32_t* HWY_RESTRICT out) {
  philox_groups(PhiloxKeys(draws.key.philox_key()), draws.stream, group, groups, out);
}

// f(words, offset, count) over the words at positions draws.first and on, `total` of them: `words`
// points to those of elements offset .. offset + count, and whole vectors of it may be read.
template <class F>
HWY_INLINE void each_words(Draws draws, std::size_t total, F&& f) {
  HWY_ALIGN std::uint32_t words[kWordsAtOnce + 16] = {};
  const PhiloxKeys keys(draws.key.philox_key());
  std::size_t done = 0;
  while (done < total) {
    const std::uint64_t position = draws.first + done;
    const std::size_t skip = static_cast<std::size_t>(position % kGroup);
    const std::size_t wanted = skip + (total - done);
    const std::size_t filled = wanted < kWordsAtOnce ? wanted : kWordsAtOnce;
    const std::size_t groups = ceil_div(filled, kGroup);
    philox_groups(keys, draws.stream, position / kGroup, groups, words);
    f(words + skip, done, filled - skip);
    done += filled - skip;
  }
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_PHILOX_INL_HPP_
