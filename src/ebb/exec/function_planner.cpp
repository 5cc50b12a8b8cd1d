#include "ebb/exec/function_planner.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "ebb/base/memory/budget.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/base/process.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/exec/compile_options.hpp"
#include "ebb/exec/input_specs.hpp"
#include "ebb/exec/spill/disk_space.hpp"
#include "ebb/exec/spill/planned_spill.hpp"
#include "ebb/exec/spill/spill_file.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/optim/bad_loss.hpp"
#include "ebb/plan/smaller.hpp"

namespace ebb::exec {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kSpillCode = kMiB / 4;  // that of files, their thread and its stack

// Whenever it is traced, layers act as they did when it was compiled, and bad losses are as it says.
trace::Function as_compiled(trace::Function fn, std::optional<BadLoss> bad) {
  return [fn = std::move(fn), bad, training = nn::training()](std::span<const Tensor> inputs) {
    const nn::Evaluation mode(!training);
    const optim::BadLossScope scope(bad);
    return fn(inputs);
  };
}

// Why a spill file of so many bytes cannot be made; nothing where it can.
std::string no_room(std::uint64_t bytes, const std::string& directory) {
  const std::uint64_t free = free_space(directory);
  if (bytes == 0 || free == kUnknownSpace) return {};
  const std::uint64_t others = space_for_others(free);
  if (bytes + others <= free) return {};
  return fmt::format(
      "compile: the spill file of the plan takes {} ({} bytes) of the disk under \"{}\", where {} "
      "({} bytes) are free, {} of them to be left to others; free some, name a larger disk by "
      ".spill_directory or TMPDIR, or set .spill = false",
      plan::enough(bytes), bytes, directory, to_string(ByteSize{free}), free,
      to_string(ByteSize{others}));
}

}  // namespace

FunctionPlanner::FunctionPlanner(const CompiledFunction& function, trace::Function fn,
                                 std::vector<Spec> inputs, std::int64_t last_examples,
                                 CompileOptions options)
    : function_(function),
      options_(checked(std::move(options))),
      part_(part_of(options_)),
      fn_(as_compiled(std::move(fn), options_.bad_loss)),
      first_(std::move(inputs)),
      last_examples_(last_examples),
      machine_(machine_for(options_)),
      budget_source_(resolve_memory(options_)) {}

// For micro-batches of these inputs. They refer to fn_.
trace::TraceBatch FunctionPlanner::traces_of(const std::vector<Spec>& inputs) const {
  return [&fn = fn_, inputs, cut = examples_of(inputs) > 1 || !part_.whole(),
          probe = std::make_shared<trace::Trace>()](std::int64_t rows, trace::MicroBatch part) {
    const std::vector<Spec> specs = cut ? with_examples(inputs, rows) : inputs;
    if (part != trace::MicroBatch::whole && probe->values.empty())
      *probe = trace::trace(fn, specs, trace::MicroBatch::probe);
    return trace::trace(fn, specs, part, probe.get());
  };
}

std::vector<Spec> FunctionPlanner::own(const std::vector<Spec>& inputs) const {
  return part_.whole() ? inputs : with_examples(inputs, part_.rows(examples_of(inputs)));
}

trace::Trace FunctionPlanner::whole_trace() const {
  return traces_of(first_)(examples_of(first_), trace::MicroBatch::whole);
}

std::optional<std::vector<Spec>> FunctionPlanner::last_inputs() const {
  if (last_examples_ <= 0 || examples_of(first_) <= last_examples_) return std::nullopt;
  return with_examples(first_, last_examples_);
}

std::optional<plan::Plan> FunctionPlanner::smaller(const plan::Plan& larger,
                                                   const std::vector<Spec>& inputs) const {
  return plan::smaller(larger, traces_of(inputs), examples_of(inputs), options_, machine_);
}

std::vector<plan::FrontierPoint> FunctionPlanner::frontier() {
  const trace::TraceBatch traces = traces_of(first_);
  for (;;) {
    plan::Footprint footprint = Functions::all().footprint(function_);
    footprint.spill_memory = spill_memory_;
    footprint.others += rounding();
    std::vector<plan::FrontierPoint> points =
        plan::frontier(traces, examples_of(first_), options_, footprint, machine_);
    if (!runtime::remeasure()) return points;
  }
}

// A variable takes whole pages, or a block of its size; so do the arena and results.
std::uint64_t FunctionPlanner::rounding() const {
  std::uint64_t bytes = 4 * plan::kPage;
  for (const Variable& v : function_.variables)
    bytes += v.charge() - std::min(v.charge(), memory::aligned(v.spec().bytes()));
  return bytes;
}

FunctionPlanner::ProcessMemory FunctionPlanner::process_memory(
    const std::vector<Spec>& inputs) const {
  ProcessMemory s;
  s.footprint = Functions::all().footprint(function_);
  s.footprint.spill_memory = spill_memory_;
  s.beside = s.footprint.reserve + s.footprint.batches + s.footprint.others;
  s.footprint.others += rounding();
  if (function_.data == 0) {  // a batch that the program makes itself, larger than the first or not
    const std::uint64_t counted = std::min(charge_of(own(first_)), s.footprint.others);
    s.footprint.others -= counted;
    s.footprint.batches += std::max(charge_of(own(inputs)), counted);
  }
  return s;
}

std::uint64_t FunctionPlanner::budget_for(const std::vector<Spec>& inputs, bool smallest,
                                          const MemoryNeed* within, std::uint64_t beside) const {
  std::uint64_t budget = Budget::now();
  if (budget == 0) return 0;
  const MemoryNeed* const least = inputs == first_ ? &smallest_first_
                                  : smallest_last_ ? &*smallest_last_
                                                   : nullptr;
  if (smallest && least && least->bytes) budget = std::min(budget, beside + least->bytes);
  if (within) budget = std::min(budget, beside + within->bytes - within->held);
  return budget;
}

FunctionPlanner::Planned FunctionPlanner::plan(const std::vector<Spec>& inputs, bool smallest,
                                               const MemoryNeed* within) {
  const memory::Drawing draws(Functions::all().promise());  // constants that plans hold
  const trace::TraceBatch traces = traces_of(inputs);
  CompileOptions options = options_;
  ProcessMemory process;
  plan::Plan plan;
  std::string no_disk;  // why the disk refuses; then there may be a way without a file
  do {
    process = process_memory(inputs);
    options.memory.bytes = budget_for(inputs, smallest, within, process.beside);
    if (!no_disk.empty() || (within && options.memory.bytes)) options.spill = false;
    try {
      plan = plan::make_plan(traces, examples_of(inputs), options, process.footprint, machine_);
    } catch (const plan::Refused& e) {
      note_smallest(inputs, within != nullptr, e.smallest, process.beside,
                    charge_of(e.result_specs));
      if (no_disk.empty()) throw;
      throw NoRoomOnDisk(fmt::format("{}: without the file the smallest budget is {} ({} bytes)",
                                     no_disk, plan::enough(e.minimum), e.minimum));
    }
  } while (!all_counted(plan, process, no_disk));
  const std::uint64_t results = charge_of(plan.result_specs);
  note_smallest(inputs, within != nullptr, plan.smallest, process.beside, results);
  const std::uint64_t constants = plan::constants_of(std::span<const plan::Program>(plan.programs));
  return finished(std::move(plan), process.beside, constants + results);
}

// Whether all that the plan needs was counted when it was made. If not, it is the next time.
bool FunctionPlanner::all_counted(plan::Plan& plan, ProcessMemory& process, std::string& no_disk) {
  const bool grown = has_choices(options_) && runtime::remeasure();
  const PlannedSpill planned(plan);
  const std::uint64_t spill = planned.memory_bytes();
  plan.forecast.spilled = planned.disk_bytes();
  if (std::string line = no_room(plan.forecast.spilled, spill_directory(options_.spill_directory));
      !line.empty()) {
    no_disk = std::move(line);
    return false;
  }
  if (spill > spill_memory_) {
    spill_memory_ = (spill + kMiB / 2 - 1) / (kMiB / 2) * (kMiB / 2);
    return false;
  }
  if (grown) {
    if (Budget::now()) return false;
    const std::uint64_t more = runtime::reserve() - process.footprint.reserve;
    plan::add_to_reserve(plan, more);  // nothing was chosen by it
    process.beside += more;
    return true;
  }
  if (spill) {
    plan.forecast.process -= spill_memory_ - spill;
    plan.forecast.at_peak[static_cast<int>(Category::workspace)] -= spill_memory_ - spill;
  }
  return true;
}

FunctionPlanner::Planned FunctionPlanner::finished(plan::Plan plan, std::uint64_t beside,
                                                   std::uint64_t held) const {
  const bool spills = PlannedSpill(plan).any;
  MemoryNeed need{plan.chosen.budget - beside, held + (spills ? spill_memory_ : 0), plan.arena,
                  plan::spilled_variables(plan.programs)};
  need.held = std::min(need.held, need.bytes);
  const std::uint64_t runs_with = runtime::likely() + (spills ? kSpillCode : 0);
  plan.forecast.process += runs_with - plan.forecast.runtime;
  plan.forecast.runtime = runs_with;
  plan.forecast.measured.peak_before = process::peak_resident();
  plan.source = budget_source_;
  return {std::move(plan), std::move(need)};
}

// The smallest plan for these inputs, be it taken or not.
void FunctionPlanner::note_smallest(const std::vector<Spec>& inputs, bool is_within,
                                    const plan::Smallest& plan, std::uint64_t beside,
                                    std::uint64_t results) {
  MemoryNeed need{plan.budget - beside,
                  plan.constants + results + (plan.uses_file ? spill_memory_ : 0), 0, plan.spills};
  need.held = std::min(need.held, need.bytes);
  if (inputs == first_) {
    smallest_first_ = std::move(need);
  } else if (!is_within && last_examples_ > 0 && inputs == with_examples(first_, last_examples_)) {
    smallest_last_ = std::move(need);
  }
}

MemoryNeed FunctionPlanner::smallest() const {
  if (!smallest_last_) return smallest_first_;
  const MemoryNeed &first = smallest_first_, &last = *smallest_last_;
  MemoryNeed both = first;
  both.held += last.held;
  both.bytes = both.held + std::max(first.bytes - first.held, last.bytes - last.held);
  std::erase_if(both.spilled, [&](const Variable& v) {
    return std::find(last.spilled.begin(), last.spilled.end(), v) == last.spilled.end();
  });
  return both;
}

}  // namespace ebb::exec
