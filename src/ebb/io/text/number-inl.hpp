// parse_number where it is called: for the innermost loops of the text readers.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "ebb/io/text/number.hpp"

namespace ebb::io {

inline constexpr float kTens[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f,
                                  1e6f, 1e7f, 1e8f, 1e9f, 1e10f};
inline constexpr double kWideTens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
inline constexpr std::int64_t kFarthest = 1'000'000'000;  // an exponent is not followed beyond this

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Goes on over the digits from `p` on, eight at a time. More than 19 overflow: the caller counts.
[[gnu::always_inline]] inline const char* take_digits(const char* p, const char* end,
                                                      std::uint64_t& digits) {
  static constexpr std::uint64_t kPowers[] = {1,      10,      100,      1000,     10000,
                                              100000, 1000000, 10000000, 100000000};
  while (std::endian::native == std::endian::little && end - p >= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= 0x3030303030303030;  // digits are 0 to 9 now, and nothing else is
    const std::uint64_t others = ((word + 0x7676767676767676) | word) & 0x8080808080808080;
    const int count = others ? std::countr_zero(others) / 8 : 8;
    if (count == 0) return p;
    word <<= (8 - count) * 8;  // zeros in front
    word = word * 2561 >> 8 & 0x00ff00ff00ff00ff;
    word = word * 6553601 >> 16 & 0x0000ffff0000ffff;
    word = word * 42949672960001 >> 32;
    digits = digits * kPowers[count] + word;
    p += count;
    if (count < 8) return p;
  }
  for (; p != end && is_digit(*p); ++p) digits = digits * 10 + static_cast<unsigned>(*p - '0');
  return p;
}

// digits * 10^exponent, where that can be had in one rounding.
[[gnu::always_inline]] inline bool exact(std::uint64_t digits, std::int64_t exponent,
                                         float& value) {
  if (digits <= 1u << 24 && exponent >= -10 && exponent <= 10) {  // both are floats
    value = static_cast<float>(digits);
    value = exponent < 0 ? value / kTens[-exponent] : value * kTens[exponent];
    return true;
  }
  if (digits > std::uint64_t{1} << 53 || exponent < -22 || exponent > 22) return false;
  // Both are doubles, and so is the result but for one rounding; a second one, to float, goes astray
  // only from halfway between two floats.
  const double wide = exponent < 0 ? static_cast<double>(digits) / kWideTens[-exponent]
                                   : static_cast<double>(digits) * kWideTens[exponent];
  constexpr std::uint64_t kBelowFloat = (1u << 29) - 1, kHalfway = 1u << 28;
  if (wide < 0x1p-126 || wide > 0x1p126) return false;
  if ((std::bit_cast<std::uint64_t>(wide) & kBelowFloat) == kHalfway) return false;
  value = static_cast<float>(wide);
  return true;
}

// The digits, point and exponent of [first, end) where one rounding takes more than that: rare.
NumberState rounded(const char* first, const char* end, std::int64_t exponent, float& value);

[[gnu::always_inline]] inline Number number_at(const char* const begin, const char* const end) {
  const char* p = begin;
  // Signs come as they like: what depends on them is computed, not branched on.
  const bool negative = p != end && *p == '-';
  p += p != end && (negative | (*p == '+'));
  const char* const first = p;
  std::uint64_t digits = 0;  // right as long as there are no more than 19
  if (p != end && is_digit(*p))
    digits = static_cast<unsigned>(*p++ - '0');  // most have one, or many
  if (p != end && is_digit(*p)) p = take_digits(p, end, digits);
  std::int64_t count = p - first, behind = 0;
  if (p != end && *p == '.') {
    const char* const point = p;
    p = take_digits(p + 1, end, digits);
    behind = p - point - 1;
    count += behind;
  }
  if (count == 0) return {};
  std::int64_t power = 0;
  if (p != end && (*p == 'e' || *p == 'E')) {
    const char* q = p + 1;
    const bool down = q != end && *q == '-';
    if (q != end && (*q == '-' || *q == '+')) ++q;
    if (q != end && is_digit(*q)) {
      for (; q != end && is_digit(*q); ++q) power = std::min(power * 10 + (*q - '0'), kFarthest);
      if (down) power = -power;
      p = q;
    }
  }
  float value = 0;
  if (count > 19 || (digits != 0 && !exact(digits, power - behind, value))) {
    const NumberState state = rounded(first, p, power, value);
    if (state != NumberState::good) return {state, 0, p, false, 0};
  }
  const bool whole = count <= 18 && p == first + count;
  const auto integer = whole ? static_cast<std::int64_t>(digits) : 0;
  value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^
                               static_cast<std::uint32_t>(negative) << 31);
  return {NumberState::good, value, p, whole, (integer ^ -std::int64_t{negative}) + negative};
}

}  // namespace ebb::io
