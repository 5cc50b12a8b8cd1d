// metrics.jsonl: one object a line.
//
//   {"step":120,"epoch":1.5,"time":1760000000.123,"loss":0.231,"lr":0.001}
//
// A value that is NaN or infinite is null, since JSON has no word for it; a value that a row does
// not have is not there.
#pragma once

#include <span>
#include <string>

#include "ebb/train/run/append_file.hpp"
#include "ebb/train/run/metrics_row.hpp"

namespace ebb::train {

class MetricsJson {
 public:
  // Rows after `from_step` and what a killed writer left unfinished are cut off.
  MetricsJson(const std::string& path, std::int64_t from_step);
  void add(const MetricsRow& row, std::span<const MetricValue> values);
  void flush() { file_.flush(); }
  void sync() { file_.sync(); }
  std::size_t waiting() const { return file_.waiting(); }

 private:
  AppendFile file_;
  std::string line_;
};

}  // namespace ebb::train
