// The plans of one compiled function, one for each shape of its inputs: the last few are kept, and share
// one arena.
//
// For a smaller shape, such as the last batch of an epoch, a plan is derived from a larger one's and runs
// in what was promised to that; where the function does something else for it, it is planned within that
// promise; else it is planned together with all other functions (functions.hpp).
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/memory/budget.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/data/batch.hpp"
#include "ebb/exec/executor.hpp"
#include "ebb/exec/function_planner.hpp"
#include "ebb/exec/functions.hpp"

namespace ebb::exec {

class FunctionPlans final : public CompiledFunction {
 public:
  // `dealing`: bytes that dealing out its batches takes; 0: the program makes them itself.
  FunctionPlans(std::shared_ptr<const Names> names, std::vector<Spec> inputs,
                CompileOptions options, trace::Function fn, std::uint64_t dealing,
                std::int64_t last_examples);

  // Batches that the program makes itself are tensors of its own. To be called when variables have been
  // told from what is the program's own.
  void make_room();

  // The plan for these inputs, where there is one; null where it has to be made. Throws where a step has
  // left a mixture: no other shape goes on from that.
  // `whole_rows`: of the batch that they are a part of, where that is divided among ranks.
  Executor* find(std::span<const Tensor> inputs, std::int64_t whole_rows);
  // For inputs that there is none for; checked against what it was compiled for.
  void make_for(std::span<const Tensor> inputs, std::int64_t whole_rows);
  void make_first() { make(planner_.inputs()); }  // for the shape it was compiled for

  // Of the shape seen last. It stays until it is asked for again, also where it is planned anew.
  const plan::Plan& plan_seen_last();
  Executor& executor_seen_last();
  std::vector<plan::FrontierPoint> frontier();

  const Names& names() const { return *names_; }
  const data::Part& part() const { return planner_.part(); }
  const std::string& fingerprint() const { return fingerprint_; }  // of what ranks share
  std::vector<Tensor> results;                                     // of the last step

  // As the others see it.
  std::vector<MemoryNeed> needs() const override;
  MemoryNeed smallest() const override { return planner_.smallest(); }
  void plan_anew(bool smallest) override;
  void forget_plans() override;
  void room_has_changed() override;

 private:
  struct Entry {
    std::vector<Spec> inputs;  // of the whole batch
    std::unique_ptr<Executor> executor;
    int threads;  // it was planned for: kernels take as much scratch as there are threads
    MemoryNeed need;
    const Executor* within = nullptr;  // the plan for a larger shape in whose promise it runs
  };

  std::vector<Spec> checked_specs(std::span<const Tensor> inputs, std::int64_t whole_rows) const;
  void make(const std::vector<Spec>& inputs);
  void add(const std::vector<Spec>& inputs, bool smallest, const Entry* larger = nullptr);
  void add_with_last(const std::vector<Spec>& inputs, bool smallest);
  bool derive(const Entry& larger, const std::vector<Spec>& inputs);
  bool plan_within(const Entry& larger, const std::vector<Spec>& inputs);
  void shed();
  void count_heap(std::size_t more);

  std::shared_ptr<const Names> names_;
  FunctionPlanner planner_;
  std::size_t calls_ = 0;  // of the whole step
  std::string fingerprint_;
  std::list<Entry> entries_;                 // used last first
  std::shared_ptr<const plan::Plan> shown_;  // that the program looks at
  bool torn_ = false;                        // a plan that is gone has left a mixture
  Budget budget_;
  runtime::Share heap_;
  std::unique_ptr<memory::Room> room_;  // for the batch at hand
};

}  // namespace ebb::exec
