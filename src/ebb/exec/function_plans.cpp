#include "ebb/exec/function_plans.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>

#include "ebb/base/pool.hpp"
#include "ebb/base/sha256.hpp"
#include "ebb/exec/input_specs.hpp"
#include "ebb/exec/locks.hpp"

namespace ebb::exec {
namespace {

// What a plan holds on the heap, for each call of the step, and beside them; making one of very many calls
// takes more for each.
constexpr std::uint64_t kPlanOfACall = 3 << 10, kPlanOfAFurtherCall = 9 << 9, kPlan = 32 << 10;
constexpr std::uint64_t kManyCalls = 500;

}  // namespace

FunctionPlans::FunctionPlans(std::shared_ptr<const Names> names, std::vector<Spec> inputs,
                             CompileOptions options, trace::Function fn, std::uint64_t dealing,
                             std::int64_t last_examples)
    : names_(std::move(names)),
      planner_(*this, std::move(fn), std::move(inputs), last_examples, std::move(options)) {
  const memory::Unguarded plans;
  // Measured once the machine is known (earlier, it was too little for some programs), and before
  // anything is planned.
  runtime::reserve();
  budget_ = Budget(ByteSize{planner_.options().memory.bytes});
  const trace::Trace whole = planner_.whole_trace();
  calls_ = whole.calls.size();
  for (const trace::Call& call : whole.calls) ops.insert(&call.op.type());
  variables = whole.variables;
  if (!part().whole()) {
    const std::string text = to_string(whole);
    Sha256 hash;
    hash.add(std::as_bytes(std::span(text)));
    fingerprint_ = fmt::format("{} calls, {}", calls_, hash.hex().substr(0, 16));
  }
  data = dealing;
}

void FunctionPlans::make_room() {
  const memory::Unguarded plans;  // what does not fit, the plan says
  if (data == 0) room_ = std::make_unique<memory::Room>(charge_of(planner_.own(planner_.inputs())));
}

Executor* FunctionPlans::find(std::span<const Tensor> inputs, std::int64_t whole_rows) {
  if (torn_) throw Error(kTorn);
  for (const Entry& e : entries_)
    if (e.executor->torn()) throw Error(kTorn);
  const int threads = pool::threads();
  const bool divided = !part().whole();
  const auto alike = [&](const Tensor& t, const Spec& s) {
    return divided ? s.shape[0] == whole_rows && t.spec() == s.with_axis(0, t.dim(0))
                   : t.spec() == s;
  };
  const auto is_for = [&](const Entry& e) {
    return e.threads == threads &&
           std::equal(inputs.begin(), inputs.end(), e.inputs.begin(), e.inputs.end(), alike);
  };
  const auto e = std::find_if(entries_.begin(), entries_.end(), is_for);
  if (e == entries_.end()) return nullptr;
  if (e != entries_.begin()) entries_.splice(entries_.begin(), entries_, e);
  return e->executor.get();
}

// As it was compiled for, but for the sizes of axes.
std::vector<Spec> FunctionPlans::checked_specs(std::span<const Tensor> inputs,
                                               std::int64_t whole_rows) const {
  const std::vector<Spec>& first = planner_.inputs();
  if (inputs.size() != first.size())
    throw Error(fmt::format("compiled step: {} inputs were given, expected {}", inputs.size(),
                            first.size()));
  std::vector<Spec> specs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Spec& spec = inputs[i].spec();
    if (spec.dtype != first[i].dtype || spec.rank() != first[i].rank())
      throw Error(fmt::format("compiled step: input {} is {}, it was compiled for {}",
                              names_ ? (*names_)[i] : std::to_string(i), to_string(spec),
                              to_string(first[i])));
    specs.push_back(part().whole() ? spec : spec.with_axis(0, whole_rows));
  }
  return specs;
}

void FunctionPlans::make_for(std::span<const Tensor> given, std::int64_t whole_rows) {
  const std::vector<Spec> inputs = checked_specs(given, whole_rows);
  const std::vector<Spec>& first = planner_.inputs();
  const PlanLock alone;
  Functions::all().follow_threads(*this);
  // A plan in whose promise one for these can run.
  const auto larger = [&] {
    return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
      return !e.within && e.threads == pool::threads() && no_larger(inputs, e.inputs);
    });
  };
  if (larger() == entries_.end() && inputs != first && no_larger(inputs, first)) make(first);
  if (const auto e = larger(); e != entries_.end()) {
    if (derive(*e, inputs)) return;
    if (plan_within(*e, inputs)) {
      if (Functions::all().fit()) return room_has_changed();
      entries_.pop_front();  // more heap was found than was set aside
    }
  }
  make(inputs);
}

void FunctionPlans::make(const std::vector<Spec>& inputs) {
  const PlanLock alone;
  Functions::all().follow_threads(*this);
  const auto planned = [&] {
    Functions::all().make(*this, [&](bool smallest) {
      count_heap(1);  // again where plans had to be forgotten
      add_with_last(inputs, smallest);
    });
  };
  try {
    planned();
  } catch (const NoRoomOnDisk&) {  // files of plans for other shapes take some of it
    if (entries_.empty()) throw;
    forget_plans();
    planned();
  }
}

// Where it is for the first shape, also one for the last batch of an epoch, if that is smaller.
void FunctionPlans::add_with_last(const std::vector<Spec>& inputs, bool smallest) {
  add(inputs, smallest);
  if (inputs != planner_.inputs() || planner_.options().plans < 2) return;
  const std::optional<std::vector<Spec>> last = planner_.last_inputs();
  if (!last) return;
  if (!derive(entries_.front(), *last) &&
      (Budget::now() == 0 || !plan_within(entries_.front(), *last))) {
    count_heap(1);
    add(*last, smallest);
  }
  entries_.splice(entries_.begin(), entries_, std::next(entries_.begin()));
}

// A plan within what all others leave, or the smallest there is; or within what was promised to another
// one.
void FunctionPlans::add(const std::vector<Spec>& inputs, bool smallest, const Entry* larger) {
  Functions& all = Functions::all();
  const memory::Drawing draws(all.promise());  // also the buffers of its spill file
  FunctionPlanner::Planned planned =
      planner_.plan(inputs, smallest, larger ? &larger->need : nullptr);
  entries_.push_front({inputs, nullptr, pool::threads(), std::move(planned.need),
                       larger ? larger->executor.get() : nullptr});
  try {
    entries_.front().executor =
        std::make_unique<Executor>(std::move(planned.plan), planner_.options(), all.arenas());
  } catch (...) {
    entries_.pop_front();
    throw;
  }
  shed();
}

// For a smaller shape, from the larger one's plan. False where the function does other calls for it.
bool FunctionPlans::derive(const Entry& larger, const std::vector<Spec>& inputs) {
  const memory::Unguarded plans;
  const memory::Drawing draws(Functions::all().promise());
  // Under a budget no more of them than there is heap set aside for.
  if (Budget::now()) entries_.remove_if([](const Entry& e) { return e.within; });
  std::optional<plan::Plan> plan = planner_.smaller(larger.executor->plan(), inputs);
  if (!plan) return false;
  entries_.push_front({inputs, std::make_unique<Executor>(std::move(*plan), *larger.executor),
                       larger.threads, larger.need, larger.executor.get()});
  shed();
  runtime::drop_code();
  return true;
}

// For a smaller shape, of which the function does something else: a plan of its own, within what was
// promised to the larger one. False where there is none.
bool FunctionPlans::plan_within(const Entry& larger, const std::vector<Spec>& inputs) {
  const memory::Unguarded plans;
  if (Budget::now()) Functions::all().arenas().clear_idle();
  try {
    add(inputs, false, &larger);
  } catch (const BudgetTooSmall&) {
    return false;
  }
  runtime::drop_code();
  return true;
}

// A plan that goes takes those with it that run in its promise.
void FunctionPlans::shed() {
  while (entries_.size() > static_cast<std::size_t>(std::max(1, planner_.options().plans))) {
    auto oldest = std::prev(entries_.end());
    if (oldest->executor.get() == entries_.front().within) --oldest;  // the newest runs in that
    if (oldest == entries_.begin()) return;
    const Executor* const gone = oldest->executor.get();
    entries_.remove_if([&](const Entry& e) { return e.within == gone; });
    entries_.erase(oldest);
  }
}

// The heap that plans take, this many of them more than there are.
void FunctionPlans::count_heap(std::size_t more) {
  std::size_t kept = more;
  for (const Entry& e : entries_) kept += !e.within;
  // And one that is made from them, and one that the program looks at.
  const bool looks = shown_ && shown_.use_count() == 1;
  const std::uint64_t some = std::min<std::uint64_t>(calls_, kManyCalls);
  heap_.set((kept + 1 + looks) *
            (kPlan + some * kPlanOfACall + (calls_ - some) * kPlanOfAFurtherCall));
}

const plan::Plan& FunctionPlans::plan_seen_last() {
  for (;;) {
    {
      const RunLock looks;
      if (!entries_.empty()) {
        shown_ = entries_.front().executor->shared_plan();
        return *shown_;
      }
    }
    make_first();  // others had to be planned anew
  }
}

Executor& FunctionPlans::executor_seen_last() {
  const PlanLock alone;
  if (entries_.empty()) make_first();  // others had to be planned anew
  return *entries_.front().executor;
}

std::vector<plan::FrontierPoint> FunctionPlans::frontier() {
  const memory::Unguarded plans;
  const memory::Drawing draws(Functions::all().promise());
  if (Budget::now()) Functions::all().arenas().clear_idle();
  count_heap(1);
  std::vector<plan::FrontierPoint> points = planner_.frontier();
  runtime::drop_code();
  return points;
}

std::vector<MemoryNeed> FunctionPlans::needs() const {
  std::vector<MemoryNeed> all;
  for (const Entry& e : entries_)
    if (!e.within) all.push_back(e.need);
  return all;
}

void FunctionPlans::plan_anew(bool smallest) {
  forget_plans();
  add_with_last(planner_.inputs(), smallest);
}

void FunctionPlans::forget_plans() {
  for (const Entry& e : entries_) torn_ |= e.executor && e.executor->torn();
  entries_.clear();
}

void FunctionPlans::room_has_changed() {
  const Functions& all = Functions::all();
  for (Entry& e : entries_) e.executor->set_most_arena(all.most_arena(*this, e.need));
}

}  // namespace ebb::exec
