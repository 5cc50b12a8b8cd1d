// Plans of one compiled function, within what the process holds beside them.
//
// Planning is repeated until all is counted: a plan may show that its spill file needs more memory than was
// counted, that the disk has no room for it, or that planning itself has left more on the heap than was set
// aside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/exec/functions.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb::exec {

class NoRoomOnDisk : public Error {
 public:
  using Error::Error;
};

class FunctionPlanner {
 public:
  // `inputs`: the shapes it is compiled for; where the batch is divided among ranks, these are of the whole, as
  // all inputs below. `last_examples`: examples of the last batch of an epoch, where that is known to be smaller;
  // else 0. `function` is what others know of it, and outlives this.
  FunctionPlanner(const CompiledFunction& function, trace::Function fn, std::vector<Spec> inputs,
                  std::int64_t last_examples, CompileOptions options);

  struct Planned {
    plan::Plan plan;
    MemoryNeed need;
  };
  // As fast as there is room for, or the smallest there is; `within`: in what was promised to a larger
  // shape's plan. Throws BudgetTooSmall or NoRoomOnDisk.
  Planned plan(const std::vector<Spec>& inputs, bool smallest, const MemoryNeed* within = nullptr);
  // For a smaller shape, from the larger one's plan; nothing where the function does other calls for it.
  std::optional<plan::Plan> smaller(const plan::Plan& larger,
                                    const std::vector<Spec>& inputs) const;
  std::vector<plan::FrontierPoint> frontier();

  // Of the smallest plans: for the first shape and the last batch, each in its turn.
  MemoryNeed smallest() const;

  trace::Trace whole_trace() const;  // of the first shape
  const CompileOptions& options() const { return options_; }
  const data::Part& part() const { return part_; }
  const std::vector<Spec>& inputs() const { return first_; }
  // Of the inputs of a whole batch, what is here.
  std::vector<Spec> own(const std::vector<Spec>& inputs) const;
  // Of the last batch of an epoch, where it is smaller than the first.
  std::optional<std::vector<Spec>> last_inputs() const;

 private:
  // What is there while a plan for these inputs runs.
  struct ProcessMemory {
    plan::Footprint footprint;
    std::uint64_t beside = 0;  // bytes of it that are not this function's
  };
  ProcessMemory process_memory(const std::vector<Spec>& inputs) const;
  std::uint64_t budget_for(const std::vector<Spec>& inputs, bool smallest, const MemoryNeed* within,
                           std::uint64_t beside) const;
  bool all_counted(plan::Plan& plan, ProcessMemory& process, std::string& no_disk);
  Planned finished(plan::Plan plan, std::uint64_t beside, std::uint64_t held) const;
  void note_smallest(const std::vector<Spec>& inputs, bool is_within, const plan::Smallest& plan,
                     std::uint64_t beside, std::uint64_t results);
  trace::TraceBatch traces_of(const std::vector<Spec>& inputs) const;
  std::uint64_t rounding() const;

  const CompiledFunction& function_;
  CompileOptions options_;
  data::Part part_;  // of every batch, that is here
  trace::Function fn_;
  std::vector<Spec> first_;
  std::int64_t last_examples_;
  plan::Machine machine_;
  std::string budget_source_;
  std::uint64_t spill_memory_ = std::uint64_t{1} << 20;  // of a spill file, as far as is known
  MemoryNeed smallest_first_;
  std::optional<MemoryNeed> smallest_last_;  // where the last batch has a plan of its own
};

}  // namespace ebb::exec
