#include "ebb/train/run/metrics_json.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>

#include "ebb/base/quoted.hpp"

namespace ebb::train {
namespace {

constexpr std::string_view kOpening = "{\"step\":";

// The step of a row; none where the line is no row of ours.
std::optional<std::int64_t> step_of(const LineSeen& line) {
  if (!line.start.starts_with(kOpening) || line.last != '}' || !line.is_text) return std::nullopt;
  const std::string_view number = line.start.substr(kOpening.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), step);
  if (error != std::errc() || end == number.data() + number.size() || *end != ',')
    return std::nullopt;
  return step;
}

void add_value(std::string& to, double value) {
  if (std::isfinite(value)) {
    add_number(to, value);
  } else {
    to += "null";
  }
}

}  // namespace

MetricsJson::MetricsJson(const std::string& path, std::int64_t from_step) : file_(path) {
  std::uint64_t keep = 0;
  each_line(file_.file(), [&](const LineSeen& line) {
    const auto step = step_of(line);
    if (!step) return true;  // kept if a row follows
    if (*step <= from_step) keep = line.end;
    return *step <= from_step;
  });
  file_.cut(keep);
}

void MetricsJson::add(const MetricsRow& row, std::span<const MetricValue> values) {
  line_.clear();
  fmt::format_to(std::back_inserter(line_), "{}{},\"epoch\":", kOpening, row.step);
  add_value(line_, row.epoch);
  fmt::format_to(std::back_inserter(line_), ",\"time\":{:.3f}", row.time);
  for (const MetricValue& m : values) {
    line_ += ',';
    line_ += quoted(std::string(m.name));
    line_ += ':';
    add_value(line_, m.value);
  }
  line_ += "}\n";
  file_.add(line_);
}

}  // namespace ebb::train
