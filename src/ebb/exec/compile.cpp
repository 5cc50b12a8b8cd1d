#include "ebb/exec/compile.hpp"

#include <fmt/core.h>

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <list>
#include <system_error>

#include "ebb/base/file.hpp"
#include "ebb/base/memory.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/base/process.hpp"
#include "ebb/exec/disk_space.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/exec/spill.hpp"
#include "ebb/tape/tape.hpp"

namespace ebb {
namespace exec {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::vector<Spec> with_rows(std::vector<Spec> specs, std::int64_t rows) {
  for (Spec& s : specs) {
    std::vector<std::int64_t> dims(s.shape.begin(), s.shape.end());
    dims[0] = rows;
    s.shape = Shape(dims);
  }
  return specs;
}

// Whether all inputs have one first axis: a batch.
std::int64_t examples_of(std::span<const Spec> inputs) {
  if (inputs.empty() || inputs[0].rank() == 0) return 1;
  for (const Spec& s : inputs)
    if (s.rank() == 0 || s.shape[0] != inputs[0].shape[0]) return 1;
  return inputs[0].shape[0];
}

// How much of the code is in memory before it has run differs by a megabyte from start to start, with
// what the kernel maps around it; what it comes to when steps have run does not. So that is counted:
// what it mostly is, and the most. A program with more code than this has some more to come.
constexpr std::uint64_t kCode = 61 * kMiB / 8, kCodeAtMost = 35 * kMiB / 4;
constexpr std::uint64_t kCodeToCome = 2 * kMiB, kMoreCodeToCome = kMiB / 2;
constexpr std::uint64_t kSpillCode = 3 * kMiB / 4;  // that of files, their thread and its stack
std::atomic<bool> planned_before = false;
// What planning leaves behind beside its code: a plan of two programs at most.
constexpr std::uint64_t kPlannerToCome = 3 * kMiB / 2, kPlanOfACall = 3 << 10;
// The reserve is rounded up to multiples of this, so that it is the same at every start.
constexpr std::uint64_t kReserveStep = 4 * kMiB;

std::uint64_t rounded_reserve(std::uint64_t runtime) {
  return (runtime + kReserveStep - 1) / kReserveStep * kReserveStep;
}

// What is resident beside the Ledger. Exactly: when all that is kept for reuse has been given back;
// where nothing depends on it, the seam's stays, and is taken off.
std::uint64_t footprint(bool exact) {
  malloc_trim(0);
  if (exact) {
    memory::trim();
    return process::footprint();
  }
  const std::uint64_t now = process::resident(), held = memory::held();
  return now > held ? now - held : 0;
}

// What the process will hold beside the Ledger when steps have run.
struct Runtime {
  std::uint64_t mostly, at_most;
};
Runtime runtime(bool exact = true) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static_cast<void>(exact);
  return {16 * kMiB, 16 * kMiB};  // what a sanitizer holds beside the program changes all the time
#else
  const std::uint64_t all = footprint(exact), code = process::mapped();
  const std::uint64_t rest = all > code ? all - code : 0;
  const bool small = code + kMoreCodeToCome <= kCode;
  const std::uint64_t to_come = planned_before || small ? kMoreCodeToCome : kCodeToCome;
  return {rest + (small ? kCode : code + to_come),
          rest + std::max(kCodeAtMost, code + to_come)};
#endif
}

// Traces of fn for parts of a batch with these inputs. They refer to fn.
plan::TraceRows traces_of(const trace::Function& fn, const std::vector<Spec>& inputs,
                          std::int64_t examples) {
  return [&fn, inputs, examples, first = std::make_shared<trace::Trace>()](std::int64_t rows,
                                                                           trace::Part part) {
    const std::vector<Spec> specs = examples > 1 ? with_rows(inputs, rows) : inputs;
    if (part != trace::Part::whole && first->values.empty())
      *first = trace::trace(fn, specs, trace::Part::first);
    return trace::trace(fn, specs, part, first.get());
  };
}

std::uint64_t input_bytes(std::span<const Spec> inputs) {
  std::uint64_t bytes = 0;
  for (const Spec& s : inputs) bytes += plan::aligned(s.bytes());
  return bytes;
}

std::uint64_t held_beside_data() { return ledger::total().live - ledger::of(Category::data).live; }

// One for the process: what a first plan has taken, a second finds there. It depends on the size of
// the step, not on the plan that is chosen in the end, so that the smallest budget does not either.
std::uint64_t& process_reserve() {
  static std::uint64_t reserve = 0;
  return reserve;
}

plan::Surroundings around(std::span<const Spec> inputs, std::int64_t examples,
                          const plan::TraceRows& traces) {
  static const std::uint64_t at_first = runtime().at_most + kPlannerToCome;
  const std::size_t calls = traces(examples, trace::Part::whole).calls.size();
  plan::Surroundings a;
  a.reserve = process_reserve() =
      std::max(process_reserve(), rounded_reserve(at_first + calls * kPlanOfACall));
  a.runtime = a.reserve;
  a.batches = input_bytes(inputs);
  // Rounded, so that a scalar more or less does not move the smallest budget.
  constexpr std::uint64_t kStep = 64 << 10;
  const std::uint64_t data = ledger::of(Category::data).live;
  a.batches += (data + kStep - 1) / kStep * kStep;
  a.others = held_beside_data();
  a.spill_memory = 2 * kMiB;
  return a;
}

void check(const CompileOptions& o) {
  if (o.rows < 0)
    throw Error(
        fmt::format("compile: .rows is {}; expected 0 (the planner's choice) or more", o.rows));
  if (o.rows > 0 && !o.split)
    throw Error(fmt::format("compile: .rows is {}, but .split = false keeps the batch whole; leave "
                            "one of them out",
                            o.rows));
  if (o.allow == Allow::same_bits && o.approximate.activations != DType::f32)
    throw Error(fmt::format("compile: .approximate stores activations in {}, which .allow = "
                            "same_bits forbids; leave one of them out",
                            name(o.approximate.activations)));
  if (o.allow == Allow::same_bits && o.split_mixed)
    throw Error("compile: .split_mixed makes another function of the step, which .allow = same_bits "
                "forbids; leave one of them out");
  if (o.plans < 1)
    throw Error(fmt::format("compile: .plans is {}; expected 1 or more", o.plans));
  std::error_code failed;
  if (o.spill && !o.spill_directory.empty() &&
      !std::filesystem::is_directory(o.spill_directory, failed))
    throw FileError(fmt::format("compile: .spill_directory \"{}\" is no directory; name one that is "
                                "there, or set .spill = false",
                                o.spill_directory));
}

bool frees_nothing(const std::string& directory) {
  try {
    return File::temporary(directory, false).in_memory();
  } catch (const FileError&) {
    return false;  // said when a plan needs it
  }
}

// Checked, and without levers that do nothing here: a file in memory is no place to spill to.
CompileOptions settled(CompileOptions o) {
  check(o);
  if (!o.spill || !frees_nothing(spill_directory(o.spill_directory))) return o;
  if (!o.spill_directory.empty())
    throw FileError(fmt::format(
        "compile: .spill_directory \"{}\" is on a file system in memory (tmpfs), so that spilling "
        "there frees nothing; name one on a disk, or set .spill = false",
        o.spill_directory));
  o.spill = false;
  return o;
}

// Whether there is more than one plan, so that a smallest budget is of interest.
bool has_choices(const CompileOptions& o) {
  return o.memory.bytes || o.recompute || o.split || o.spill;
}

// The spill file's speed also where there is no budget: the smallest one is to be the same number.
plan::Machine machine_for(const CompileOptions& options) {
  const std::uint64_t budget = options.memory.bytes, now = process::resident();
  const plan::Machine machine =
      plan::this_machine(budget == 0 ? plan::kAmple : budget > now ? budget - now : 0);
  if (!options.spill) return machine;
  return plan::with_spill_speed(machine, spill_directory(options.spill_directory));
}

class NoRoomOnDisk : public Error {
 public:
  using Error::Error;
};

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

trace::Function on_tensors(std::shared_ptr<const Names> names, OnBatch fn) {
  return [names = std::move(names), fn = std::move(fn)](std::span<const Tensor> inputs) {
    return fn(Batch(names, {inputs.begin(), inputs.end()}));
  };
}

}  // namespace

std::vector<Tensor> to_tensors(const Loss& result) { return {result.sum, result.count}; }
std::vector<Tensor> to_tensors(const Tensor& result) { return {result}; }

std::vector<plan::Way> frontier(const BatchSpec& spec, const CompileOptions& options, OnBatch fn) {
  return frontier(spec.values(), options, on_tensors(spec.shared_names(), std::move(fn)));
}

std::vector<plan::Way> frontier(const std::vector<Spec>& inputs, const CompileOptions& given,
                                const trace::Function& fn) {
  const CompileOptions options = settled(given);
  const std::int64_t examples = std::max<std::int64_t>(1, examples_of(inputs));
  const plan::TraceRows traces = traces_of(fn, inputs, examples);
  const plan::Machine machine = machine_for(options);
  plan::Surroundings surroundings = around(inputs, examples, traces);
  for (;;) {
    std::vector<plan::Way> ways =
        plan::frontier(traces, examples, options, surroundings, machine);
    const std::uint64_t at_most = runtime().at_most;
    if (at_most <= surroundings.reserve) return ways;
    surroundings.reserve = process_reserve() = rounded_reserve(at_most);
  }
}

struct Compiled::State {
  std::shared_ptr<const Names> names;
  CompileOptions options;
  trace::Function fn;
  Arena arena;
  struct Entry {
    std::vector<Spec> inputs;
    std::unique_ptr<Executor> executor;
    int threads;  // it was planned for: kernels take as much scratch as there are threads
  };
  std::list<Entry> entries;  // used last first
  std::vector<Tensor> results;
  std::string source;
  std::vector<Spec> first;      // inputs it was made for
  plan::Surroundings at_first;  // with what the data set held then

  Executor& find(const std::vector<Spec>& inputs) {
    for (auto e = entries.begin(); e != entries.end(); ++e)
      if (e->inputs == inputs && e->threads == pool::threads()) {
        if (e != entries.begin()) entries.splice(entries.begin(), entries, e);
        return *entries.front().executor;
      }
    return make(inputs);
  }

  // Where plans for other shapes leave too little of the budget, they go.
  Executor& make(const std::vector<Spec>& inputs) {
    try {
      return add(inputs);
    } catch (const BudgetTooSmall&) {
      if (entries.empty()) throw;
    } catch (const NoRoomOnDisk&) {  // their files take some of it
      if (entries.empty()) throw;
    }
    entries.clear();
    arena.clear();
    return add(inputs);
  }

  Executor& add(const std::vector<Spec>& inputs) {
    const std::int64_t examples = std::max<std::int64_t>(1, examples_of(inputs));
    const plan::TraceRows traces = traces_of(fn, inputs, examples);
    plan::Surroundings around = at_first;
    around.reserve = process_reserve();
    around.batches += input_bytes(inputs) - input_bytes(first);
    around.others = held_beside_data() - arena.size();
    plan::Plan plan;
    const plan::Machine machine = machine_for(options);
    CompileOptions allowed = options;
    std::string refusal;  // of the disk; then there may be a way without a file
    for (;;) {
      try {
        plan = plan::make_plan(traces, examples, allowed, around, machine);
      } catch (const BudgetTooSmall& e) {
        if (refusal.empty()) throw;
        throw NoRoomOnDisk(fmt::format("{}: without the file the smallest budget is {} ({} bytes)",
                                       refusal, plan::enough(e.minimum), e.minimum));
      }
      const auto [mostly, at_most] = runtime(has_choices(options));
      const Spilled spilled(plan);
      const std::uint64_t spill = spilled.memory();
      plan.forecast.spilled = spilled.disk();
      if (const std::string line =
              no_room(plan.forecast.spilled, spill_directory(options.spill_directory));
          !line.empty()) {
        refusal = line;
        allowed.spill = false;
        continue;
      }
      around.runtime = mostly + (spill ? kSpillCode : 0);
      if (at_most <= around.reserve && spill <= around.spill_memory) {
        if (spill) {
          plan.forecast.process -= around.spill_memory - spill;
          plan.forecast.at_peak[static_cast<int>(Category::workspace)] -=
              around.spill_memory - spill;
        }
        break;
      }
      // A plan larger than most. Without a budget nothing was chosen by it.
      const std::uint64_t before = around.reserve;
      if (at_most > around.reserve)
        around.reserve = process_reserve() = rounded_reserve(at_most);
      if (options.memory.bytes == 0 && spill == 0) {
        plan::add_to_reserve(plan, around.reserve - before);
        break;
      }
      around.spill_memory = std::max(around.spill_memory, (spill + kMiB - 1) / kMiB * kMiB);
    }
    planned_before = true;
    at_first.spill_memory = around.spill_memory;
    plan.forecast.process += around.runtime - plan.forecast.runtime;
    plan.forecast.runtime = around.runtime;
    plan.source = source;
    entries.push_front(
        {inputs, std::make_unique<Executor>(std::move(plan), options, arena), pool::threads()});
    while (entries.size() > static_cast<std::size_t>(std::max(1, options.plans)))
      entries.pop_back();
    return *entries.front().executor;
  }
};

Compiled::Compiled(std::shared_ptr<const Names> names, std::vector<Spec> inputs,
                   CompileOptions options, trace::Function fn)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.names = std::move(names);
  s.options = settled(std::move(options));
  s.fn = std::move(fn);
  if (s.options.memory.automatic) {
    const process::Available available = process::available();
    // Nothing left is a budget, too: one that is refused.
    s.options.memory.bytes = std::max<std::uint64_t>(1, available.bytes - available.bytes / 20);
    s.source = available.source + ", less 5%";
  }
  const std::int64_t examples = std::max<std::int64_t>(1, examples_of(inputs));
  s.first = inputs;
  s.at_first = around(inputs, examples, traces_of(s.fn, inputs, examples));
  s.make(inputs);
}

Compiled::Compiled(const BatchSpec& spec, CompileOptions options, OnBatch fn)
    : Compiled(spec.shared_names(), spec.values(), std::move(options),
               on_tensors(spec.shared_names(), std::move(fn))) {}

Compiled::~Compiled() = default;
Compiled::Compiled(Compiled&&) noexcept = default;
Compiled& Compiled::operator=(Compiled&&) noexcept = default;

exec::Executor& Compiled::executor_for(std::span<const Tensor> inputs) {
  State& s = *state_;
  for (const Tensor& t : inputs) t.check_known();
  for (const State::Entry& e : s.entries)  // which says so: no other shape goes on from a mixture
    if (e.executor->torn()) return *e.executor;
  const auto& known = s.entries.empty() ? s.first : s.entries.front().inputs;
  bool same = inputs.size() == known.size();
  if (!same)
    throw Error(fmt::format("compiled step: {} inputs were given, expected {}", inputs.size(),
                            known.size()));
  for (std::size_t i = 0; same && i < inputs.size(); ++i) same = inputs[i].spec() == known[i];
  if (same && !s.entries.empty() && s.entries.front().threads == pool::threads())
    return *s.entries.front().executor;
  std::vector<Spec> specs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Spec& spec = inputs[i].spec();
    if (spec.dtype != known[i].dtype || spec.rank() != known[i].rank())
      throw Error(fmt::format("compiled step: input {} is {}, it was compiled for {}",
                              s.names ? (*s.names)[i] : std::to_string(i), to_string(spec),
                              to_string(known[i])));
    specs.push_back(spec);
  }
  return s.find(specs);
}

const std::vector<Tensor>& Compiled::run(const Batch& batch) {
  const Names& names = *state_->names;
  if (batch.names() == names) return run(batch.values());
  std::vector<Tensor> inputs;  // in another order, or among others
  for (const std::string& name : names) inputs.push_back(batch[name]);
  return run(inputs);
}

const std::vector<Tensor>& Compiled::run(std::span<const Tensor> inputs) {
  executor_for(inputs).run(inputs, state_->results);
  return state_->results;
}

void Compiled::run_into(std::span<const Tensor> inputs, std::span<std::byte* const> results) {
  executor_for(inputs).run(inputs, results);
}

const plan::Plan& Compiled::plan() const { return executor().plan(); }
const Executor& Compiled::executor() const {
  if (state_->entries.empty())
    throw Error("compiled step: there is no plan, as the last shape did not fit the budget");
  return *state_->entries.front().executor;
}

}  // namespace exec

std::vector<Tensor> gradients(const Tensor& y, std::span<const Tensor> xs) {
  Tape* tape = Tape::innermost();
  if (!tape)
    throw Error(
        "gradients: nobody records; call it inside a compiled function, or make a Tape first");
  return tape->gradient(y, xs);
}

}  // namespace ebb
