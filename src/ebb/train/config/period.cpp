#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "ebb/train/config/config.hpp"

namespace ebb::train {
namespace {

struct UnitName {
  std::string_view name;
  Period::Unit unit;
  double worth;
};
constexpr std::array kUnits = {
    UnitName{"", Period::Unit::steps, 1},           UnitName{"step", Period::Unit::steps, 1},
    UnitName{"steps", Period::Unit::steps, 1},      UnitName{"epoch", Period::Unit::epochs, 1},
    UnitName{"epochs", Period::Unit::epochs, 1},    UnitName{"ms", Period::Unit::seconds, 1e-3},
    UnitName{"s", Period::Unit::seconds, 1},        UnitName{"sec", Period::Unit::seconds, 1},
    UnitName{"second", Period::Unit::seconds, 1},   UnitName{"seconds", Period::Unit::seconds, 1},
    UnitName{"min", Period::Unit::seconds, 60},     UnitName{"minute", Period::Unit::seconds, 60},
    UnitName{"minutes", Period::Unit::seconds, 60}, UnitName{"h", Period::Unit::seconds, 3600},
    UnitName{"hour", Period::Unit::seconds, 3600},  UnitName{"hours", Period::Unit::seconds, 3600},
    UnitName{"d", Period::Unit::seconds, 86400},    UnitName{"day", Period::Unit::seconds, 86400},
    UnitName{"days", Period::Unit::seconds, 86400}};
constexpr double kLeast = 1e-3, kMost = 1e15;  // written without an exponent

}  // namespace

std::optional<Period> parse_period(std::string_view text) {
  if (text == "never") return Period::never();
  std::string digits;
  while (!text.empty() && (std::string_view("0123456789._").find(text[0]) != std::string::npos)) {
    if (text[0] != '_') digits += text[0];
    text.remove_prefix(1);
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return {};
  for (const UnitName& u : kUnits) {
    if (u.name != text) continue;
    const double amount = number * u.worth;
    if (!(amount >= kLeast) || amount > kMost) return {};
    if (u.unit != Period::Unit::seconds && amount != std::floor(amount)) return {};
    return Period{u.unit, amount};
  }
  return {};
}

std::string to_string(const Period& p) {
  const auto whole = [&](const char* unit) {
    return fmt::format("{:.0f} {}{}", p.amount, unit, p.amount == 1 ? "" : "s");
  };
  switch (p.unit) {
    case Period::Unit::never:
      return "never";
    case Period::Unit::steps:
      return whole("step");
    case Period::Unit::epochs:
      return whole("epoch");
    case Period::Unit::seconds:
      break;
  }
  for (const auto& [name, worth] : {std::pair("h", 3600), std::pair("min", 60)})
    if (std::fmod(p.amount, worth) == 0) return fmt::format("{:.0f}{}", p.amount / worth, name);
  return fmt::format("{}s", p.amount);
}

}  // namespace ebb::train
