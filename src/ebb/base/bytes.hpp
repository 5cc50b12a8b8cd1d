// Sizes in bytes: 64_KiB, 1.5_GiB, 200_MB in code; "512 MiB", "200MB", "4096" in text.
//
// B is one byte; kB MB GB TB are powers of 1000, KiB MiB GiB TiB powers of 1024. All arithmetic is
// on exact decimals, in code and in text, so 0.1_MB is 100000 bytes. A fraction of a byte left over
// by a larger unit is rounded up (1.1GiB is 1181116007 bytes); of a plain byte it is refused.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace ebb {

struct ByteSize {
  std::uint64_t bytes = 0;

  constexpr auto operator<=>(const ByteSize&) const = default;

  // A number, with decimals or not, then a unit in any case ("1.5GiB", "512 mib"); without a unit,
  // bytes. Anything else is an Error: signs, exponents ("1e9"), a bare "M" that could mean MB or
  // MiB, 2^64 bytes and more.
  static ByteSize parse(std::string_view text);
};

std::string to_string(ByteSize size);        // to read: "1.50 GiB", "512 MiB", "17 B"
std::string to_exact_string(ByteSize size);  // parses back to the same: "1536 MiB", "1025 B"

namespace detail {

enum class SizeFault { none, not_a_number, fraction_of_byte, too_many_decimals, overflow };

struct ScaledSize {
  std::uint64_t bytes = 0;
  SizeFault fault = SizeFault::none;
};

[[noreturn]] void throw_size_overflow(std::uint64_t a, char op, std::uint64_t b);

// digits ['.' digits] times unit, exactly; ' separates digits where the C++ grammar let it through.
constexpr ScaledSize scale_size(std::string_view number, std::uint64_t unit) {
  __extension__ using Wide = unsigned __int128;
  constexpr Wide kLimit = Wide(1) << 64;
  constexpr int kMaxDecimals = 18;
  Wide whole = 0, fraction = 0, denominator = 1;
  int digits = 0, decimals = 0;
  bool in_fraction = false;
  while (number.find('.') != number.npos && number.ends_with("00")) number.remove_suffix(1);
  for (const char c : number) {
    if (c == '\'') continue;
    if (c == '.' && !in_fraction && digits > 0) {
      in_fraction = true;
    } else if (c < '0' || c > '9') {
      return {0, SizeFault::not_a_number};
    } else if (in_fraction) {
      if (++decimals > kMaxDecimals) return {0, SizeFault::too_many_decimals};
      fraction = fraction * 10 + static_cast<unsigned>(c - '0');
      denominator *= 10;
    } else {
      ++digits;
      whole = whole * 10 + static_cast<unsigned>(c - '0');
      if (whole >= kLimit) return {0, SizeFault::overflow};
    }
  }
  if (digits == 0 || (in_fraction && decimals == 0)) return {0, SizeFault::not_a_number};
  if (unit == 1 && fraction != 0) return {0, SizeFault::fraction_of_byte};
  const Wide total = whole * unit + (fraction * unit + denominator - 1) / denominator;
  if (total >= kLimit) return {0, SizeFault::overflow};
  return {static_cast<std::uint64_t>(total), SizeFault::none};
}

// A template on the literal's characters: a literal that is no size is refused by the compiler.
template <std::uint64_t kUnit, char... kNumber>
constexpr ByteSize literal_size() {
  constexpr char number[] = {kNumber...};
  constexpr ScaledSize size = scale_size({number, sizeof number}, kUnit);
  static_assert(size.fault == SizeFault::none, "not a size in bytes below 2^64");
  return {size.bytes};
}

}  // namespace detail

constexpr ByteSize operator+(ByteSize a, ByteSize b) {
  if (a.bytes + b.bytes < a.bytes) detail::throw_size_overflow(a.bytes, '+', b.bytes);
  return {a.bytes + b.bytes};
}
constexpr ByteSize operator-(ByteSize a, ByteSize b) {
  if (b.bytes > a.bytes) detail::throw_size_overflow(a.bytes, '-', b.bytes);
  return {a.bytes - b.bytes};
}
constexpr ByteSize operator*(ByteSize a, std::uint64_t times) {
  if (times != 0 && a.bytes > UINT64_MAX / times) detail::throw_size_overflow(a.bytes, '*', times);
  return {a.bytes * times};
}

inline namespace literals {

template <char... n>
constexpr ByteSize operator""_B() {
  return detail::literal_size<1, n...>();
}
template <char... n>
constexpr ByteSize operator""_KB() {
  return detail::literal_size<1000, n...>();
}
template <char... n>
constexpr ByteSize operator""_MB() {
  return detail::literal_size<1000'000, n...>();
}
template <char... n>
constexpr ByteSize operator""_GB() {
  return detail::literal_size<1000'000'000, n...>();
}
template <char... n>
constexpr ByteSize operator""_TB() {
  return detail::literal_size<1000'000'000'000, n...>();
}
template <char... n>
constexpr ByteSize operator""_KiB() {
  return detail::literal_size<(1ull << 10), n...>();
}
template <char... n>
constexpr ByteSize operator""_MiB() {
  return detail::literal_size<(1ull << 20), n...>();
}
template <char... n>
constexpr ByteSize operator""_GiB() {
  return detail::literal_size<(1ull << 30), n...>();
}
template <char... n>
constexpr ByteSize operator""_TiB() {
  return detail::literal_size<(1ull << 40), n...>();
}

}  // namespace literals
}  // namespace ebb
