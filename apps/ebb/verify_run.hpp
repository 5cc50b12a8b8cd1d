// One training run of `ebb verify`, in a process of its own: a budget is the whole process's, and what one run has
// left in memory must not help or hurt the next.
#pragma once

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ebb::app {

// What is asked of a run.
struct VerifyTask {
  std::string config;
  std::vector<std::string> set;
  std::string directory = {};   // of a run that is stopped or taken up
  std::int64_t stop_after = 0;  // steps; 0: it goes to its end
  int processes = 0;            // that share it, started by mpirun; 0: one alone
  bool plan_only = false;
  bool gradient = false;          // of one step, in place of weights after all of them
  double spoil = 0;               // for tests: the result is wrong by this share
  std::string values_to = {};     // a file for the weights, or the gradient
  std::string compare_with = {};  // such a file
};

// What came of it.
struct VerifyAnswer {
  bool ran = false;
  std::string refusal = {};  // one line, where it did not run
  int code = 0;              // of the process
  bool killed = false;       // most likely as memory ran out
  std::string digest = {};   // SHA-256 of all weights, or of the gradient
  std::int64_t steps = 0, weights = 0, batch = 0, threads = 0;
  std::uint64_t budget = 0, peak = 0, minimum = 0, unlimited = 0;  // of several the largest peak
  double seconds = 0, step_seconds = 0;
  double difference = 0, bound = 0;  // verify_gradient.hpp
  std::string how = {}, label = {};  // of the plan
  bool split = false;
  // Budgets and seconds a step of the frontier; of plans with the same bits.
  std::vector<std::pair<std::uint64_t, double>> frontier = {};
};

// While it lives Ctrl-C and SIGTERM go to the process that runs, and then end this one by an Exit: what was made on
// the way is cleaned up.
class StopTogether {
 public:
  StopTogether();
  ~StopTogether();
  StopTogether(const StopTogether&) = delete;
  StopTogether& operator=(const StopTogether&) = delete;

 private:
  struct sigaction before_[2];
};

VerifyAnswer run_apart(const VerifyTask& task);  // in another process
void add_verify_run(CLI::App& app);              // the hidden command that such a process runs

}  // namespace ebb::app
