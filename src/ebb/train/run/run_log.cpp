#include "ebb/train/run/run_log.hpp"

#include <fmt/format.h>

#include <ctime>
#include <utility>

namespace ebb::train {
namespace {

const char* name(RunLog::Kind kind) {
  using Kind = RunLog::Kind;
  switch (kind) {
    case Kind::start:
      return "start";
    case Kind::resume:
      return "resume";
    case Kind::plan:
      return "plan";
    case Kind::eval:
      return "eval";
    case Kind::sample:
      return "sample";
    case Kind::save:
      return "save";
    case Kind::note:
      return "note";
    case Kind::warning:
      return "warning";
    case Kind::end:
      return "end";
    case Kind::error:
      return "error";
  }
  return "note";
}

bool ends_in_newline(File& file, std::uint64_t size) {
  char last = 0;
  file.read_at(size - 1, std::as_writable_bytes(std::span(&last, 1)));
  return last == '\n';
}

}  // namespace

std::string utc_time(double unix_seconds) {
  const auto whole = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

RunLog::RunLog(const std::string& path, Clock clock) : file_(path), clock_(std::move(clock)) {
  // The end of a torn line is lost; what there is of it says something still.
  if (file_.end() > 0 && !ends_in_newline(file_.file(), file_.end())) file_.add("\n");
}

void RunLog::write(Kind kind, std::string_view text) {
  std::string line = fmt::format("{} {:7} ", utc_time(clock_()), name(kind));
  for (const char c : text) line += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  while (line.ends_with(' ')) line.pop_back();
  file_.add(line + '\n');
  file_.flush();
}

bool RunLog::try_write(Kind kind, std::string_view text) noexcept {
  try {
    write(kind, text);
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace ebb::train
