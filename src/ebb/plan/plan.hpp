// Order, what is kept, recomputed, split and spilled, an offset for every tensor, and a forecast of
// bytes and time. A value: printable, comparable, testable without running.
//
//   auto step = compile(data.spec(), {.memory = 64_MiB}, …);
//   std::cout << step.plan();
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/plan/forecast/forecast.hpp"
#include "ebb/plan/options.hpp"
#include "ebb/plan/pack/program.hpp"
#include "ebb/plan/split/rank_sums.hpp"
#include "ebb/trace/trace.hpp"

namespace ebb {

// The budget cannot be met: what it would take, and the frontier of what does fit.
class BudgetTooSmall : public Error {
 public:
  BudgetTooSmall(const std::string& line, std::uint64_t minimum) : Error(line), minimum(minimum) {}
  std::uint64_t minimum;  // bytes: the smallest budget that would do
};

namespace plan {

// What one budget gets: a point of the frontier of time over budget.
struct FrontierPoint {
  std::uint64_t budget = 0;  // bytes of the process
  double seconds = 0;
  std::int64_t micro_batch = 0;  // its examples; the whole batch where it is not split
  bool split = false;
  bool mixed = false;  // examples depend on each other; each micro-batch is a batch of its own
  std::uint64_t recomputed = 0;         // calls run again
  std::uint64_t written = 0, read = 0;  // bytes a step, to and from the file
  bool state_spilled = false;
  DType activations = DType::f32;     // as what they wait for the walk back
  std::uint64_t gradient_blocks = 0;  // parameters whose gradient is never whole
  Allow label = Allow::same_bits;
  std::string text() const;  // "recompute 12 calls, micro-batches of 64"
  bool operator==(const FrontierPoint&) const = default;
};

// The smallest plan there is.
struct Smallest {
  std::uint64_t budget = 0;
  std::vector<Variable> spills;  // variables that it keeps in the file
  bool uses_file = false;        // for these, or for activations
  std::uint64_t constants = 0;   // bytes of them
  bool operator==(const Smallest&) const = default;
};

struct Plan {
  std::vector<Program> programs;
  struct Run {
    int program;
    std::int64_t first, examples;  // of the batch
    bool operator==(const Run&) const = default;
  };
  std::vector<Run>
      runs;  // the micro-batches of a step; `first` counts from the first row that is here
  std::int64_t examples = 0;
  // Of these, the rows that are here. The step is then divided among ranks: its last run has no examples, and
  // begins when the sums of all ranks are known.
  data::Part part;
  RankSums rank_sums;  // that ranks hand on; none: those of micro-batches
  std::vector<Spec> result_specs;
  // Per result: made for each example; those of the micro-batches stand one after the other.
  std::vector<bool> result_per_example;
  // Constants of a micro-batch's trace, before it is folded, that are the whole batch's
  // (SplitAnswer), of so many.
  std::vector<trace::Id> counts;
  std::size_t micro_batch_constants = 0;
  std::uint64_t arena = 0;
  std::uint64_t resident = 0;                // of variables, where the others are spilled
  std::vector<std::uint64_t> carry_offsets;  // of sums over micro-batches: the start of the arena
  std::uint64_t carry_bytes = 0;
  std::uint64_t budget = 0;   // 0: none
  std::uint64_t minimum = 0;  // the smallest budget there is a plan for
  Smallest smallest;          // that plan
  FrontierPoint chosen;
  Forecast forecast;
  std::vector<FrontierPoint> frontier;  // rising budget, falling time
  std::string source;                   // where the budget comes from, for an automatic one
  std::string approximate;              // what was done to the numbers, on request; "": nothing

  bool divided() const { return !part.whole(); }
  bool split() const { return runs.size() > 1 || divided(); }
  std::string json() const;
  bool operator==(const Plan&) const = default;
};
std::string to_string(const Plan& plan);

// A refusal by make_plan, with what those need to know who plan several functions together.
class Refused : public BudgetTooSmall {
 public:
  Refused(const std::string& line, const Plan& plan)
      : BudgetTooSmall(line, plan.minimum),
        smallest(plan.smallest),
        result_specs(plan.result_specs) {}
  Smallest smallest;
  std::vector<Spec> result_specs;
};

// A plan without a budget, where more has to be set aside than it was made with.
void add_to_reserve(Plan& plan, std::uint64_t bytes);
std::ostream& operator<<(std::ostream& out, const Plan& plan);

// A budget as people read it, rounded up: what it says is enough.
std::string enough(std::uint64_t budget);

// What stands in memory beside the arena.
struct Footprint {
  std::uint64_t runtime = 0;  // code, libraries, stacks, as far as it is forecast
  std::uint64_t reserve = 0;  // what of the budget is set aside for it
  std::uint64_t batches = 0;  // what the data set holds, and the batch at hand
  // All else that the program holds: its own tensors, the step's constants among them, and
  // variables of other functions; not the step's own variables.
  std::uint64_t others = 0;
  std::uint64_t spill_memory = 0;  // what a spill file needs in memory
};

// `trace_batch(examples, which)` traces the function for a (micro-)batch of so many examples.
Plan make_plan(const trace::TraceBatch& trace_batch, std::int64_t examples,
               const CompileOptions& options, const Footprint& footprint, const Machine& machine);

// The curve of time over budget: rising budget, falling time. It begins with the smallest budget
// there is a plan for, and each budget is what its plan takes when packed. (Those of a plan's
// frontier are loads, which packing exceeds a little.) The budget of `options` is not looked at.
std::vector<FrontierPoint> frontier(const trace::TraceBatch& trace_batch, std::int64_t examples,
                                    const CompileOptions& options, const Footprint& footprint,
                                    const Machine& machine);

}  // namespace plan
}  // namespace ebb
