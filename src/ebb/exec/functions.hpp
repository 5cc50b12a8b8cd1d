// All compiled functions of the process: they share one budget and one arena, and their plans are made
// to fit together. What was promised to one stays promised: a function that comes later, or a shape,
// is planned within what the others leave; where that is too little, they are planned anew with less,
// each down to the smallest plan it has.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "ebb/base/memory/promises.hpp"
#include "ebb/exec/arena.hpp"
#include "ebb/exec/other_ways.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb::exec {

// What a plan takes of the process beside what all share (runtime, data, the program's tensors).
struct MemoryNeed {
  std::uint64_t bytes = 0;  // while it runs: arena, its variables in memory, constants, results
  // Of these, what stays while others run: constants, results and the buffers of its spill file.
  std::uint64_t held = 0;
  std::uint64_t arena = 0;        // of these, what others use in their turn
  std::vector<Variable> spilled;  // variables that are in the file
};

// A compiled function, as the others see it.
class CompiledFunction {
 public:
  virtual ~CompiledFunction() = default;
  virtual std::vector<MemoryNeed> needs() const = 0;  // of the plans it has
  virtual MemoryNeed smallest() const = 0;            // of the smallest plan it could have
  // For the shape it was made for: as fast as the budget allows, or as small as can be. Throws
  // BudgetTooSmall.
  virtual void plan_anew(bool smallest) = 0;
  virtual void forget_plans() = 0;      // to be made when it runs next
  virtual void room_has_changed() = 0;  // what there is for the arena while its plans run

  std::vector<Variable> variables;   // that it reads or writes
  std::set<const ops::OpType*> ops;  // that it calls
  std::uint64_t data = 0;            // bytes that dealing out its batches takes
};

class Functions {
 public:
  static Functions& all();  // of the process

  void add(CompiledFunction& function);
  void remove(CompiledFunction& function) noexcept;

  // Kernels take scratch by the number of threads. Where that has changed, under a budget, nobody's plan
  // counts any more; all but this function's are made anew.
  void follow_threads(const CompiledFunction& function);

  // `plan` gives the function a plan more, as fast as there is room for or the smallest, and is called
  // again where others, or its own for other shapes, have made room for it. Throws BudgetTooSmall, and
  // then nobody has a plan: all are made when they are wanted next.
  void make(CompiledFunction& function, const std::function<void(bool smallest)>& plan);

  // Whether the plans they have fit the budget beside each other.
  bool fit() const;

  // What the process holds beside a plan of the function.
  plan::Footprint footprint(const CompiledFunction& function) const;
  // The smallest budget for all of them.
  std::uint64_t minimum() const;
  // No less than this, whatever they take. Gives back what was said before.
  std::uint64_t set_least(std::uint64_t bytes) { return std::exchange(least_, bytes); }
  // How else the program could hold its data. Gives back what was said before.
  OtherWays set_other_ways(OtherWays ways) { return std::exchange(other_ways_, std::move(ways)); }
  // The frontier of a plan, each point at the budget in which the program comes to it.
  std::vector<plan::FrontierPoint> by_ways(std::vector<plan::FrontierPoint> points) const;
  // The largest arena that is in memory while a plan with this need runs.
  std::uint64_t most_arena(const CompiledFunction& function, const MemoryNeed& need) const;

  Arenas& arenas() { return arenas_; }
  const memory::Promise& promise() const { return steps_; }

 private:
  Functions();
  // By all: the runtime, data, what the program holds, or would hold in another way.
  std::uint64_t shared(const OtherWay& way = {}) const;
  std::uint64_t least_shared() const;
  // Of others, while this one runs; of all, whichever runs. With the plans they have, or the smallest.
  std::uint64_t beside(const CompiledFunction& function, bool smallest) const;
  std::uint64_t need_of_all(bool smallest) const;
  bool replan_others(const CompiledFunction& function, bool smallest);
  void promise_needs();
  void take_back_variables();
  void declare();  // what all of them take together of data and code

  std::vector<CompiledFunction*> functions_;
  int threads_ = 0;  // that plans are made for
  std::uint64_t least_ = 0;
  OtherWays other_ways_;
  memory::Promise steps_;
  Arenas arenas_;
};

}  // namespace ebb::exec
