#include "ebb/train/run/progress.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ebb::train {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of the middle half; of three, the middle one.
double middle_mean(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t n = values.size();
  const std::size_t cut = n == 3 ? 1 : n / 4;
  double sum = 0;
  for (std::size_t i = cut; i < n - cut; ++i) sum += values[i];
  return sum / static_cast<double>(n - 2 * cut);
}

}  // namespace

Progress::Progress(ProgressOptions options)
    : options_(std::move(options)),
      clock_(options_.clock),
      started_(clock_()),
      step_started_(started_),
      step_(options_.from_step) {}

void Progress::expect(Activity activity, Every every, double seconds) {
  Pauses& p = pauses_[static_cast<std::size_t>(activity)];
  p.every = every;
  p.expected = seconds;
}

void Progress::stepped(std::int64_t step, double examples) {
  const double now = clock_();
  const double seconds = std::max(0.0, now - step_started_);
  step_started_ = now;
  step_ = step;
  if (first_.count == 0) {
    first_ = {seconds, examples, 1};
    return;
  }
  open_.seconds += seconds;
  open_.examples += examples;
  ++open_.count;
  if (open_.seconds < kShortest) return;
  ring_[static_cast<std::size_t>(filled_++ % kRecent)] = std::exchange(open_, {});
}

void Progress::paused(Activity activity, double seconds) {
  step_started_ += seconds;
  std::vector<double>& recent = pauses_[static_cast<std::size_t>(activity)].recent;
  if (recent.size() == kRecentPauses) recent.erase(recent.begin());
  recent.push_back(seconds);
}

std::vector<Progress::Steps> Progress::recent() const {
  const auto count = static_cast<std::size_t>(std::min<std::int64_t>(filled_, kRecent));
  std::vector<Steps> all(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(count));
  if (all.empty() && open_.count > 0) all.push_back(open_);
  if (all.empty() && first_.count > 0) all.push_back(first_);
  return all;
}

double Progress::step_seconds() const {
  std::vector<double> seconds;
  for (const Steps& s : recent()) seconds.push_back(s.seconds / static_cast<double>(s.count));
  return middle_mean(std::move(seconds));
}

double Progress::examples_per_second() const {
  double examples = 0, seconds = 0;
  for (const Steps& s : recent()) {
    examples += s.examples;
    seconds += s.seconds;
  }
  return seconds > 0 ? examples / seconds : 0;
}

std::optional<double> Progress::seconds_left() const {
  if (options_.steps == 0 || first_.count == 0) return std::nullopt;
  const std::int64_t steps = std::max<std::int64_t>(0, options_.steps - step_);
  double seconds = static_cast<double>(steps) * step_seconds();
  double share = 0;  // of all time to come, spent in pauses that come by the clock
  if (steps == 0) return 0;
  for (const Pauses& p : pauses_) {
    if (p.every.unit == Every::Unit::never) continue;
    const double one = p.recent.empty() ? p.expected : median(p.recent);
    const std::int64_t per_epoch = options_.steps_per_epoch;
    std::int64_t times = times_due(p.every, step_, options_.steps, per_epoch);
    if (times_due(p.every, options_.steps - 1, options_.steps, per_epoch) == 0) ++times;
    seconds += static_cast<double>(times) * one;
    if (p.every.unit == Every::Unit::seconds) share += one / std::max(p.every.amount, one);
  }
  return seconds / (1 - std::min(share, 0.9));
}

}  // namespace ebb::train
