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
// two zip into 32-bit lanes in order.
HWY_INLINE void philox_groups(const PhiloxKeys& keys, std::uint64_t stream, std::uint64_t group,
                              std::size_t groups, std::uint32_t* HWY_RESTRICT out) {
  const PhiloxTag d64;
  const hn::Repartition<std::uint32_t, decltype(d64)> d32;
  using V = hn::Vec<decltype(d64)>;
  constexpr std::size_t kBlocks = 2 * hn::MaxLanes(d64);  // blocks per pair of vectors: 16 at most
  static_assert(16 % kBlocks == 0);

  const V m0 = hn::Set(d64, kPhiloxM0), m1 = hn::Set(d64, kPhiloxM1);
  const V stream_lo = hn::Set(d64, stream & 0xFFFFFFFFu);
  const V stream_hi = hn::Set(d64, stream >> 32);
  const auto widening = [&](V a, V b) HWY_ATTR {
    return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b));
  };

  for (std::size_t g = 0; g < groups; ++g) {
    for (std::size_t b = 0; b < 16; b += kBlocks) {
      V c[2][4];
      const std::uint64_t first = (group + g) * 16 + b;
      for (int odd = 0; odd < 2; ++odd) {
        const V lane = hn::Iota(d64, 0);
        const V block =
            hn::Add(hn::Set(d64, first + static_cast<std::uint64_t>(odd)), hn::Add(lane, lane));
        c[odd][0] = block;
        c[odd][1] = hn::ShiftRight<32>(block);
        c[odd][2] = stream_lo;
        c[odd][3] = stream_hi;
      }
      for (const auto& round : keys.rounds) {
        const V k0 = hn::Load(d64, round[0]), k1 = hn::Load(d64, round[1]);
        for (auto& state : c) {  // what does not wait for the products comes first
          const V p0 = widening(m0, state[0]), p1 = widening(m1, state[2]);
          state[0] = hn::Xor(hn::Xor(state[1], k0), hn::ShiftRight<32>(p1));
          state[1] = p1;
          state[2] = hn::Xor(hn::Xor(state[3], k1), hn::ShiftRight<32>(p0));
          state[3] = p0;
        }
      }
      for (int word = 0; word < 4; ++word) {
        const auto zipped = hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(c[1][word])),
                                        hn::BitCast(d32, c[0][word]));
        hn::StoreU(zipped, d32, out + g * kGroup + static_cast<std::size_t>(word) * 16 + b);
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
    const std::size_t groups = (filled + kGroup - 1) / kGroup;
    philox_groups(keys, draws.stream, position / kGroup, groups, words);
    f(words + skip, done, filled - skip);
    done += filled - skip;
  }
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_PHILOX_INL_HPP_
