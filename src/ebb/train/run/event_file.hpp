// TensorBoard event files: events.out.tfevents.<time>.ebb.<number>, one for each time that a run is
// started or taken up again.
//
// Taken up at a step, records after it are cut from the files before, and all but the last of those
// that hold no values any more are removed; the new file says where it goes on, so that a TensorBoard which is open
// drops what it has read of those steps.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ebb/train/run/append_file.hpp"
#include "ebb/train/run/metrics_row.hpp"

namespace ebb::train {

class EventFile {
 public:
  EventFile(const std::string& directory, std::int64_t from_step, double time);
  void add(const MetricsRow& row, std::span<const MetricValue> values);
  void add_text(const MetricsRow& row, std::string_view name, std::string_view text);
  void flush() { file_.flush(); }
  void sync() { file_.sync(); }

 private:
  AppendFile file_;
  std::string record_;
};

}  // namespace ebb::train
