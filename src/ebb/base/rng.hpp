// Counted randomness: every draw is a pure function of (seed, step, stream, position).
//
// Nothing is consumed, so a draw does not depend on what was drawn before it, by which thread, or
// in how many parts: a recomputed or split dropout sees the same mask.
//
//   seed      the user's
//   step      which training step
//   stream    which op of the step, or which parameter of a model
//   position  which element, counted over the whole batch
//
// The generator is Philox4x32 with 10 rounds: a block of four 32-bit words for a 128-bit counter
// and a 64-bit key. The key is mix(mix(seed) + step), so for one seed no two steps share a key; the
// counter is (block, stream), 64 bits each. Positions are dealt to blocks in groups of 64, such
// that vector code for 16 blocks finds each word of them in consecutive positions, with no
// shuffles:
//
//   block = position / 64 * 16 + position % 16      word = position / 16 % 4
#pragma once

#include <array>
#include <cstdint>

namespace ebb {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

inline constexpr std::uint32_t kPhiloxM0 = 0xD2511F53, kPhiloxM1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxW0 = 0x9E3779B9, kPhiloxW1 = 0xBB67AE85;
inline constexpr int kPhiloxRounds = 10;

constexpr PhiloxCounter philox(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{kPhiloxM0} * c[0];
    const std::uint64_t p1 = std::uint64_t{kPhiloxM1} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k = {k[0] + kPhiloxW0, k[1] + kPhiloxW1};
  }
  return c;
}

// A bijection of 64-bit numbers in which every input bit reaches every output bit.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

struct Key {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;

  bool operator==(const Key&) const = default;

  constexpr PhiloxKey philox_key() const {
    const std::uint64_t k = mix(mix(seed) + step);
    return {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(k >> 32)};
  }
};

// A run of draws: element i of a kernel's span has position first + i.
struct Draws {
  Key key;
  std::uint64_t stream = 0;
  std::uint64_t first = 0;

  bool operator==(const Draws&) const = default;
};

// The 32 random bits at one position.
constexpr std::uint32_t draw(Key key, std::uint64_t stream, std::uint64_t position) {
  const std::uint64_t block = position / 64 * 16 + position % 16;
  const PhiloxCounter words =
      philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
              static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
             key.philox_key());
  return words[position / 16 % 4];
}

// 64 bits for element i: positions 2i (low half) and 2i + 1.
constexpr std::uint64_t draw64(Key key, std::uint64_t stream, std::uint64_t i) {
  return draw(key, stream, 2 * i) | std::uint64_t{draw(key, stream, 2 * i + 1)} << 32;
}

}  // namespace ebb
