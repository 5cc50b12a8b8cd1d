// Order, what is kept, recomputed, split and spilled, an offset for every tensor, and a forecast of
// bytes and time. A value: printable, comparable, testable without running.
//
//   auto step = compile(data.spec(), {.memory = 64_MiB}, …);
//   std::cout << step.plan();
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/plan/graph/lower.hpp"

namespace ebb {

// The budget cannot be met: what it would take, and each way there.
class BudgetTooSmall : public Error {
 public:
  BudgetTooSmall(const std::string& line, std::uint64_t minimum) : Error(line), minimum(minimum) {}
  std::uint64_t minimum;  // bytes: the smallest budget that would do
};

// What the planner may do to the numbers. Each way to save memory carries one of these labels.
enum class Allow : std::uint8_t {
  same_bits,      // recompute, spill, order; a split only where it is bit-equal
  same_gradient,  // also splits that are equal up to rounding
  approximate     // a label only: such ways are allowed one by one, by CompileOptions::approximate
};
const char* name(Allow label);

struct Memory {
  std::uint64_t bytes = 0;  // of the whole process; 0: no limit
  bool automatic = false;   // what the machine or the process's group has, less a margin
  Memory() = default;
  Memory(ByteSize size) : bytes(size.bytes) {}
  template <class Number>
    requires std::is_arithmetic_v<Number>
  Memory(Number) {
    static_assert(!sizeof(Number),
                  "say the unit of .memory: 64_MiB, 64_MB, or ByteSize{64000000} for bytes");
  }
  static Memory from_machine() {
    Memory m;
    m.automatic = true;
    return m;
  }
};

// Ways to save memory that change the numbers: each only on request, by its name. What is allowed
// is used where the budget needs it or where it is faster; the plan says whether it was.
struct Approximate {
  // What waits for the walk back may wait in 16 bits: bf16, or f16, which has three more digits and
  // ends at 65504.
  DType activations = DType::f32;
  bool always = false;  // use it also where the budget does not need it
};

struct CompileOptions {
  Memory memory = {};
  Allow allow = Allow::same_gradient;
  bool recompute = true;
  bool fuse = true;          // elementwise calls become one where nobody else reads between them
  bool split = true;         // the batch may be taken in parts
  bool gradient_blocks = true;       // a large gradient may be made row by row, where its update reads it
  bool spill = true;         // activations, parameters and optimizer state may go to a file
  // Split even where rows depend on each other, as in batch_norm while training: another function!
  // Each part is then a batch of its own, normalised by itself, and variables that the function
  // assigns, such as running statistics, go on from part to part; gradients are added up as ever and
  // the optimizer makes one step. A step that fails in a later part is torn. Such ways carry the
  // label `approximate`.
  bool independent_micro_batches = false;
  // Examples of a micro-batch, where you know better; 0: the planner's choice. An Error where the batch
  // cannot be split, or not with what `allow` asks for.
  std::int64_t micro_batch = 0;
  std::string spill_directory = {};  // "": TMPDIR, or /var/tmp
  int plans = 8;                     // shapes whose plans are kept
  Approximate approximate = {};
  // What a step does about a loss that is infinite or NaN: what the optimizer was told, without a
  // word (Optimizer::on_bad_loss). It is known before anything is updated, but for a second step in
  // one function: what stops that one leaves the first one's updates, and the step torn.
  std::optional<BadLoss> bad_loss = {};
};

namespace plan {

inline constexpr std::uint64_t kOutside = std::numeric_limits<std::uint64_t>::max();

// One pass over (a part of) the batch.
struct Program {
  trace::Trace trace;
  Lowered lowered;
  Schedule schedule;
  std::vector<std::uint64_t> offsets;  // per instance, in the arena; kOutside: not in it
  std::vector<std::uint64_t> scratch;  // per step, likewise
  std::uint64_t arena = 0;
  std::uint64_t resident = 0;    // variables that stay in memory although they may be spilled
  std::vector<Id> result_index;  // per result of the trace: which of the step's; empty: in order
  std::uint64_t first_slot = 0;  // of its buffers, among the activations of the spill file
  bool operator==(const Program&) const = default;
};

// What steps took so far, beside what was forecast. No part of what was planned: plans compare equal
// whatever was measured.
struct Measured {
  std::uint64_t steps = 0;
  double seconds = 0;  // a step, the median of the last ones
  bool operator==(const Measured&) const { return true; }
};

struct Forecast {
  std::uint64_t arena = 0;                           // exact
  std::uint64_t process = 0;                         // everything: the peak of resident memory
  // In the process: with `others`, `gaps` and `runtime` this adds up to it.
  std::array<std::uint64_t, kCategories> at_peak{};  // by category
  std::uint64_t others = 0;  // what the program holds beside the step: its own tensors, other models
  std::uint64_t gaps = 0;    // of the arena, between what lies in it
  std::uint64_t runtime = 0;                         // code, libraries, stacks, plans
  std::uint64_t reserve = 0;                         // what of the budget is set aside for it
  std::string op;                                    // that runs at the peak
  double seconds = 0;                                // a step
  double unlimited_seconds = 0;
  Measured measured;
  std::uint64_t spilled = 0;  // bytes of the disk that the spill file takes
  double overhead() const { return unlimited_seconds > 0 ? seconds / unlimited_seconds - 1 : 0; }
  bool operator==(const Forecast&) const = default;
};

// One way to fit: a point of the frontier.
struct FrontierPoint {
  std::uint64_t budget = 0;  // bytes of the process
  double seconds = 0;
  std::int64_t micro_batch = 0;  // its examples; the whole batch where it is not split
  bool split = false;
  bool mixed = false;  // each part is a batch of its own, though rows depend on each other
  std::uint64_t recomputed = 0;         // calls run again
  std::uint64_t written = 0, read = 0;  // bytes a step, to and from the file
  bool state_spilled = false;
  DType activations = DType::f32;  // as what they wait for the walk back
  std::uint64_t gradient_blocks = 0;  // parameters whose gradient is never whole
  Allow label = Allow::same_bits;
  std::string text() const;  // "recompute 12 calls, parts of 64 rows"
  bool operator==(const FrontierPoint&) const = default;
};

struct Plan {
  std::vector<Program> programs;
  struct Run {
    int program;
    std::int64_t row0, rows;
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> runs;  // the parts of a step
  std::int64_t examples = 0;
  std::vector<Spec> result_specs;
  std::vector<bool> result_carries;  // rows of the batch: parts stand one after the other
  // Constants of a part's trace, before it is folded, that are the whole batch's (SplitAnswer), of so
  // many.
  std::vector<trace::Id> counts;
  std::size_t part_constants = 0;
  std::uint64_t arena = 0;
  std::uint64_t resident = 0;                // of variables, where the others are spilled
  std::vector<std::uint64_t> carry_offsets;  // of sums over parts; at the start of the arena
  std::uint64_t carry_bytes = 0;
  std::uint64_t budget = 0;   // 0: none
  std::uint64_t minimum = 0;  // the smallest budget there is a plan for
  std::vector<Variable> minimum_spills;  // what that plan keeps in the file
  bool minimum_uses_file = false;        // for these, or for activations
  FrontierPoint chosen;
  Forecast forecast;
  std::vector<FrontierPoint> frontier;  // rising budget, falling time
  std::string source;         // where the budget comes from, for an automatic one
  std::string approximate;    // what was done to the numbers, on request; "": nothing

  bool split() const { return runs.size() > 1; }
  std::string json() const;
  bool operator==(const Plan&) const = default;
};
std::string to_string(const Plan& plan);

// The smallest plan there is.
struct Smallest {
  std::uint64_t budget = 0;
  std::vector<Variable> spills;  // variables that it keeps in the file
  bool uses_file = false;        // for these, or for activations
};

// A refusal by make_plan, with what those need to know who plan several functions together.
class Refused : public BudgetTooSmall {
 public:
  Refused(const std::string& line, const Plan& plan)
      : BudgetTooSmall(line, plan.minimum),
        smallest{plan.minimum, plan.minimum_spills, plan.minimum_uses_file},
        result_specs(plan.result_specs) {}
  Smallest smallest;
  std::vector<Spec> result_specs;
};

// A plan without a budget, where more has to be set aside than it was made with.
void add_to_reserve(Plan& plan, std::uint64_t bytes);
std::ostream& operator<<(std::ostream& out, const Plan& plan);

// A budget as people read it, rounded up: what it says is enough.
std::string enough(std::uint64_t budget);

// Variables that these keep in the spill file.
std::vector<Variable> spilled_variables(std::span<const Program> programs);

// What stands in memory beside the arena.
struct Footprint {
  std::uint64_t runtime = 0;       // measured
  std::uint64_t reserve = 0;       // rounded up
  std::uint64_t batches = 0;       // what the data set holds, and the batch at hand
  // All else that the program holds: its own tensors, the step's constants among them, and variables
  // of other functions; not the step's own variables.
  std::uint64_t others = 0;
  std::uint64_t spill_memory = 0;  // what a spill file needs in memory
};

// `trace_rows(rows, part)` traces the function for a part of so many rows.
using TraceRows = std::function<trace::Trace(std::int64_t rows, trace::Part part)>;
Plan make_plan(const TraceRows& trace_rows, std::int64_t examples, const CompileOptions& options,
               const Footprint& footprint, const Machine& machine);

// The curve of time over budget: rising budget, falling time. It begins with the smallest budget
// there is a plan for, and each budget is what its way takes when packed. (Those of a plan's
// frontier are loads, which packing exceeds a little.) The budget of `options` is not looked at.
std::vector<FrontierPoint> frontier(const TraceRows& trace_rows, std::int64_t examples,
                          const CompileOptions& options, const Footprint& footprint,
                          const Machine& machine);

}  // namespace plan
}  // namespace ebb
