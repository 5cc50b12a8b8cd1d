#include "ebb/train/run/metrics_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "ebb/base/error.hpp"

namespace ebb::train {
namespace {

constexpr std::size_t kLongestName = 200;

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

void check_row(const MetricsRow& row, std::span<const MetricValue> values) {
  if (row.step < 0 || !std::isfinite(row.time))
    throw Error(fmt::format("metrics: step {} at time {}; expected 0 or more, and a time", row.step,
                            row.time));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string_view name = values[i].name;
    if (name.empty() || name.size() > kLongestName || std::ranges::any_of(name, is_control))
      throw Error(
          fmt::format("metrics: the name of value {} has {} bytes or control characters; "
                      "expected 1 to {} bytes of text",
                      i, name.size(), kLongestName));
    if (name == "step" || name == "epoch" || name == "time")
      throw Error(
          fmt::format("metrics: \"{}\" is a column of every row; choose another name", name));
    for (std::size_t j = 0; j < i; ++j)
      if (values[j].name == name)
        throw Error(fmt::format("metrics: two values of one row are named \"{}\"", name));
  }
}

void add_number(std::string& to, double value) {
  constexpr double kWhole = 9007199254740992.0;  // 2^53
  auto out = std::back_inserter(to);
  if (value == std::trunc(value) && std::abs(value) < kWhole) {
    fmt::format_to(out, "{}", static_cast<std::int64_t>(value));
  } else if (static_cast<double>(static_cast<float>(value)) == value) {
    fmt::format_to(out, "{}", static_cast<float>(value));
  } else {
    fmt::format_to(out, "{}", value);
  }
}

}  // namespace ebb::train
