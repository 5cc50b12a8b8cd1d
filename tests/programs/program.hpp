// A whole program: it trains, evaluates, meets a ragged last batch, prefetches, saves and loads, and
// makes tensors of its own, all in one budget. Run in a process of its own, under a kernel limit equal
// to the budget: `programs_tests --program model=gpt budget=30000000 prefetch=4`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ebb::programs {

struct Program {
  std::string model = "mlp";
  std::uint64_t budget = 0;  // 0: none
  std::int64_t rows = 53;    // of the data set: with batches of 8 the last one is ragged
  std::int64_t batch = 8;
  std::int64_t epochs = 3;
  std::int64_t prefetch = 0;
  std::int64_t threads = 0;     // 0: as many as the machine has
  std::int64_t own = 0;         // KiB of tensors that the program makes between steps
  std::string evaluate = "no";  // before, after: when it is compiled; or no
  std::string second = "";      // another model, trained in turn
  bool save = false;            // everything, after each epoch; and loads it again
  bool grows = false;           // batches begin with a half of their rows
  bool clips = false;           // the norm of gradients
  bool averages = false;        // of weights
  bool spill = true;
  bool ask = false;  // only the smallest budget
  std::uint64_t seed = 1;

  void each(auto&& f) {
    f("model", model), f("budget", budget), f("rows", rows), f("batch", batch);
    f("epochs", epochs), f("prefetch", prefetch), f("threads", threads), f("own", own);
    f("evaluate", evaluate), f("second", second), f("save", save), f("grows", grows);
    f("clips", clips), f("averages", averages), f("spill", spill), f("ask", ask);
    f("seed", seed);
  }
};

struct Outcome {
  std::uint64_t minimum = 0;  // the smallest budget, said before the first step
  std::uint64_t peak = 0;     // VmHWM
  std::string digest;         // of weights, state and all losses
  std::string plan;           // of the training step
  std::int64_t steps = 0;     // taken, until it ended
  std::string error;
  bool refused = false;  // by the budget
  bool killed = false;
  std::string unlimited;  // why the kernel did not limit it

  bool good() const { return error.empty() && !killed; }
  void each(auto&& f) {
    f("minimum", minimum), f("peak", peak), f("digest", digest), f("plan", plan);
    f("steps", steps), f("error", error), f("refused", refused), f("killed", killed);
    f("unlimited", unlimited);
  }
};

Program drawn(std::uint64_t seed);         // at random from these pieces
std::string line(const Program& program);  // that runs it again
Outcome run(const Program& program);       // in a process of its own
bool is_program(int argc, char** argv);    // for main: runs it here and prints its outcome

}  // namespace ebb::programs
