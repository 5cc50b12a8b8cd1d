// All compiled functions of the process: they share one budget and one arena, and their plans are made
// to fit together. What was promised to one stays promised: a function that comes later, or a shape,
// is planned within what the others leave; where that is too little, they are planned anew with less,
// each down to the smallest plan it has.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "ebb/base/budget.hpp"
#include "ebb/base/memory.hpp"
#include "ebb/exec/arena.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb::exec {

// What a plan takes of the process beside what all share (runtime, data, the program's tensors).
struct MemoryNeed {
  std::uint64_t bytes = 0;        // while it runs: arena, its variables in memory, results
  std::uint64_t held = 0;         // of these, what stays while others run: buffers of its spill file
  std::uint64_t arena = 0;        // of these, likewise not
  std::vector<Variable> spilled;  // variables that are in the file
};

// A compiled function, as the others see it.
class Function {
 public:
  virtual ~Function() = default;
  virtual std::vector<MemoryNeed> needs() const = 0;  // of the plans it has
  virtual MemoryNeed smallest() const = 0;               // of the smallest plan it could have
  // For the shape it was made for: as fast as the budget allows, or as small as can be. Throws
  // BudgetTooSmall.
  virtual void plan_anew(bool smallest) = 0;
  virtual void forget_plans() = 0;      // to be made when it runs next
  virtual void room_has_changed() = 0;  // what there is for the arena while its plans run

  std::vector<Variable> variables;      // that it reads or writes
  std::set<const ops::OpType*> ops;     // that it calls
  std::uint64_t data = 0;           // bytes that dealing out its batches takes
};

// Whoever plans has the functions to himself: steps that run end first, and none begins until he is done.
// So a plan is never made anew while it runs, and planning takes its memory while no arena is in use.
class Planning {
 public:
  Planning();
  ~Planning();
  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;
};

// Held while a step runs, or a plan is looked at; not while one is made, but by who makes it.
class Running {
 public:
  Running();
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  bool counted_;
};

class Functions {
 public:
  static Functions& all();  // of the process

  void add(Function& function);
  void remove(Function& function) noexcept;

  // `plan` gives the function a plan more, as fast as there is room for or the smallest, and is called
  // again where others, or its own for other shapes, have made room for it. Throws BudgetTooSmall, and
  // then nobody has a plan: all are made when they are wanted next.
  void make(Function& function, const std::function<void(bool smallest)>& plan);

  // What stands around a plan of the function, and how much of that is shared or others'.
  plan::Footprint footprint(const Function& function) const;
  std::uint64_t beside(const Function& function, bool smallest) const;
  // The smallest budget for all of them.
  std::uint64_t minimum() const;
  // The largest arena that is in memory while a plan with this need runs.
  std::uint64_t most_arena(const Function& function, const MemoryNeed& need) const;

  Arenas& arenas() { return arenas_; }
  const memory::Promise& promise() const { return steps_; }

 private:
  friend class Planning;
  friend class Running;
  Functions();
  std::uint64_t shared() const;  // by all: the runtime, data, what the program holds
  std::uint64_t need_of_all(bool smallest) const;
  bool fit() const;
  bool replan_others(const Function& function, bool smallest);
  void promise_needs();
  void declare();  // what all of them take together of data and code

  std::recursive_mutex lock_;  // of who plans
  std::atomic<bool> planning_ = false;
  std::atomic<int> running_ = 0;
  std::vector<Function*> functions_;
  memory::Promise steps_;
  Arenas arenas_;
};

}  // namespace ebb::exec
