#include "ebb/train/run/metrics_csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <optional>

#include "ebb/base/error.hpp"

namespace ebb::train {
namespace {

constexpr std::string_view kOpening = "step,epoch,time";
constexpr std::size_t kMostColumns = 256;
constexpr std::size_t kLongestHeader = 1 << 17;  // more than that many of the longest names

std::string field(std::string_view name) {
  if (name.find_first_of(",\"") == std::string_view::npos && name.front() != ' ')
    return std::string(name);
  std::string out = "\"";
  for (const char c : name) out.append(c == '"' ? 2 : 1, c);
  return out + '"';
}

std::string header(const std::vector<std::string>& columns) {
  std::string line(kOpening);
  for (const std::string& name : columns) line += ',' + field(name);
  return line + '\n';
}

// The fields of a line, each once without its quotes.
std::vector<std::string> fields(std::string_view line) {
  std::vector<std::string> out(1);
  bool inside = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (inside && i + 1 < line.size() && line[i + 1] == '"')
        out.back() += line[i++];
      else
        inside = !inside;
    } else if (line[i] == ',' && !inside) {
      out.emplace_back();
    } else {
      out.back() += line[i];
    }
  }
  return out;
}

// The step of a row; none where the line is no row of ours. Values are numbers: each comma is one
// between fields.
std::optional<std::int64_t> step_of(const LineSeen& line, std::size_t columns) {
  if (line.commas != columns - 1 || !line.is_text) return std::nullopt;
  std::int64_t step = 0;
  const char* const stop = line.start.data() + line.start.size();
  const auto [end, error] = std::from_chars(line.start.data(), stop, step);
  if (error != std::errc() || end == stop || *end != ',') return std::nullopt;
  return step;
}

// What a process that was killed while it added a column has left.
void remove_unfinished(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(path).parent_path();
  const std::string opening = fs::path(path).filename().string() + '.';
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(opening) && name.ends_with(".tmp")) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

MetricsCsv::MetricsCsv(const std::string& path, std::int64_t from_step) : file_(path) {
  remove_unfinished(path);
  read_header();
  std::uint64_t keep = 0;
  each_line(file_.file(), [&](const LineSeen& line) {
    if (keep == 0) {  // the header
      keep = line.end;
      return true;
    }
    const auto step = step_of(line, columns_.size() + 3);
    if (!step) return true;  // kept if a row follows
    if (*step <= from_step) keep = line.end;
    return *step <= from_step;
  });
  file_.cut(keep);
}

// The header is written together with the first row: where it is not whole there is no row either.
void MetricsCsv::read_header() {
  std::string line(std::min<std::uint64_t>(file_.end(), kLongestHeader), '\0');
  file_.file().read_at(0, std::as_writable_bytes(std::span(line)));
  const std::size_t newline = line.find('\n');
  line.resize(std::min(newline, line.size()));
  const bool torn = newline == std::string::npos && file_.end() < kLongestHeader;
  if (torn && (kOpening.starts_with(line) || line.starts_with(kOpening))) return;
  if (torn || newline == std::string::npos ||
      !(line + ',').starts_with(std::string(kOpening) + ','))
    throw FileError(
        fmt::format("cannot add metrics to \"{}\": its first line is not \"{},...\", so "
                    "it is not of a run; move it away",
                    file_.path(), kOpening));
  columns_ = fields(line);
  columns_.erase(columns_.begin(), columns_.begin() + 3);
}

void MetricsCsv::add_columns(std::span<const MetricValue> values) {
  std::vector<std::string> columns = columns_;
  for (const MetricValue& m : values)
    if (std::ranges::find(columns, m.name) == columns.end()) columns.emplace_back(m.name);
  const bool empty = file_.end() == 0 && file_.waiting() == 0;
  if (columns.size() == columns_.size() && !empty) return;
  if (columns.size() > kMostColumns)
    throw Error(fmt::format("metrics: more than {} names of values; the last is \"{}\"",
                            kMostColumns, columns.back()));
  if (empty) {
    file_.add(header(columns));
    columns_ = std::move(columns);
    return;
  }
  file_.flush();
  AtomicFile wider(file_.path());
  wider.file().write(header(columns));
  const std::string no_values(columns.size() - columns_.size(), ',');
  char part[16384];
  std::string out;
  bool in_header = true;
  file_.file().seek(0);
  while (const std::size_t n = file_.file().read_some(std::as_writable_bytes(std::span(part)))) {
    out.clear();
    for (std::size_t i = 0; i < n; ++i) {
      if (in_header) {
        in_header = part[i] != '\n';
        continue;
      }
      if (part[i] == '\n') out += no_values;
      out += part[i];
    }
    wider.file().write(out);
  }
  wider.commit();
  file_ = AppendFile(file_.path());
  columns_ = std::move(columns);
}

void MetricsCsv::add(const MetricsRow& row, std::span<const MetricValue> values) {
  add_columns(values);
  line_.clear();
  fmt::format_to(std::back_inserter(line_), "{},", row.step);
  const auto add_value = [&](double value) {
    if (std::isfinite(value))
      add_number(line_, value);
    else
      line_ += std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  };
  add_value(row.epoch);
  fmt::format_to(std::back_inserter(line_), ",{:.3f}", row.time);
  for (const std::string& column : columns_) {
    line_ += ',';
    const auto found = std::ranges::find(values, std::string_view(column), &MetricValue::name);
    if (found != values.end()) add_value(found->value);
  }
  line_ += '\n';
  file_.add(line_);
}

}  // namespace ebb::train
