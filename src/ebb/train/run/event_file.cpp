#include "ebb/train/run/event_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <compare>
#include <filesystem>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/train/run/event_record.hpp"

namespace ebb::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOpening = "events.out.tfevents.";
constexpr std::string_view kOurs = ".ebb.";

// Our event files in the directory, oldest first: their names sort by time.
std::vector<fs::path> event_files(const std::string& directory) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kOpening) && name.find(kOurs) != std::string::npos)
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// Cuts records after the step and damaged ones; whether any values are left.
bool cut_after(const std::string& path, std::int64_t from_step) {
  AppendFile file(path);
  std::uint64_t keep = 0;
  bool has_values = false;
  each_record(file.file(), [&](const RecordSeen& record) {
    if (record.step > from_step) return false;
    has_values = has_values || record.has_values;
    keep = record.end;
    return true;
  });
  file.cut(keep);
  return has_values;
}

struct Name {
  std::int64_t seconds = 0;
  int number = 0;
  auto operator<=>(const Name&) const = default;
};

Name name_of(const fs::path& file) {
  const std::string text = file.filename().string();
  const char *const seconds = text.data() + kOpening.size(), *const end = text.data() + text.size();
  Name name;
  std::from_chars(seconds, end, name.seconds);
  std::from_chars(text.data() + text.find(kOurs) + kOurs.size(), end, name.number);
  return name;
}

// TensorBoard reads files in the order of their names, each name once: the new one comes after all
// that were there, also where the machine's clock was set back or they are removed now. It reads each
// by its name until the next is there, and would stay for ever at one that was removed: so the last
// one stays, if only with its first record.
AppendFile new_file(const std::string& directory, std::int64_t from_step, double time) {
  Name name{static_cast<std::int64_t>(time), 0};
  const std::vector<fs::path> before = event_files(directory);
  for (const fs::path& old : before) {
    const Name its = name_of(old);
    name = std::max(name, Name{its.seconds, its.number + 1});
    if (!cut_after(old.string(), from_step) && old != before.back()) fs::remove(old);
  }
  return AppendFile(
      fmt::format("{}/{}{:010}{}{:03}", directory, kOpening, name.seconds, kOurs, name.number),
      /*exclusive=*/true);
}

}  // namespace

EventFile::EventFile(const std::string& directory, std::int64_t from_step, double time)
    : file_(new_file(directory, from_step, time)) {
  add_version_record(record_, time);
  add_start_record(record_, time, from_step + 1);
  file_.add(record_);
  file_.flush();
}

void EventFile::add(const MetricsRow& row, std::span<const MetricValue> values) {
  record_.clear();
  add_values_record(record_, row, values);
  file_.add(record_);
}

void EventFile::add_text(const MetricsRow& row, std::string_view name, std::string_view text) {
  record_.clear();
  add_text_record(record_, row, name, text);
  file_.add(record_);
}

}  // namespace ebb::train
