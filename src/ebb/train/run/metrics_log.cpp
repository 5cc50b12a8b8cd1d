#include "ebb/train/run/metrics_log.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/train/run/run_directory.hpp"

namespace ebb::train {
namespace {

constexpr std::size_t kMostWaiting = 16384;

}  // namespace

MetricsLog::MetricsLog(const std::string& directory, MetricsLogOptions options)
    : clock_(std::move(options.clock)),
      written_(-std::numeric_limits<double>::infinity()),
      last_step_(options.from_step),
      json_(directory + "/" + run_names::kMetricsJsonl, options.from_step) {
  if (options.csv) csv_.emplace(directory + "/" + run_names::kMetricsCsv, options.from_step);
  if (options.tensorboard) events_.emplace(directory, options.from_step, unix_seconds());
}

void MetricsLog::check_order(std::int64_t step) {
  if (step < last_step_)
    throw Error(fmt::format("metrics: a row of step {} after one of step {}; rows come in order",
                            step, last_step_));
  last_step_ = step;
}

void MetricsLog::append_text(const MetricsRow& row, std::string_view name, std::string_view text) {
  const MetricValue named{name};
  check_row(row, {&named, 1});
  check_order(row.step);
  if (events_) events_->add_text(row, name, text.substr(0, kLongestText));
}

void MetricsLog::append(const MetricsRow& row, std::span<const MetricValue> values) {
  check_row(row, values);
  check_order(row.step);
  json_.add(row, values);
  if (csv_) csv_->add(row, values);
  if (events_) events_->add(row, values);
  const double now = clock_();
  if (now - written_ < kSecondsBetweenWrites && json_.waiting() < kMostWaiting) return;
  written_ = now;
  flush();
}

void MetricsLog::flush() {
  json_.flush();
  if (csv_) csv_->flush();
  if (events_) events_->flush();
}

void MetricsLog::sync() {
  json_.sync();
  if (csv_) csv_->sync();
  if (events_) events_->sync();
}

}  // namespace ebb::train
