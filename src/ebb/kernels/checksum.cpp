#include "ebb/kernels/checksum.hpp"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/checksum.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

// Sixteen lanes of 64 bits, whatever the width of a vector. A word is mixed with a key that differs
// at every position, its halves are multiplied into its own lane, and the plain word is added to
// its neighbour's: so a word whose product happens not to change is still seen.

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kSumLanes = 16;
constexpr std::size_t kStripe = kSumLanes * sizeof(std::uint64_t);
constexpr std::uint64_t kKeyStep = 0x9E3779B97F4A7C15u;  // odd: a key returns after 2^64 stripes

// sums, keys: kSumLanes each. Keys are advanced by one step a stripe.
void sum_stripes(const std::uint8_t* data, std::size_t stripes, std::uint64_t* HWY_RESTRICT sums,
                 std::uint64_t* HWY_RESTRICT keys) {
  const hn::CappedTag<std::uint64_t, 8> d;
  const hn::Repartition<std::uint8_t, decltype(d)> bytes;
  const hn::Repartition<std::uint32_t, decltype(d)> halves;
  using V = hn::Vec<decltype(d)>;
  constexpr std::size_t kWidth = hn::MaxLanes(d);
  constexpr std::size_t kVectors = kSumLanes / kWidth;
  V sum[kVectors], key[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) {
    sum[k] = hn::LoadU(d, sums + k * kWidth);
    key[k] = hn::LoadU(d, keys + k * kWidth);
  }
  const V step = hn::Set(d, kKeyStep);
  for (std::size_t s = 0; s < stripes; ++s, data += kStripe) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      const V word = hn::BitCast(d, hn::LoadU(bytes, data + k * kWidth * sizeof(std::uint64_t)));
      const V mixed = hn::Xor(word, key[k]);
      const V product =
          hn::MulEven(hn::BitCast(halves, mixed), hn::BitCast(halves, hn::ShiftRight<32>(mixed)));
      sum[k] = hn::Add(sum[k], hn::Add(product, hn::Shuffle01(word)));
      key[k] = hn::Add(key[k], step);
    }
  }
  for (std::size_t k = 0; k < kVectors; ++k) {
    hn::StoreU(sum[k], d, sums + k * kWidth);
    hn::StoreU(key[k], d, keys + k * kWidth);
  }
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {

HWY_EXPORT(sum_stripes);

namespace {

std::uint64_t folded(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

std::uint64_t checksum(const void* data, std::size_t bytes, std::uint64_t seed) {
  constexpr std::size_t kLanes = 16, kStripe = kLanes * sizeof(std::uint64_t);
  constexpr std::uint64_t kA = 0xD6E8FEB86659FD93u, kB = 0xA0761D6478BD642Fu;
  std::uint64_t sums[kLanes], keys[kLanes];
  for (std::size_t l = 0; l < kLanes; ++l) {
    sums[l] = folded(seed + l + 1, kA);
    keys[l] = folded(seed ^ (kB * (l + 1)), kB + 2 * l);
  }
  const auto* from = static_cast<const std::uint8_t*>(data);
  const auto sum_stripes = HWY_DYNAMIC_DISPATCH(sum_stripes);
  const std::size_t whole = bytes / kStripe, left = bytes % kStripe;
  if (whole) sum_stripes(from, whole, sums, keys);
  if (left) {  // zeros after the end are told from zeros in the data by the length, below
    std::uint8_t last[kStripe] = {};
    std::memcpy(last, from + whole * kStripe, left);
    sum_stripes(last, 1, sums, keys);
  }
  std::uint64_t result = seed + kA * (bytes + 1);
  for (std::size_t l = 0; l < kLanes; ++l) {
    result ^= sums[l];
    result = (result ^ (result >> 32)) * kA;
    result = (result ^ (result >> 29)) * kB;
    result ^= result >> 32;
  }
  return result;
}

}  // namespace ebb::kernels
#endif
