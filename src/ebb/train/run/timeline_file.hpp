// `ebb train --trace FILE`: what the ranks of a run have done last, in one file for Perfetto or chrome://tracing.
//
//   train::TimelineFile timeline("trace.json", world);   // before anything is compiled: what it holds counts
//   trainer->run();
//   timeline.write();
//
// All ranks make it, and write it, together; the first one writes the file, and the others send what is theirs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ebb/base/files/file.hpp"
#include "ebb/base/messages/ranks.hpp"
#include "ebb/base/timeline.hpp"
#include "ebb/report/chrome_events.hpp"
#include "ebb/report/clock_offset.hpp"

namespace ebb::train {

class TimelineFile {
 public:
  // Where the file cannot be made, that is said here. `host`: this rank's.
  TimelineFile(const std::string& path, Ranks& ranks, const std::string& host);
  void write();

 private:
  using Text = std::function<void(std::string_view)>;
  void own(report::ChromeEvents& to);
  void send();
  void receive(int rank, const Text& to);

  Ranks& ranks_;
  const std::string host_;
  std::optional<AtomicFile> file_;  // of the first
  report::ClockOffset at_first_;
  std::optional<timeline::Recording> recording_;
};

}  // namespace ebb::train
