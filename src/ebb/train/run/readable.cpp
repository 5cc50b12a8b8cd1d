#include "ebb/train/run/readable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace ebb::train {
namespace {

std::string not_finite(double value) {
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

// The power of ten of the value as it is when rounded to so many digits: 1 of 9.9996 in four.
int exponent_of(double value, int digits) {
  const std::string text = fmt::format("{:.{}e}", value, digits - 1);
  return std::atoi(text.c_str() + text.find('e') + 1);
}

std::string in_digits(double value, int digits) {
  const int decimals = value == 0 ? digits - 1 : digits - 1 - exponent_of(value, digits);
  return fmt::format("{:.{}f}", value, std::max(decimals, 0));
}

std::string without_end_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string scientific(double value, int digits, bool trim) {
  const std::string text = fmt::format("{:.{}e}", value, digits - 1);
  const auto e = text.find('e');
  std::string mantissa = text.substr(0, e);
  if (trim) mantissa = without_end_zeros(std::move(mantissa));
  return fmt::format("{}e{}", mantissa, std::atoi(text.c_str() + e + 1));
}

struct Scaled {
  std::string number;
  int unit;
};
// Three digits and which unit, each `base` times the one before.
Scaled scaled(double value, double base, int units) {
  int unit = 0;
  while (unit + 1 < units && std::abs(value) >= 999.5) {
    value /= base;
    ++unit;
  }
  if (unit == 0) return {without_end_zeros(in_digits(value, 3)), unit};
  return {value < 1 ? fmt::format("{:.2f}", value) : in_digits(value, 3), unit};
}

Scaled scaled_bytes(std::uint64_t bytes) {
  Scaled s = scaled(static_cast<double>(bytes), 1024, 5);
  const std::uint64_t unit = std::uint64_t{1} << (10 * s.unit);
  if (bytes != 0 && bytes % unit == 0) s.number = fmt::format("{}", bytes / unit);
  return s;
}

}  // namespace

std::string readable_number(double value, int digits) {
  if (!std::isfinite(value)) return not_finite(value);
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e6)) return scientific(value, digits, false);
  return in_digits(value, digits);
}

std::string readable_rate(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e3)) return scientific(value, 3, true);
  return without_end_zeros(in_digits(value, 3));
}

std::string readable_count(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  static constexpr std::string_view kUnits[] = {"", "k", "M", "G", "T"};
  const Scaled s = scaled(value, 1000, 5);
  return s.number + std::string(kUnits[s.unit]);
}

std::string readable_bytes(std::uint64_t bytes) {
  static constexpr std::string_view kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  const Scaled s = scaled_bytes(bytes);
  return s.number + std::string(kUnits[s.unit]);
}

std::string short_bytes(std::uint64_t bytes) {
  static constexpr std::string_view kUnits[] = {"B", "K", "M", "G", "T"};
  const Scaled s = scaled_bytes(bytes);
  return s.number + std::string(kUnits[s.unit]);
}

std::string readable_seconds(double seconds) {
  if (!(seconds >= 0)) return "?";
  constexpr double kMost = 999.0 * 86400;
  if (seconds >= kMost) return ">999d";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole % 86400 / 3600);
}

}  // namespace ebb::train
