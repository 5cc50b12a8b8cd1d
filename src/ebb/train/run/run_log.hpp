// log.txt: what happened in a run and when, a line each, for people.
//
//   2026-03-01T09:30:00Z start   ebb train digits.toml, process 4711
//   2026-03-01T09:30:01Z plan    fits: 61.2 MiB of 64 MiB, 2 micro-batches, 12.1 ms a step
//   2026-03-01T09:31:07Z eval    step 1200: loss 0.231, accuracy 0.972
//   2026-03-01T09:31:07Z save    step 1200: checkpoints/step-00001200
//
// Lines are only added: those of a run that was killed stay, also for steps that are done again. A
// line is with the system when write() returns.
#pragma once

#include <string>
#include <string_view>

#include "ebb/train/run/append_file.hpp"
#include "ebb/train/run/clock.hpp"

namespace ebb::train {

class RunLog {
 public:
  enum class Kind { start, resume, plan, eval, sample, save, note, warning, end, error };

  explicit RunLog(const std::string& path, Clock clock = unix_seconds);

  // A line break or another control character in the text becomes a space.
  void write(Kind kind, std::string_view text);
  // The same where an error, a full disk for one, must not hide another: false, and nothing thrown.
  bool try_write(Kind kind, std::string_view text) noexcept;

 private:
  AppendFile file_;
  Clock clock_;
};

// "2026-03-01T09:30:00Z"
std::string utc_time(double unix_seconds);

}  // namespace ebb::train
