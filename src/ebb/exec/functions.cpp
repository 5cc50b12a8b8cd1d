#include "ebb/exec/functions.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ebb/base/memory/budget.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/data/batch.hpp"
#include "ebb/exec/locks.hpp"

namespace ebb::exec {
namespace {

constexpr std::uint64_t kCodeOfAnOp = 32 << 10;  // and of its kernels, as the kernel maps it

bool contains(const std::vector<Variable>& list, const Variable& v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

// One that has no plan at the moment can do with its smallest.
std::vector<MemoryNeed> needs_of(const CompiledFunction& f, bool smallest) {
  std::vector<MemoryNeed> needs;
  if (!smallest) needs = f.needs();
  if (needs.empty()) needs.push_back(f.smallest());
  return needs;
}

// What the program holds beside Ebb, if that is much, belongs to the first line of a refusal.
BudgetTooSmall refusal(std::string line, std::uint64_t smallest) {
  if (const std::uint64_t beside = runtime::beside_ebb())
    line.insert(std::min(line.find('\n'), line.size()),
                fmt::format(" ({} of it for what the program holds beside Ebb's tensors now)",
                            to_string(ByteSize{beside})));
  return {line, smallest};
}

}  // namespace

Functions& Functions::all() {
  static Functions* const functions = new Functions;  // outlives every compiled function
  return *functions;
}

Functions::Functions() : steps_("compiled steps"), arenas_(steps_) {
  memory::set_lender({.begin =
                          [] {
                            lock_planning();
                            all().arenas_.clear_idle();
                            runtime::drop_code();
                          },
                      .end =
                          [] {
                            runtime::drop_code();  // of saving, before steps go on
                            unlock_planning();
                          }});
}

void Functions::add(CompiledFunction& function) {
  if (functions_.empty()) runtime::measure_anew();
  functions_.push_back(&function);
  for (Variable& v : function.variables) v.draw_from(&steps_);
  declare();
}

void Functions::remove(CompiledFunction& function) noexcept {
  const PlanLock alone;
  std::erase(functions_, &function);
  for (Variable& v : function.variables)  // are the program's own again
    if (std::none_of(functions_.begin(), functions_.end(),
                     [&](const CompiledFunction* f) { return contains(f->variables, v); }))
      v.draw_from(nullptr);
  declare();
  promise_needs();
  std::uint64_t most = 0;
  for (const CompiledFunction* f : functions_)
    for (const MemoryNeed& n : f->needs()) most = std::max(most, n.arena);
  arenas_.clear_idle(most);
}

void Functions::declare() {
  std::uint64_t bytes = 0;
  std::set<const ops::OpType*> ops;
  for (const CompiledFunction* f : functions_) {
    bytes += f->data;
    ops.insert(f->ops.begin(), f->ops.end());
  }
  data::promise().set(bytes);
  runtime::set_code_of_ops(ops.size() * kCodeOfAnOp);
}

// What others hold while this one runs: variables that no plan of theirs keeps in a file, and the
// buffers of those files.
std::uint64_t Functions::beside(const CompiledFunction& function, bool smallest) const {
  std::uint64_t bytes = 0;
  std::set<Variable> counted;
  for (const CompiledFunction* f : functions_) {
    if (f == &function) continue;
    const std::vector<MemoryNeed> needs = needs_of(*f, smallest);
    for (const MemoryNeed& n : needs) bytes += n.held;
    for (const Variable& v : f->variables) {
      if (contains(function.variables, v) || !counted.insert(v).second) continue;
      // In a file where every function that has it keeps it there.
      const bool away =
          std::all_of(functions_.begin(), functions_.end(), [&](const CompiledFunction* other) {
            if (!contains(other->variables, v)) return true;
            const std::vector<MemoryNeed> theirs = needs_of(*other, smallest);
            return std::all_of(theirs.begin(), theirs.end(),
                               [&](const MemoryNeed& n) { return contains(n.spilled, v); });
          });
      if (!away) bytes += v.charge();
    }
  }
  return bytes;
}

std::uint64_t Functions::need_of_all(bool smallest) const {
  std::uint64_t most = 0;
  for (const CompiledFunction* f : functions_) {
    const std::vector<MemoryNeed> needs = needs_of(*f, smallest);
    std::uint64_t held = 0;
    for (const MemoryNeed& n : needs) held += n.held;
    const std::uint64_t others = beside(*f, smallest);
    for (const MemoryNeed& n : needs) most = std::max(most, n.bytes - n.held + held + others);
  }
  return most;
}

// Not below the smallest budget that is named, though they may make room for each other in another way:
// what is accepted does not depend on the order in which they come.
bool Functions::fit() const {
  const std::uint64_t budget = Budget::now();
  return budget == 0 || (shared() + need_of_all(false) <= budget && budget >= minimum());
}

std::uint64_t Functions::minimum() const {
  return std::max(least_, least_shared() + need_of_all(true));
}

void Functions::promise_needs() { steps_.set(need_of_all(false)); }

std::uint64_t Functions::most_arena(const CompiledFunction& function,
                                    const MemoryNeed& need) const {
  if (Budget::now() == 0) return ~std::uint64_t{0};
  const std::uint64_t others = beside(function, false) + need.bytes - need.arena;
  const std::uint64_t there = shared(), left = Budget::now() > there ? Budget::now() - there : 0;
  const std::uint64_t all = std::max(steps_.bytes(), left);
  return all > others ? all - others : 0;
}

plan::Footprint Functions::footprint(const CompiledFunction& function) const {
  plan::Footprint a;
  a.reserve = a.runtime = runtime::reserve();
  a.batches = std::max(data::promise().bytes(), data::promise().drawn());
  a.others = shared() - a.reserve - a.batches + beside(function, false);
  for (const MemoryNeed& n : function.needs()) a.others += n.held;
  return a;
}

// What lies in the file of a plan that is gone, and no plan keeps in one: into memory, while there is no
// arena. Such a file holds buffers that nobody counts, and goes with the last variable.
void Functions::take_back_variables() {
  const memory::Drawing draws(steps_);
  for (const CompiledFunction* f : functions_)
    for (Variable v : f->variables) {
      const bool wanted_there =
          !v.backed() ||
          std::any_of(functions_.begin(), functions_.end(), [&](const CompiledFunction* other) {
            const std::vector<MemoryNeed> needs = needs_of(*other, false);
            return std::any_of(needs.begin(), needs.end(),
                               [&](const MemoryNeed& n) { return contains(n.spilled, v); });
          });
      if (!wanted_there) v.give_to(nullptr);
    }
}

// Those that no longer fit beside the function, or all of them as small as can be.
bool Functions::replan_others(const CompiledFunction& function, bool smallest) {
  const std::uint64_t budget = Budget::now();
  for (CompiledFunction* f : functions_) {
    if (f == &function) continue;
    std::uint64_t held = 0, most = 0;
    for (const MemoryNeed& n : f->needs()) held += n.held, most = std::max(most, n.bytes - n.held);
    if (!smallest && shared() + most + held + beside(*f, false) <= budget) continue;
    try {
      f->plan_anew(smallest);
    } catch (const BudgetTooSmall&) {
      return false;
    }
  }
  return true;
}

void Functions::follow_threads(const CompiledFunction& function) {
  const int before = std::exchange(threads_, pool::threads());
  if (before != threads_) runtime::set_threads(threads_);
  if (before == threads_ || Budget::now() == 0) return;
  const memory::Unguarded plans;
  for (CompiledFunction* f : functions_) f->forget_plans();
  for (CompiledFunction* f : functions_) {
    if (f == &function) continue;
    try {
      f->plan_anew(false);
    } catch (const BudgetTooSmall&) {  // what it can do with is known now
    }
  }
}

// Under a budget there are four attempts, each with less for somebody:
//   1. this one as fast as the others leave room for;
//   2. those that no longer fit beside it as fast as it leaves room for;
//   3. all others as small as they can be, without plans for other shapes, and this one within the rest;
//   4. this one as small as it can be, too. Where that does not fit, nothing does.
void Functions::make(CompiledFunction& function, const std::function<void(bool)>& plan) {
  const memory::Unguarded plans;
  const std::uint64_t budget = Budget::now();
  if (budget) {
    arenas_.clear_idle();  // planning takes memory, too
    runtime::measure_less();
  }
  const auto made = [&] {
    promise_needs();
    take_back_variables();
    for (CompiledFunction* f : functions_) f->room_has_changed();
    runtime::drop_code();
  };
  if (budget == 0) {
    plan(false);
    return made();
  }
  std::string why;
  std::uint64_t wanted = 0;
  const auto planned = [&](bool smallest) {
    try {
      plan(smallest);
      return true;
    } catch (const BudgetTooSmall& e) {
      why = e.what();
      wanted = e.minimum;
      return false;
    }
  };
  const bool alone = functions_.size() == 1 && functions_[0] == &function;
  const bool has_others = !alone || !function.needs().empty();  // plans, for other shapes
  const auto forget_all = [&] {
    for (CompiledFunction* f : functions_) f->forget_plans();
    runtime::measure_less();  // nor what they held
  };
  if (planned(false) && replan_others(function, false) && fit()) return made();
  for (const bool smallest : {false, true}) {
    if (!has_others || (alone && smallest)) break;
    forget_all();
    if (replan_others(function, true) && planned(smallest) && fit()) return made();
  }
  forget_all();
  promise_needs();
  const std::uint64_t smallest = minimum();
  // What it says of its own names the smallest budget too, where others were as small as they can be.
  if (!why.empty() && (wanted == smallest || (alone && !other_ways_.any())))
    throw refusal(why, wanted);
  throw refusal(
      fmt::format(
          "the budget of {} ({} bytes) is too small for {}: the smallest that does is {} ({} "
          "bytes)",
          to_string(ByteSize{budget}), budget,
          alone ? "all shapes of the compiled function"
                : fmt::format("{} compiled functions together", functions_.size()),
          plan::enough(smallest), smallest),
      smallest);
}

}  // namespace ebb::exec
