// Random moments at which something happens to a job, and what is expected of it then.
#pragma once

#include <functional>
#include <string>

#include "tests/dist/job.hpp"

namespace ebb::test {

inline constexpr double kMostSeconds = 10;  // from a failure until the job is over

struct Moment {
  int ranks = 3, rank = 1;         // of the job; the victim
  double after = 0;                // seconds at work
  int step = 0;                    // of a training run, that is reached first
  int then = 2;                    // processes that go on: another number,
  bool same = true, other = true;  // as many as before, or that; both where EBB_FAILURES is said
};

// `count` times, or EBB_FAILURES, with more or fewer processes, another victim, another moment; EBB_FAILURE_SEED says
// which. At the end, how long the jobs have taken to end.
void at_random(const char* kind, int count, const std::function<void(const Moment&)>& run);
void sleep_for(double duration);

// Over in time, one line that names the rank, its host and step and has this in it, and not a good end.
void expect_named(Job& job, const Moment& m, const std::string& how, double since);
// Over in time, with nothing left of it.
void expect_over(Job& job, const Moment& m, double since);

}  // namespace ebb::test
