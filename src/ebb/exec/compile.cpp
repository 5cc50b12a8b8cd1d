#include "ebb/exec/compile.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <list>
#include <optional>
#include <system_error>

#include "ebb/base/budget.hpp"
#include "ebb/base/file.hpp"
#include "ebb/base/memory.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/base/process.hpp"
#include "ebb/exec/disk_space.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/exec/functions.hpp"
#include "ebb/exec/spill.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/plan/smaller.hpp"
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

constexpr std::uint64_t kSpillCode = kMiB / 4;  // that of files, their thread and its stack
// What a plan holds on the heap, for each call of the step, and beside them.
constexpr std::uint64_t kPlanOfACall = 3 << 10, kPlan = 32 << 10;

// Traces of fn for a batch with these inputs, or micro-batches of it. They refer to fn.
trace::TraceBatch traces_of(const trace::Function& fn, const std::vector<Spec>& inputs,
                            std::int64_t examples) {
  return [&fn, inputs, examples, first = std::make_shared<trace::Trace>()](
             std::int64_t count, trace::MicroBatch which) {
    const std::vector<Spec> specs = examples > 1 ? with_rows(inputs, count) : inputs;
    if (which != trace::MicroBatch::whole && first->values.empty())
      *first = trace::trace(fn, specs, trace::MicroBatch::first);
    return trace::trace(fn, specs, which, first.get());
  };
}

std::uint64_t charge_of(std::span<const Spec> inputs) {
  std::uint64_t bytes = 0;
  for (const Spec& s : inputs) bytes += Tensor::charge(s);
  return bytes;
}

// Whether the first is as large as the second in every axis, or smaller.
bool no_larger(const std::vector<Spec>& a, const std::vector<Spec>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    for (int axis = 0; axis < a[i].rank(); ++axis)
      if (a[i].shape[axis] > b[i].shape[axis]) return false;
  return true;
}

void check(const CompileOptions& o) {
  if (o.micro_batch < 0)
    throw Error(
        fmt::format("compile: .micro_batch is {}; expected 0 (the planner's choice) or more", o.micro_batch));
  if (o.micro_batch > 0 && !o.split)
    throw Error(fmt::format("compile: .micro_batch is {}, but .split = false keeps the batch whole; leave "
                            "one of them out",
                            o.micro_batch));
  if (o.allow == Allow::same_bits && o.approximate.activations != DType::f32)
    throw Error(fmt::format("compile: .approximate stores activations in {}, which .allow = "
                            "same_bits forbids; leave one of them out",
                            name(o.approximate.activations)));
  if (o.allow == Allow::same_bits && o.independent_micro_batches)
    throw Error("compile: .independent_micro_batches makes another function of the step, which .allow = same_bits "
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

// Checked, and without what does nothing here: a file in memory is no place to spill to.
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
  const std::uint64_t asked = options.memory.bytes, there = Budget::now();
  const std::uint64_t budget = asked && there ? std::min(asked, there) : asked + there;
  const std::uint64_t now = process::resident();
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

// Whenever it is traced, layers act as they did when it was compiled, and bad losses are as it says.
trace::Function as_compiled(trace::Function fn, std::optional<BadLoss> bad) {
  return [fn = std::move(fn), bad, training = nn::training()](std::span<const Tensor> inputs) {
    const nn::Evaluation mode(!training);
    const optim::BadLossScope scope(bad);
    return fn(inputs);
  };
}

}  // namespace

std::vector<Tensor> to_tensors(const Loss& result) {
  result.check("compile");
  return {result.sum, result.count};
}
std::vector<Tensor> to_tensors(const std::vector<Loss>& result) {
  std::vector<Tensor> all;
  for (const Loss& loss : result)
    for (Tensor& t : to_tensors(loss)) all.push_back(std::move(t));
  return all;
}
std::vector<Tensor> to_tensors(const Tensor& result) { return {result}; }

std::vector<plan::FrontierPoint> frontier(const BatchSpec& spec, const CompileOptions& options, OnBatch fn) {
  return Compiled::frontier(spec.values(), options, on_tensors(spec.shared_names(), std::move(fn)),
                            spec.dealing_bytes());
}

// A function, as the planning of all sees it, before there is a plan.
class Compiled::State final : public Function {
 public:
  State(std::shared_ptr<const Names> names, std::vector<Spec> inputs, CompileOptions options,
        trace::Function fn, std::uint64_t dealing)
      : names(std::move(names)),
        options(settled(std::move(options))),
        fn(as_compiled(std::move(fn), this->options.bad_loss)),
        first(std::move(inputs)),
        machine(machine_for(this->options)) {
    if (this->options.memory.automatic) {
      const process::Available available = process::available();
      // Nothing left is a budget, too: one that is refused.
      this->options.memory.bytes =
          std::max<std::uint64_t>(1, available.bytes - available.bytes / 20);
      source = available.source + ", less 5%";
    }
    const memory::Planning plans;
    // Measured once the machine is known (earlier, it was too little for some programs), and before
    // anything is planned.
    runtime::reserve();
    budget = Budget(ByteSize{this->options.memory.bytes});
    const std::int64_t examples = std::max<std::int64_t>(1, examples_of(first));
    const trace::Trace whole =
        traces_of(this->fn, first, examples)(examples, trace::MicroBatch::whole);
    calls = whole.calls.size();
    for (const trace::Call& call : whole.calls) ops.insert(&call.op.type());
    variables = whole.variables;
    data = dealing;
  }

  // Batches that the program makes itself are tensors of its own.
  void make_room() {
    if (data == 0) room = std::make_unique<memory::Room>(charge_of(first));
  }

  std::vector<Need> needs() const override {
    std::vector<Need> all;
    for (const Entry& e : entries)
      if (!e.within) all.push_back(e.need);
    return all;
  }
  Need least() const override {
    if (!smallest_last) return smallest;
    Need both = smallest;  // each in its turn, with the files of both
    both.held += smallest_last->held;
    both.bytes = both.held + std::max(smallest.bytes - smallest.held,
                                      smallest_last->bytes - smallest_last->held);
    std::erase_if(both.spilled, [&](const Variable& v) {
      const std::vector<Variable>& last = smallest_last->spilled;
      return std::find(last.begin(), last.end(), v) == last.end();
    });
    return both;
  }
  void forget_plans() override {
    for (const Entry& e : entries) torn |= e.executor && e.executor->torn();
    entries.clear();
  }
  void room_has_changed() override {
    const Functions& all = Functions::all();
    for (Entry& e : entries) e.executor->set_most_arena(all.most_arena(*this, e.need));
  }
  void plan_anew(bool small) override {
    forget_plans();
    add_with_last(first, small);
  }

  // The plan for these inputs, where there is one; null where it has to be made.
  Executor* known(std::span<const Tensor> inputs) {
    const int threads = pool::threads();
    const auto is_for = [&](const Entry& e) {
      return e.threads == threads &&
             std::equal(inputs.begin(), inputs.end(), e.inputs.begin(), e.inputs.end(),
                        [](const Tensor& t, const Spec& s) { return t.spec() == s; });
    };
    for (auto e = entries.begin(); e != entries.end(); ++e)
      if (is_for(*e)) {
        if (e != entries.begin()) entries.splice(entries.begin(), entries, e);
        return e->executor.get();
      }
    return nullptr;
  }

  // A plan for inputs that none is known for.
  void make_for(const std::vector<Spec>& inputs) {
    const Planning planning;
    if (entries.empty() && inputs != first && no_larger(inputs, first)) make(first);
    for (Entry& e : entries)
      if (!e.within && e.threads == pool::threads() && no_larger(inputs, e.inputs)) {
        if (derive(e, inputs) || plan_beside(e, inputs)) return;
        break;
      }
    make(inputs);
  }

  // As it was compiled for, but for the sizes of axes.
  std::vector<Spec> specs_of(std::span<const Tensor> inputs) const {
    if (inputs.size() != first.size())
      throw Error(fmt::format("compiled step: {} inputs were given, expected {}", inputs.size(),
                              first.size()));
    std::vector<Spec> specs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Spec& spec = inputs[i].spec();
      if (spec.dtype != first[i].dtype || spec.rank() != first[i].rank())
        throw Error(fmt::format("compiled step: input {} is {}, it was compiled for {}",
                                names ? (*names)[i] : std::to_string(i), to_string(spec),
                                to_string(first[i])));
      specs.push_back(spec);
    }
    return specs;
  }

  void make(const std::vector<Spec>& inputs) {
    Functions& all = Functions::all();
    const Planning planning;
    keep_plans(1);
    const auto planned = [&] { all.make(*this, [&](bool small) { add_with_last(inputs, small); }); };
    try {
      planned();
    } catch (const NoRoomOnDisk&) {  // files of plans for other shapes take some of it
      if (entries.empty()) throw;
      forget_plans();
      planned();
    }
  }

  // Of the shape seen last. It stays until it is asked for again, also where it is planned anew.
  const plan::Plan& plan_seen_last() {
    for (;;) {
      {
        const Running looks;
        if (!entries.empty()) {
          shown = entries.front().executor->shared_plan();
          return *shown;
        }
      }
      make(first);  // others had to be planned anew
    }
  }

  std::vector<plan::FrontierPoint> frontier() {
    const memory::Planning planning;
    const memory::Drawing draws(Functions::all().promise());
    const std::int64_t examples = std::max<std::int64_t>(1, examples_of(first));
    const trace::TraceBatch traces = traces_of(fn, first, examples);
    keep_plans(1);
    for (;;) {
      plan::Footprint footprint = Functions::all().footprint(*this);
      footprint.spill_memory = spill_memory;
      footprint.others += rounding();
      std::vector<plan::FrontierPoint> ways = plan::frontier(traces, examples, options, footprint, machine);
      if (!runtime::settle()) return ways;
    }
  }

  struct Entry {
    std::vector<Spec> inputs;
    std::unique_ptr<Executor> executor;
    int threads;  // it was planned for: kernels take as much scratch as there are threads
    Need need;
    const Executor* within = nullptr;  // the plan for a larger shape in whose promise it runs
  };

  std::shared_ptr<const Names> names;
  CompileOptions options;
  trace::Function fn;
  std::vector<Spec> first;     // inputs it was made for
  std::int64_t last_rows = 0;  // of the last batch of an epoch, where that is known to be smaller
  plan::Machine machine;
  std::string source;
  std::list<Entry> entries;  // used last first
  std::shared_ptr<const plan::Plan> shown;
  std::vector<Tensor> results;
  bool torn = false;  // a plan that is gone has left a mixture

 private:
  // The heap that plans take, this many of them more than there are.
  void keep_plans(std::size_t more) {
    std::size_t kept = more;
    for (const Entry& e : entries) kept += !e.within;
    // And one that is made from them, and one that the program looks at.
    const bool looks = shown && shown.use_count() == 1;
    plans.set((kept + 1 + looks) * (kPlan + calls * kPlanOfACall));
  }

  bool derive(const Entry& from, const std::vector<Spec>& inputs) {
    const memory::Planning planning;
    const memory::Drawing draws(Functions::all().promise());
    const std::int64_t examples = std::max<std::int64_t>(1, examples_of(inputs));
    // Under a budget no more of them than there is heap set aside for.
    if (Budget::now())
      entries.remove_if([&](const Entry& e) { return e.within; });
    std::optional<plan::Plan> plan = plan::smaller(
        from.executor->plan(), traces_of(fn, inputs, examples), examples, options, machine);
    if (!plan) return false;
    entries.push_front({inputs, std::make_unique<Executor>(std::move(*plan), *from.executor),
                        from.threads, from.need, from.executor.get()});
    shed();
    runtime::drop_code();
    return true;
  }

  // For a smaller shape, of which the function does something else: a plan of its own, within what was
  // promised to the larger one. False where there is none.
  bool plan_beside(const Entry& larger, const std::vector<Spec>& inputs) {
    const memory::Planning planning;
    if (Budget::now()) Functions::all().arenas().clear_idle();
    try {
      add(inputs, false, &larger);
    } catch (const BudgetTooSmall&) {
      return false;
    }
    runtime::drop_code();
    return true;
  }

  // A variable takes whole pages, or a block of its size; so do the arena and results.
  std::uint64_t rounding() const {
    std::uint64_t bytes = 4 * plan::kPage;
    for (const Variable& v : variables)
      bytes += v.charge() - std::min(v.charge(), memory::aligned(v.spec().bytes()));
    return bytes;
  }

  // A plan that goes takes those with it that run in its promise.
  void shed() {
    while (entries.size() > static_cast<std::size_t>(std::max(1, options.plans))) {
      auto oldest = std::prev(entries.end());
      if (oldest->executor.get() == entries.front().within) --oldest;  // the newest runs in that
      if (oldest == entries.begin()) return;
      const Executor* const gone = oldest->executor.get();
      entries.remove_if([&](const Entry& e) { return e.within == gone; });
      entries.erase(oldest);
    }
  }

  // Where it is for the first shape, also one for the last batch of an epoch, if that is smaller.
  void add_with_last(const std::vector<Spec>& inputs, bool small) {
    add(inputs, small);
    if (inputs != first || last_rows <= 0 || examples_of(first) <= last_rows) return;
    if (options.plans < 2) return;
    const std::vector<Spec> last = with_rows(first, last_rows);
    if (!derive(entries.front(), last) &&
        (Budget::now() == 0 || !plan_beside(entries.front(), last))) {
      keep_plans(1);
      add(last, small);
    }
    entries.splice(entries.begin(), entries, std::next(entries.begin()));
  }

  // A plan for these inputs within what all others leave, or the smallest there is; or within what was
  // promised to another one.
  void add(const std::vector<Spec>& inputs, bool small, const Entry* larger = nullptr) {
    Functions& all = Functions::all();
    const std::int64_t examples = std::max<std::int64_t>(1, examples_of(inputs));
    const trace::TraceBatch traces = traces_of(fn, inputs, examples);
    CompileOptions o = options;
    const memory::Drawing draws(all.promise());  // constants that plans hold
    const std::uint64_t drawn = all.promise().drawn();
    plan::Plan plan;
    plan::Footprint footprint;
    std::uint64_t common = 0;
    std::string refusal;  // of the disk; then there may be a way without a file
    for (;;) {
      footprint = all.footprint(*this);
      footprint.spill_memory = spill_memory;
      common = footprint.reserve + footprint.batches + footprint.others;
      footprint.others += rounding();
      if (data == 0) {  // a batch that the program makes itself, larger than the first or not
        const std::uint64_t counted = std::min(charge_of(first), footprint.others);
        footprint.others -= counted;
        footprint.batches += std::max(charge_of(inputs), counted);
      }
      o.memory.bytes = Budget::now();
      const Need* const least = inputs == first ? &smallest
                                : smallest_last ? &*smallest_last
                                                : nullptr;
      if (small && o.memory.bytes && least && least->bytes)
        o.memory.bytes = std::min(o.memory.bytes, common + least->bytes);
      if (larger && o.memory.bytes) {
        const Need& promised = larger->need;
        o.memory.bytes = std::min(o.memory.bytes, common + promised.bytes - promised.held);
        o.spill = false;
      }
      try {
        plan = plan::make_plan(traces, examples, o, footprint, machine);
      } catch (const plan::Refused& e) {
        note_least(inputs, larger, e.smallest, common, charge_of(e.result_specs));
        if (refusal.empty()) throw;
        throw NoRoomOnDisk(fmt::format("{}: without the file the smallest budget is {} ({} bytes)",
                                       refusal, plan::enough(e.minimum), e.minimum));
      }
      const bool more = has_choices(options) && runtime::settle();
      const Spilled spilled(plan);
      const std::uint64_t spill = spilled.memory();
      plan.forecast.spilled = spilled.disk();
      if (const std::string line =
              no_room(plan.forecast.spilled, spill_directory(options.spill_directory));
          !line.empty()) {
        refusal = line;
        o.spill = false;
      } else if (spill > spill_memory) {
        spill_memory = (spill + kMiB / 2 - 1) / (kMiB / 2) * (kMiB / 2);
      } else if (more && Budget::now() == 0) {  // nothing was chosen by it
        plan::add_to_reserve(plan, runtime::reserve() - footprint.reserve);
        common += runtime::reserve() - footprint.reserve;
        break;
      } else if (!more) {
        if (spill) {
          plan.forecast.process -= spill_memory - spill;
          plan.forecast.at_peak[static_cast<int>(Category::workspace)] -= spill_memory - spill;
        }
        break;
      }
    }
    const std::uint64_t constants = all.promise().drawn() - std::min(drawn, all.promise().drawn());
    const bool spills = Spilled(plan).any;
    const std::uint64_t held = constants + charge_of(plan.result_specs);
    Need need{plan.chosen.budget - common, held + (spills ? spill_memory : 0), plan.arena,
              plan::spilled_variables(plan.programs)};
    note_least(inputs, larger, {plan.minimum, plan.minimum_spills, plan.minimum_uses_file}, common,
               held);
    need.held = std::min(need.held, need.bytes);
    const std::uint64_t runs_with = runtime::likely() + (spills ? kSpillCode : 0);
    plan.forecast.process += runs_with - plan.forecast.runtime;
    plan.forecast.runtime = runs_with;
    plan.source = source;
    entries.push_front({inputs, nullptr, pool::threads(), std::move(need),
                       larger ? larger->executor.get() : nullptr});
    try {
      entries.front().executor =
          std::make_unique<Executor>(std::move(plan), options, all.arenas());
    } catch (...) {
      entries.pop_front();
      throw;
    }
    shed();
  }

  // The smallest plan for these inputs, be it taken or not.
  void note_least(const std::vector<Spec>& inputs, const Entry* larger, const plan::Smallest& plan,
                  std::uint64_t common, std::uint64_t held) {
    Need least{plan.budget - common, held + (plan.uses_file ? spill_memory : 0), 0, plan.spills};
    least.held = std::min(least.held, least.bytes);
    if (inputs == first) {
      smallest = std::move(least);
    } else if (!larger && last_rows > 0 && inputs == with_rows(first, last_rows)) {
      smallest_last = std::move(least);
    }
  }

  Budget budget;
  runtime::Plans plans;
  std::unique_ptr<memory::Room> room;  // for the batch at hand
  std::size_t calls = 0;
  Need smallest;
  std::optional<Need> smallest_last;  // of the last batch of an epoch, where it has a plan of its own
  std::uint64_t spill_memory = kMiB;
};

std::vector<plan::FrontierPoint> Compiled::frontier(std::vector<Spec> inputs, CompileOptions options,
                                          trace::Function fn, std::uint64_t dealing) {
  Functions& all = Functions::all();
  const Planning planning;
  options.memory = {};
  State state(nullptr, std::move(inputs), std::move(options), std::move(fn), dealing);
  try {
    all.add(state);
    state.make_room();
    std::vector<plan::FrontierPoint> ways = state.frontier();
    all.remove(state);
    return ways;
  } catch (...) {
    all.remove(state);
    throw;
  }
}

Compiled::Compiled(std::shared_ptr<const Names> names, std::vector<Spec> inputs,
                   CompileOptions options, trace::Function fn, std::uint64_t dealing,
                   std::int64_t last_rows) {
  Functions& all = Functions::all();
  const Planning planning;
  state_ = std::make_unique<State>(std::move(names), std::move(inputs), std::move(options),
                                   std::move(fn), dealing);
  try {
    all.add(*state_);
    state_->make_room();  // when variables have been told from what is the program's own
    state_->last_rows = last_rows;
    state_->make(state_->first);
  } catch (...) {
    all.remove(*state_);
    throw;
  }
  state_->entries.front().executor->set_minimum(all.minimum());
}

Compiled::Compiled(const BatchSpec& spec, CompileOptions options, OnBatch fn)
    : Compiled(spec.shared_names(), spec.values(), std::move(options),
               on_tensors(spec.shared_names(), std::move(fn)), spec.dealing_bytes(),
               spec.last_rows()) {}

Compiled::~Compiled() {
  if (state_) Functions::all().remove(*state_);
}
Compiled::Compiled(Compiled&&) noexcept = default;
Compiled& Compiled::operator=(Compiled&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

// f(executor), with the plan for these inputs, made where there is none yet.
template <class F>
void Compiled::with_plan(std::span<const Tensor> inputs, F&& f) {
  State& s = *state_;
  for (const Tensor& t : inputs) t.check_known();
  for (;;) {
    {
      const Running runs;
      if (s.torn) throw Error(kTorn);
      for (const State::Entry& e : s.entries)  // no other shape goes on from a mixture
        if (e.executor->torn()) throw Error(kTorn);
      if (Executor* const executor = s.known(inputs)) return f(*executor);
    }
    s.make_for(s.specs_of(inputs));
  }
}

const std::vector<Tensor>& Compiled::run(const Batch& batch) {
  const Names& names = *state_->names;
  if (batch.names() == names) return run(batch.values());
  std::vector<Tensor> inputs;  // in another order, or among others
  for (const std::string& name : names) inputs.push_back(batch[name]);
  return run(inputs);
}

const std::vector<Tensor>& Compiled::run(std::span<const Tensor> inputs) {
  with_plan(inputs, [&](Executor& e) { e.run(inputs, state_->results); });
  return state_->results;
}

void Compiled::run_into(std::span<const Tensor> inputs, std::span<std::byte* const> results) {
  with_plan(inputs, [&](Executor& e) { e.run(inputs, results); });
}

const plan::Plan& Compiled::plan() const { return state_->plan_seen_last(); }
const Executor& Compiled::executor() const {
  const Planning planning;
  if (state_->entries.empty()) state_->make(state_->first);  // others had to be planned anew
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

std::uint64_t smallest_budget() {
  const exec::Planning planning;
  return exec::Functions::all().minimum();
}

}  // namespace ebb
