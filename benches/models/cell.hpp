// One training run of a sweep, in a process of its own under a memory limit.
//
// The program starts itself again: `bench_fits --cell model=gpt batch=8 budget=50000000 steps=20`
// runs a cell and prints its outcome as one line of JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ebb::zoo {

struct Cell {
  std::string model;
  std::int64_t batch = 0;    // 0: a row of benches/peers, with its own
  std::uint64_t budget = 0;  // 0: none
  std::int64_t steps = 20;   // before the weights are hashed; 0: only the plan
  double seconds = 0;        // more steps, to time them, for so long
  std::int64_t threads = 0;  // 0: as many as the machine has
  std::int64_t rows = 0;     // of a part
  bool eager = false, spill = true, split = true, recompute = true, same_bits = false;
  bool ragged = false;  // every fourth step has about half the rows
  bool limited = true;  // by the kernel too
  bool turns = false;   // after its steps one more for each byte on its input, timed
  std::string weights;  // a file for them, after the steps

  void each(auto&& f) {
    f("model", model);
    f("batch", batch);
    f("budget", budget);
    f("steps", steps);
    f("seconds", seconds);
    f("threads", threads);
    f("rows", rows);
    f("eager", eager);
    f("spill", spill);
    f("split", split);
    f("recompute", recompute);
    f("same_bits", same_bits);
    f("ragged", ragged);
    f("limited", limited);
    f("turns", turns);
    f("weights", weights);
  }
};

struct Outcome {
  // The plan.
  std::uint64_t minimum = 0;    // bytes
  std::uint64_t budget = 0;     // the smallest the chosen way fits into
  std::uint64_t arena = 0;      // forecast
  std::uint64_t carry = 0;      // of it, sums over parts
  std::uint64_t process = 0;    // forecast
  double forecast_seconds = 0;  // a step
  double plan_seconds = 0;      // from the model to the plan, or to the refusal
  std::int64_t rows = 0, parts = 0;
  std::string chosen, label;
  // The run.
  std::uint64_t measured_arena = 0;  // held, as the Ledger says
  std::uint64_t peak = 0;            // VmHWM
  std::uint64_t group_peak = 0;      // charged by the kernel, page cache included
  double step_seconds = 0;           // the median
  double loss = 0;                   // of an example, in the last step
  std::string hash;
  bool refused = false, killed = false;
  double flops = 0, units = 0;  // of a step
  std::string unit;
  std::string error;      // of a run that failed or was refused
  std::string unlimited;  // why the kernel did not limit it

  std::vector<double> turns;  // seconds of each, where cells take turns

  bool ok() const { return error.empty() && !killed; }
  void each(auto&& f) {
    f("minimum", minimum);
    f("budget", budget);
    f("arena", arena);
    f("carry", carry);
    f("process", process);
    f("forecast_seconds", forecast_seconds);
    f("plan_seconds", plan_seconds);
    f("rows", rows);
    f("parts", parts);
    f("chosen", chosen);
    f("label", label);
    f("measured_arena", measured_arena);
    f("peak", peak);
    f("group_peak", group_peak);
    f("step_seconds", step_seconds);
    f("loss", loss);
    f("hash", hash);
    f("refused", refused);
    f("killed", killed);
    f("flops", flops);
    f("units", units);
    f("unit", unit);
    f("error", error);
    f("unlimited", unlimited);
  }
};

// In a process of its own; a cell with a budget under a limit of that many bytes.
Outcome run(const Cell& cell);

// Each in a process of its own, all at the same time, but only one of them computes: a step of the
// first, a step of the second, …, `rounds` times. A slow moment of the machine hits all alike.
std::vector<Outcome> run_in_turns(std::vector<Cell> cells, int rounds);

// Of one against another that took turns with it: the best of each. Whoever else is on the machine
// makes steps slower, never faster.
double turns_ratio(const Outcome& of, const Outcome& against);

// For main: where the arguments ask for a cell, runs it here and prints its outcome.
bool is_cell(int argc, char** argv);

}  // namespace ebb::zoo
