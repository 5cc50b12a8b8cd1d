// How fast a run goes and how long it will take.
//
//   train::Progress progress({.steps = 2860, .steps_per_epoch = 286});
//   progress.expect(train::Activity::evaluate, config.every.eval);
//   …
//   progress.stepped(step, batch_rows);                     // a step has ended
//   { auto p = progress.pause(train::Activity::evaluate);   evaluate(); }
//   progress.seconds_left();
//
// The time left is that of the steps and of the evaluations, saves and samples still to come. A step
// is taken to last the mean of the middle half of recent ones: a hiccup does not move it, as with a
// median, and where steps come in several lengths it is still near their mean. The first step, which
// warms up, counts only while there is no other. A pause is taken to last the median of those of its
// kind, or what was expected before there was one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ebb/train/run/clock.hpp"
#include "ebb/train/run/pacer.hpp"

namespace ebb::train {

enum class Activity : std::uint8_t { evaluate, save, sample };

struct ProgressOptions {
  std::int64_t steps = 0;            // at which the run ends; 0: not known
  std::int64_t steps_per_epoch = 0;  // 0: not known
  std::int64_t from_step = 0;        // steps that were done before
  Clock clock = steady_seconds;
};

class Progress {
 public:
  explicit Progress(ProgressOptions options);

  // That this is done every so often, and once more at the end of the run where that is not due then
  // anyway. `seconds` is what it may take, before it was done once.
  void expect(Activity activity, Every every, double seconds = 0);

  void stepped(std::int64_t step, double examples);

  // While it lives, time counts for the activity and not for a step.
  class Pause {
   public:
    Pause(Progress& progress, Activity activity)
        : progress_(progress), activity_(activity), started_(progress.clock_()) {}
    ~Pause() { progress_.paused(activity_, progress_.clock_() - started_); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Progress& progress_;
    Activity activity_;
    double started_;
  };
  Pause pause(Activity activity) { return Pause(*this, activity); }

  double elapsed() const { return clock_() - started_; }
  double step_seconds() const;         // of one, as above; 0: there was none yet
  double examples_per_second() const;  // of recent steps, pauses not counted
  std::optional<double> seconds_left() const;

 private:
  static constexpr int kActivities = 3, kRecent = 128, kRecentPauses = 9;
  // Steps shorter than this are taken together, so that what is recent is seconds, not a moment.
  static constexpr double kShortest = 0.05;

  struct Steps {  // one step, or some short ones
    double seconds = 0, examples = 0;
    std::int64_t count = 0;
  };
  struct Pauses {
    Every every;
    double expected = 0;
    std::vector<double> recent;  // seconds; at most kRecentPauses
  };
  void paused(Activity activity, double seconds);
  std::vector<Steps> recent() const;

  ProgressOptions options_;
  Clock clock_;
  double started_, step_started_;
  std::int64_t step_;
  Steps first_, open_;
  std::array<Steps, kRecent> ring_{};
  std::int64_t filled_ = 0;  // since the start; the last kRecent of them are in the ring
  std::array<Pauses, kActivities> pauses_;
};

}  // namespace ebb::train
