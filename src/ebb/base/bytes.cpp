#include "ebb/base/bytes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ebb/base/error.hpp"

namespace ebb {
namespace {

struct Unit {
  std::string_view name, lower;
  std::uint64_t bytes;
};

constexpr Unit kUnits[] = {
    {"B", "b", 1},
    {"kB", "kb", 1000},
    {"MB", "mb", 1000'000},
    {"GB", "gb", 1000'000'000},
    {"TB", "tb", 1000'000'000'000},
    {"KiB", "kib", 1ull << 10},
    {"MiB", "mib", 1ull << 20},
    {"GiB", "gib", 1ull << 30},
    {"TiB", "tib", 1ull << 40},
};
constexpr const Unit* kBinary = kUnits + 5;
constexpr int kBinaryCount = 4;

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  // What was given may be anything at all: keep the line short and printable.
  std::string shown(text.substr(0, 40));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  if (text.size() > 40) shown += "...";
  throw Error(fmt::format(
      "byte size \"{}\": {}; write a number and a unit, as in 512MiB or 1.5GB (B, kB MB GB TB for "
      "powers of 1000, KiB MiB GiB TiB for powers of 1024), below 2^64 bytes",
      shown, why));
}

}  // namespace

ByteSize ByteSize::parse(std::string_view text) {
  if (text.empty()) refuse(text, "nothing was given");
  if (text.front() == '-') refuse(text, "a size cannot be negative");
  const auto end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, end);
  if (number.empty()) refuse(text, "it does not start with a number");

  std::string_view rest = text.substr(end);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  if (rest.empty() && end != text.size()) refuse(text, "it ends in spaces");
  std::string lower(rest);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const Unit* unit = kUnits;
  if (!rest.empty()) {
    unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                        [&](const Unit& u) { return u.lower == lower; });
    if (lower.size() == 1 && unit == std::end(kUnits) &&
        std::string_view("kmgt").find(lower[0]) != std::string_view::npos)
      refuse(text, "the unit could be a power of 1000 or of 1024");
    if (unit == std::end(kUnits)) refuse(text, "unknown unit");
  }

  const detail::ScaledSize size = detail::scale_size(number, unit->bytes);
  switch (size.fault) {
    case detail::SizeFault::none:
      break;
    case detail::SizeFault::not_a_number:
      refuse(text, "the number is malformed");
    case detail::SizeFault::fraction_of_byte:
      refuse(text, "a byte has no fractions");
    case detail::SizeFault::too_many_decimals:
      refuse(text, "more than 18 decimals");
    case detail::SizeFault::overflow:
      refuse(text, "too large");
  }
  return {size.bytes};
}

std::string to_string(ByteSize size) {
  int i = kBinaryCount - 1;
  while (i >= 0 && size.bytes < kBinary[i].bytes) --i;
  if (i < 0) return fmt::format("{} B", size.bytes);
  // 1023.996 KiB and more would round to 1024.00 KiB: that is a MiB.
  if (i + 1 < kBinaryCount && size.bytes % kBinary[i].bytes != 0 &&
      static_cast<double>(size.bytes) / static_cast<double>(kBinary[i].bytes) >= 1023.995)
    ++i;
  const Unit& unit = kBinary[i];
  if (size.bytes % unit.bytes == 0) return fmt::format("{} {}", size.bytes / unit.bytes, unit.name);
  return fmt::format("{:.2f} {}", static_cast<double>(size.bytes) / static_cast<double>(unit.bytes),
                     unit.name);
}

std::string to_exact_string(ByteSize size) {
  for (int i = kBinaryCount - 1; i >= 0; --i)
    if (size.bytes != 0 && size.bytes % kBinary[i].bytes == 0)
      return fmt::format("{} {}", size.bytes / kBinary[i].bytes, kBinary[i].name);
  return fmt::format("{} B", size.bytes);
}

void detail::throw_size_overflow(std::uint64_t a, char op, std::uint64_t b) {
  throw Error(fmt::format("byte size {} {} {} is outside 0 to 2^64 - 1 bytes", a, op, b));
}

}  // namespace ebb
