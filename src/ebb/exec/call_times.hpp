// What the calls of a step take. Short steps are measured once in a while, so that it costs under 1%.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ebb/plan/plan.hpp"

namespace ebb::exec {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of an op in a scope.
struct CallTime {
  std::string op, scope;
  double seconds = 0;  // a step, all its runs together
  std::uint64_t runs = 0;
  // The most that is live while it runs, by the plan: what the step was given, variables in memory
  // and its own scratch included.
  std::uint64_t live_bytes = 0;
};

// Of each call of a program's trace, over all steps that were timed.
struct CallSeconds {
  const plan::Program* program;
  std::vector<double> seconds;
  std::vector<std::uint64_t> runs;

  explicit CallSeconds(const plan::Program& program);
  void add(plan::Id call, double taken) {
    seconds[call] += taken;
    ++runs[call];
  }
  void forget();
};

// Per op and scope, the longest first.
std::vector<CallTime> call_times(std::span<const CallSeconds* const> programs,
                                 std::uint64_t timed_steps);

// Of whole steps.
class StepTimes {
 public:
  // Whether the next step's calls are to be timed: where steps are long, or it is one in many.
  bool times_next() const { return last_ > kLongStep || steps_ % kTimedEvery == 1; }
  void add(double seconds, bool timed, plan::Measured& measured);
  void forget_timed() { timed_steps_ = 0; }

  std::uint64_t steps() const { return steps_; }
  std::uint64_t timed_steps() const { return timed_steps_; }

 private:
  static constexpr double kLongStep = 5e-3;
  static constexpr std::uint64_t kTimedEvery = 256;
  static constexpr std::size_t kLastSteps = 9;

  std::uint64_t steps_ = 0, timed_steps_ = 0;
  double last_ = 0;
  std::array<double, kLastSteps> last_steps_{};
};

}  // namespace ebb::exec
