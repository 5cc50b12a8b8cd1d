// What a benchmark prints: lines for people, or one JSON object a line with --json. Checks are
// counted, and their failures are the program's exit code.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "models/fields.hpp"

namespace ebb::zoo {

class Report {
 public:
  Report(std::string bench, int argc, char** argv) : bench_(std::move(bench)) {
    for (int i = 1; i < argc; ++i) {
      quick_ |= !std::strcmp(argv[i], "--quick");
      json_ |= !std::strcmp(argv[i], "--json");
      if (!std::strncmp(argv[i], "--only=", 7)) only_ = "," + std::string(argv[i] + 7) + ",";
    }
  }
  bool quick() const { return quick_; }
  bool wanted(const std::string& row) const {  // by --only=ROW,…
    return only_.empty() || only_.find("," + row + ",") != std::string::npos;
  }

  [[gnu::format(printf, 2, 3)]] void say(const char* format, ...) const {  // people only
    if (json_) return;
    va_list arguments;
    va_start(arguments, format);
    std::vprintf(format, arguments);
    va_end(arguments);
    std::fflush(stdout);
  }

  // Programs only: people have a table.
  void metric(const std::string& of, const char* metric, double value, const char* unit) const {
    if (json_) std::printf("%s}\n", start(of, metric, value, unit).c_str());
  }
  void compare(const std::string& of, const char* metric, double value, const char* unit,
               const char* against, double ratio) const {
    if (json_)
      std::printf("%s,\"against\":%s,\"ratio\":%.4g}\n", start(of, metric, value, unit).c_str(),
                  zoo::quoted(against).c_str(), ratio);
  }

  void check(const std::string& what, bool passed, const std::string& seen) {
    failures_ += !passed;
    say("  %s  %-58s %s\n", passed ? "pass" : "FAIL", what.c_str(), seen.c_str());
    metric(what, "passed", passed, "");
  }
  int exit_code() const { return failures_ ? 1 : 0; }

 private:
  std::string start(const std::string& of, const char* metric, double value,
                    const char* unit) const {
    char number[32];
    std::snprintf(number, sizeof number, "%.9g", value);
    return "{\"bench\":" + zoo::quoted(bench_) + ",\"case\":" + zoo::quoted(of) +
           ",\"metric\":" + zoo::quoted(metric) + ",\"value\":" + number +
           ",\"unit\":" + zoo::quoted(unit);
  }

  std::string bench_, only_;
  bool quick_ = false, json_ = false;
  int failures_ = 0;
};

inline double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

[[gnu::format(printf, 1, 2)]] inline std::string formatted(const char* format, ...) {
  char out[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(out, sizeof out, format, arguments);
  va_end(arguments);
  return out;
}

}  // namespace ebb::zoo
