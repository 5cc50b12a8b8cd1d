// The bytes of TensorBoard's event files: a few messages of protobuf, each framed as a record.
//
// A record is: length (8 bytes, little endian), its masked CRC-32C, the message, its masked CRC-32C.
// A message is a list of fields: a tag, which is number << 3 | kind, then the value (kind 0: varint,
// 1: 8 bytes, 2: length and bytes, 5: 4 bytes). Of those that TensorBoard knows:
//
//   Event       1 wall_time (double)  2 step  3 file_version  5 Summary  7 SessionLog
//   Summary     1 Value, for each value
//   Value       1 tag   2 simple_value (float)  or, of a text,  8 TensorProto  9 SummaryMetadata
//   TensorProto 1 dtype (7: string)  2 shape (none: a scalar)  8 string_val
//   SummaryMetadata  1 PluginData, of which 1 is the name of the page that shows it
//   SessionLog  1 status (1: START)
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "ebb/base/files/file.hpp"
#include "ebb/train/run/metrics_row.hpp"

namespace ebb::train {

// Each adds one record to `to`.
void add_version_record(std::string& to, double time);  // the first of every file
// That a run goes on from here: what a reader holds of this step and later is void.
void add_start_record(std::string& to, double time, std::int64_t step);
void add_values_record(std::string& to, const MetricsRow& row, std::span<const MetricValue> values);
void add_text_record(std::string& to, const MetricsRow& row, std::string_view name,
                     std::string_view text);

struct RecordSeen {
  std::int64_t step = 0;
  bool has_values = false;
  std::uint64_t end = 0;  // offset behind it
};
// Calls `f` for each whole record until it returns false, or up to the first damaged one.
void each_record(File& file, const std::function<bool(const RecordSeen&)>& f);

}  // namespace ebb::train
