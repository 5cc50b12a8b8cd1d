#include "ebb/train/run/live_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ebb/train/run/readable.hpp"

namespace ebb::train {
namespace {

using Field = LiveLayout::Field;

constexpr int kLongestBar = 30, kShortBar = 10, kShortestBar = 5;
constexpr std::size_t kPercent = 5;  // "100% ", before the bar

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

std::string brief_name(std::string_view name) {
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos)
    name.remove_prefix(slash + 1);
  if (name == "accuracy") return "acc";
  if (name == "perplexity") return "ppl";
  return first_columns(printable(name), 6);
}

// "1.3/3", "12/40": a decimal where epochs are long enough to want one.
std::string epoch_text(const LiveStatus& s) {
  const std::string done = fmt::format("{:.1f}", std::floor(s.epoch * 10) / 10);
  return s.epochs > 0 ? fmt::format("{}/{:.3g}", done, s.epochs) : done;
}

std::string step_text(const LiveStatus& s) {
  if (s.steps <= 0) return fmt::format("step {}", s.step);
  const std::string total = fmt::format("{}", s.steps);
  return fmt::format("{:>{}}/{}", s.step, total.size(), total);
}

std::string memory_text(const LiveStatus& s, bool brief) {
  if (s.memory == 0) return "";
  const auto bytes = [&](std::uint64_t n) { return brief ? short_bytes(n) : readable_bytes(n); };
  return s.budget == 0 ? bytes(s.memory) : bytes(s.memory) + "/" + bytes(s.budget);
}

double done_part(const LiveStatus& s) {
  if (s.steps <= 0) return 0;
  return std::clamp(static_cast<double>(s.step) / static_cast<double>(s.steps), 0.0, 1.0);
}

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// "━━━━╸────"
std::string bar_text(const LiveStatus& s, int cells, LiveStyle style) {
  const double part = done_part(s);
  const int halves = static_cast<int>(std::floor(part * 2 * cells));
  std::string done, rest;
  if (style.unicode) {
    done = repeated("━", halves / 2) + (halves % 2 != 0 ? "╸" : "");
    rest = repeated("─", cells - (halves + 1) / 2);
  } else {
    done = repeated("#", halves / 2);
    rest = repeated("-", cells - halves / 2);
  }
  if (!style.color) return done + rest;
  return fmt::format("\x1b[32m{}\x1b[90m{}\x1b[0m", done, rest);
}

struct Pair {
  std::string full, brief;
};
Pair texts_of(Field field, const LiveStatus& s) {
  switch (field) {
    case LiveLayout::kStep:
      return {step_text(s), step_text(s)};
    case LiveLayout::kEpoch:
      if (s.epoch <= 0 && s.epochs <= 0) return {};
      return {"epoch " + epoch_text(s), "ep " + epoch_text(s)};
    case LiveLayout::kLoss:
      if (!s.loss) return {};
      return {"loss " + readable_number(*s.loss), "loss " + readable_number(*s.loss, 3)};
    case LiveLayout::kMetric:
      if (s.metric.empty()) return {};
      return {first_columns(printable(s.metric), 24) + " " + readable_number(s.metric_value),
              brief_name(s.metric) + " " + readable_number(s.metric_value, 3)};
    case LiveLayout::kLr:
      if (!s.lr) return {};
      return {"lr " + readable_rate(*s.lr), "lr " + readable_rate(*s.lr)};
    case LiveLayout::kRate:
      if (s.rate <= 0) return {};
      return {fmt::format("{} {}/s", readable_count(s.rate), s.rate_of),
              readable_count(s.rate) + "/s"};
    case LiveLayout::kMemory:
      return {memory_text(s, false), memory_text(s, true)};
    case LiveLayout::kLeft:
      if (!s.activity.empty()) return {printable(s.activity), printable(s.activity)};
      if (!s.seconds_left || (s.steps > 0 && s.step >= s.steps)) return {};
      return {readable_seconds(*s.seconds_left) + " left", readable_seconds(*s.seconds_left)};
    default:
      return {};
  }
}

}  // namespace

std::size_t columns_of(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, is_continuation));
}

std::string first_columns(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end)
    if (!is_continuation(text[end]) && seen++ == columns) break;
  return std::string(text.substr(0, end));
}

std::string printable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return out;
}

void LiveLayout::measure(const LiveStatus& status) {
  for (int f = kStep; f < kFields; ++f) {
    Texts& t = fields_[static_cast<std::size_t>(f)];
    Pair texts = texts_of(static_cast<Field>(f), status);
    t.full = std::move(texts.full);
    t.brief = std::move(texts.brief);
    if (f == kLeft) t.full_width = t.brief_width = 0;  // nothing comes after it that could move
    t.full_width = std::max(t.full_width, columns_of(t.full));
    t.brief_width = std::max(t.brief_width, columns_of(t.brief));
  }
}

int LiveLayout::width(const Shape& shape) const {
  std::size_t total = 0;
  const auto add = [&](std::size_t columns) {
    if (columns > 0) total += columns + (total > 0 ? static_cast<std::size_t>(shape.gap) : 0);
  };
  if (!shape.gone[kBar]) add((shape.percent ? kPercent : 0) + static_cast<std::size_t>(shape.bar));
  for (int f = kStep; f < kFields; ++f) {
    const auto i = static_cast<std::size_t>(f);
    if (!shape.gone[i]) add(shape.is_short[i] ? fields_[i].brief_width : fields_[i].full_width);
  }
  return static_cast<int>(total);
}

LiveLayout::Shape LiveLayout::fitted(int columns, bool has_bar) const {
  Shape shape{.bar = kShortBar};
  shape.gone[kBar] = !has_bar;
  const auto fits = [&] { return width(shape) <= columns; };
  for (const Field f : {kRate, kEpoch, kLeft, kMetric, kMemory, kLoss}) {
    if (fits()) break;
    shape.is_short[f] = true;
  }
  if (!fits()) shape.gap = 1;
  if (!fits()) shape.bar = kShortestBar;
  if (!fits()) shape.percent = false;
  for (const Field f : {kLr, kBar, kEpoch, kMetric, kRate, kMemory, kLoss, kLeft}) {
    if (fits()) break;
    shape.gone[f] = true;
  }
  if (shape.gone[kBar]) return shape;
  shape.percent = shape.percent || width(shape) + static_cast<int>(kPercent) <= columns;
  shape.bar = std::clamp(shape.bar + columns - width(shape), shape.bar, kLongestBar);
  return shape;
}

std::string LiveLayout::text(const LiveStatus& status, int columns, LiveStyle style) {
  if (columns != columns_) fields_ = {};
  columns_ = columns;
  measure(status);
  const Shape shape = fitted(columns, status.steps > 0);
  std::string line;
  std::size_t padding = 0;
  const auto add = [&](const std::string& text, std::size_t width) {
    if (width == 0) return;
    if (!line.empty()) line.append(padding + static_cast<std::size_t>(shape.gap), ' ');
    line += text;
    padding = width - columns_of(text);
  };
  if (!shape.gone[kBar]) {
    if (shape.percent) line = fmt::format("{:3.0f}% ", std::floor(done_part(status) * 100));
    line += bar_text(status, shape.bar, style);
    padding = 0;
  }
  for (int f = kStep; f < kFields; ++f) {
    const auto i = static_cast<std::size_t>(f);
    if (shape.gone[i]) continue;
    const Texts& t = fields_[i];
    add(shape.is_short[i] ? t.brief : t.full, shape.is_short[i] ? t.brief_width : t.full_width);
  }
  if (!shape.gone[kBar]) return line;  // it fits, and colors are not to be counted
  return first_columns(line, static_cast<std::size_t>(std::max(columns, 0)));
}

std::string LiveLayout::plain(const LiveStatus& status) {
  std::string line = status.steps > 0 ? fmt::format("step {}/{}", status.step, status.steps) : "";
  for (int f = status.steps > 0 ? kEpoch : kStep; f < kFields; ++f) {
    const std::string text = texts_of(static_cast<Field>(f), status).full;
    if (!text.empty()) line += (line.empty() ? "" : "  ") + text;
  }
  return line;
}

}  // namespace ebb::train
