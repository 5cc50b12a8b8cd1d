// metrics.csv: step,epoch,time and a column for each name.
//
// A name that appears later gets a column at the right end: the file is written anew beside the old
// one, with the new header and empty fields in the rows before, and put in its place in one step. So
// every row has as many fields as the header, whenever somebody reads. A value that a row does not
// have is an empty field; one that is NaN or infinite is nan, inf or -inf, which readers of numbers
// take as such.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ebb/train/run/append_file.hpp"
#include "ebb/train/run/metrics_row.hpp"

namespace ebb::train {

class MetricsCsv {
 public:
  // Rows after `from_step` and what a killed writer left unfinished are cut off. A FileError where
  // there is a file with another header.
  MetricsCsv(const std::string& path, std::int64_t from_step);
  void add(const MetricsRow& row, std::span<const MetricValue> values);
  void flush() { file_.flush(); }
  void sync() { file_.sync(); }

 private:
  void read_header();
  void add_columns(std::span<const MetricValue> values);

  AppendFile file_;
  std::vector<std::string> columns_;  // those of values
  std::string line_;
};

}  // namespace ebb::train
