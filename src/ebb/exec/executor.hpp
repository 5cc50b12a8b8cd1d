// Runs a Plan: one arena, a fixed list of actions, all threads, no allocation after it is built.
//
// A step that fails leaves all variables as they were: what the function assigns waits for its end,
// and what lies in the spill file is written beside the old and switched. Where the plan updates a
// parameter inside the backward pass and something fails after that, the step is torn: the executor
// says so and refuses to go on, rather than train a mixture.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ebb/exec/arena.hpp"
#include "ebb/exec/store.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb::exec {

struct CallTime {
  std::string op, scope;
  double seconds = 0;  // a step, all its runs together
  std::uint64_t runs = 0;
  // The most that is live while it runs, by the plan: what the step was given, variables in memory
  // and its own scratch included.
  std::uint64_t live_bytes = 0;
};

// What a plan keeps in the spill file.
struct Spilled {
  std::vector<Variable> variables;
  std::vector<std::uint64_t> activations;  // bytes, per buffer of every program; 0: not spilled
  bool any = false;

  explicit Spilled(const plan::Plan& plan);
  std::uint64_t memory() const;  // what its file needs in memory
  std::uint64_t disk() const;    // what it takes of the disk
};

inline constexpr char kTorn[] =
    "compiled step: an earlier step failed after some parameters were updated; they are a mixture of two "
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
  using Places = std::span<std::byte* const>;  // one for each result, as large as it is
  void run(std::span<const Tensor> inputs, Places results);

  const plan::Plan& plan() const { return plan_; }
  std::shared_ptr<const plan::Plan> shared_plan() const { return shared_plan_; }
  void set_minimum(std::uint64_t bytes) { plan_.minimum = bytes; }  // of all functions together
  void set_most_arena(std::uint64_t bytes) { most_arena_ = bytes; }  // in memory while this runs
  bool torn() const { return torn_; }
  std::uint64_t steps() const { return steps_; }
  // Per op and scope, the longest first. Short steps are measured once in a while, so that it costs
  // under 1%; empty before the first that was.
  std::vector<CallTime> times() const;
  const Store* store() const { return file_ ? file_->store.get() : nullptr; }

 private:
  struct Pass;
  std::unique_ptr<Pass> prepare(std::size_t program);
  void patch(Pass& pass, std::span<const Tensor> inputs, const plan::Plan::Run& run,
             Places results);
  std::byte* place_of(const Pass& pass, const plan::Plan::Run& run, std::size_t result,
                      Places results) const;
  void run_actions(Pass& pass, bool timed);
  void find_variables();
  void own_variables();
  void collect(Pass& pass, const plan::Plan::Run& run, std::span<const Tensor> inputs,
               Places results);
  void assign(Pass& pass);
  void forget_times();
  void note_step();
  void open_store(const CompileOptions& options);

  std::shared_ptr<plan::Plan> shared_plan_;  // who looks at it may keep it longer
  plan::Plan& plan_;                         // the same
  Arenas& arenas_;
  Arena* arena_ = nullptr;        // the one it ran in last
  std::byte* base_ = nullptr;     // the arena's bytes that the passes' pointers were made for
  struct File {  // of all executors that use it: it lets its variables go when the last one ends
    std::shared_ptr<Store> store;
    ~File() { store->let_go(); }
  };
  std::shared_ptr<File> file_;
  Store* store_ = nullptr;  // its
  std::vector<std::unique_ptr<Pass>> passes_;
  std::vector<Variable> resident_;  // variables in memory, and where they were found last
  std::vector<std::byte*> resident_bytes_;
  std::vector<std::byte*> places_;  // of results
  std::vector<std::byte> before_;   // values written when a step begins, and the key
  std::int64_t* key_ = nullptr;
  bool torn_ = false, updating_ = false;
  std::uint64_t steps_ = 0, timed_steps_ = 0;
  double last_step_seconds_ = 0;
  static constexpr std::size_t kLastSteps = 9;
  std::array<double, kLastSteps> last_steps_{};
  std::uint64_t most_arena_ = plan::kOutside;  // that the budget has room for while this plan runs
};

}  // namespace ebb::exec
