// Runs a Plan: one arena, a fixed list of actions, all threads. A step allocates nothing, but for results
// whose last ones the caller still holds.
//
//   plan + arena → addresses → actions, results   (bound_program.hpp; again only where the arena moves)
//   a step: take variables, fill step values, then for each micro-batch patch, run, carry, copy results
//
// A step that fails leaves all variables as they were: what the function assigns waits for its end,
// and what lies in the spill file is written beside the old and switched. Where the plan updates a
// parameter inside the backward pass and something fails after that, the step is torn: the executor
// says so and refuses to go on, rather than train a mixture.
//
// A step that is divided among ranks is made by all of them or by none: they agree before it begins, when the
// sums are known, and when it is done; what one of them fails with, all throw.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ebb/exec/arena.hpp"
#include "ebb/exec/call_times.hpp"
#include "ebb/exec/micro_batch.hpp"
#include "ebb/exec/rank_chain.hpp"
#include "ebb/exec/resident_variables.hpp"
#include "ebb/exec/spill/spilled_variables.hpp"
#include "ebb/exec/step_values.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb::exec {

struct BoundProgram;

inline constexpr char kTorn[] =
    "compiled step: an earlier step failed after some parameters were updated; they are a mixture "
    "of two "
    "steps. Load a checkpoint or assign all variables, then compile anew";

class Executor {
 public:
  Executor(plan::Plan plan, const CompileOptions& options, Arenas& arenas);
  // For a smaller shape, whose plan was made from that one's (plan/smaller.hpp): they share its file.
  Executor(plan::Plan plan, const Executor& larger);
  ~Executor();

  // One step. `inputs` as the trace was told; results as the function gave them. Large ones are
  // written where they go, not copied there.
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& results);
  void run(std::span<const Tensor> inputs, ResultPlaces places);

  const plan::Plan& plan() const { return plan_; }
  std::shared_ptr<const plan::Plan> shared_plan() const { return shared_plan_; }
  // Of all functions together, as the program's budgets go.
  void set_minimum(std::uint64_t bytes, std::vector<plan::FrontierPoint> frontier) {
    plan_.minimum = bytes;
    plan_.frontier = std::move(frontier);
  }
  void set_most_arena(std::uint64_t bytes) { most_arena_ = bytes; }  // in memory while this runs
  bool torn() const { return torn_; }
  std::uint64_t steps() const { return step_times_.steps(); }
  // Per op and scope, the longest first. Short steps are measured once in a while; empty before the
  // first that was.
  std::vector<CallTime> times() const;

 private:
  // Of all executors that use it: it lets its variables go when the last one ends.
  struct SharedFile {
    std::shared_ptr<SpilledVariables> variables;
    explicit SharedFile(std::shared_ptr<SpilledVariables> kept) : variables(std::move(kept)) {}
    ~SharedFile() { variables->let_go(); }
  };
  static std::shared_ptr<SharedFile> open_file(const plan::Plan& plan,
                                               const CompileOptions& options);
  Executor(std::shared_ptr<plan::Plan> plan, const CompileOptions& options, Arenas& arenas);
  Executor(std::shared_ptr<plan::Plan> plan, Arenas& arenas, Arena* arena,
           std::shared_ptr<SharedFile> file, Ranks* ranks);

  // What a step is made of.
  void bind(std::byte* arena);
  inline void own_variables();
  void take_results(std::vector<Tensor>& results);
  inline void take_memory(Arenas::Lease& lease, std::vector<Tensor>* results);
  // Results are the tensors, where there are some, else written to the places.
  void step(std::span<const Tensor> inputs, std::vector<Tensor>* results, ResultPlaces places);
  inline void run_micro_batch(const plan::Plan::Run& run, std::span<const Tensor> inputs,
                              ResultPlaces results, random::State& draws, bool timed);
  inline void run_all(std::span<const Tensor> inputs, ResultPlaces results, bool timed);
  void run_divided(std::span<const Tensor> inputs, ResultPlaces results, random::State& draws,
                   bool timed);
  void undo(bool timed);

  std::shared_ptr<plan::Plan> shared_plan_;  // who looks at it may keep it longer
  plan::Plan& plan_;                         // the same
  Arenas& arenas_;
  Arena* arena_;               // the one it ran in last
  std::byte* base_ = nullptr;  // its bytes, that the programs are bound to
  std::shared_ptr<SharedFile> file_;
  SpilledVariables* spilled_;  // its
  SpillFile* spill_file_;      // likewise
  Ranks* ranks_;               // that the step is divided among; null: it is not
  std::unique_ptr<RankChain> chain_;
  ResidentVariables resident_;
  StepValues values_;
  std::vector<std::unique_ptr<BoundProgram>> programs_;
  std::vector<std::byte*> places_;  // of results
  bool torn_ = false;
  bool updated_ = false;  // in the step at hand, a variable in memory
  StepTimes step_times_;
  std::uint64_t most_arena_ = plan::kOutside;  // that the budget has room for while this plan runs
};

}  // namespace ebb::exec
