// The metrics of a run, as its directory keeps them: metrics.jsonl, metrics.csv, TensorBoard events.
//
//   train::MetricsLog metrics(run.path(), {.from_step = step});
//   metrics.append({.step = step, .epoch = 1.5}, {{"loss", loss}, {"lr", lr}});
//   metrics.append_text({.step = step, .epoch = 1.5}, "sample", text);
//   metrics.sync();                                  // before a checkpoint of this step is saved
//
// Rows come in the order of their steps. They wait in memory and are written at most once a second,
// so that a row costs its formatting. A killed run leaves whole rows, and loses those of the last
// second; as sync() comes before a checkpoint, these are rows of steps that will be done again.
//
// Taken up at `from_step`, rows after it are cut off, and so is a row that was torn: every step has
// its rows once, however often the run was killed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ebb/train/run/clock.hpp"
#include "ebb/train/run/event_file.hpp"
#include "ebb/train/run/metrics_csv.hpp"
#include "ebb/train/run/metrics_json.hpp"
#include "ebb/train/run/metrics_row.hpp"

namespace ebb::train {

struct MetricsLogOptions {
  bool csv = true, tensorboard = true;
  std::int64_t from_step = 0;    // steps that the run has done: 0, or those of its checkpoint
  Clock clock = steady_seconds;  // of the writing
};

class MetricsLog {
 public:
  explicit MetricsLog(const std::string& directory, MetricsLogOptions options = {});
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  // A FileError where it cannot be written, a full disk for one: the rows stay, and go out with the
  // next that can. An Error where a name is not one, or the step is before the last row's.
  void append(const MetricsRow& row, std::span<const MetricValue> values);
  void append(const MetricsRow& row, std::initializer_list<MetricValue> values) {
    append(row, std::span(values.begin(), values.size()));
  }
  // A text for TensorBoard's page of texts; the other files hold numbers alone. At most kLongestText bytes of it.
  void append_text(const MetricsRow& row, std::string_view name, std::string_view text);
  void flush();  // every row is with the system
  void sync();   // and on the disk

  static constexpr double kSecondsBetweenWrites = 1;
  static constexpr std::size_t kLongestText = 1 << 16;

 private:
  Clock clock_;
  double written_;  // when
  void check_order(std::int64_t step);
  std::int64_t last_step_;
  MetricsJson json_;
  std::optional<MetricsCsv> csv_;
  std::optional<EventFile> events_;
};

}  // namespace ebb::train
