#include "ebb/exec/executor.hpp"

#include <algorithm>
#include <cstring>

#include "ebb/base/memory/memory.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/base/timeline.hpp"
#include "ebb/exec/bound_program.hpp"
#include "ebb/exec/shared_step.hpp"
#include "ebb/exec/spill/planned_spill.hpp"

namespace ebb::exec {

using plan::Plan;

std::shared_ptr<Executor::SharedFile> Executor::open_file(const Plan& plan,
                                                          const CompileOptions& options) {
  const PlannedSpill planned(plan);
  if (!planned.any) return nullptr;
  auto variables = std::make_shared<SpilledVariables>(
      SpillOptions{.directory = options.spill_directory}, planned.variables, planned.activations);
  auto file = std::make_shared<SharedFile>(std::move(variables));
  file->variables->fill();
  return file;
}

Executor::Executor(std::shared_ptr<Plan> plan, Arenas& arenas, Arena* arena,
                   std::shared_ptr<SharedFile> file, Ranks* ranks)
    : shared_plan_(std::move(plan)),
      plan_(*shared_plan_),
      arenas_(arenas),
      arena_(arena),
      file_(std::move(file)),
      spilled_(file_ ? file_->variables.get() : nullptr),
      spill_file_(spilled_ ? &spilled_->file() : nullptr),
      ranks_(plan_.divided() ? ranks : nullptr),
      resident_(plan_, spilled_),
      values_(plan_) {}

Executor::Executor(Plan plan, const CompileOptions& options, Arenas& arenas)
    : Executor(std::make_shared<Plan>(std::move(plan)), options, arenas) {}

Executor::Executor(std::shared_ptr<Plan> plan, const CompileOptions& options, Arenas& arenas)
    : Executor(plan, arenas, nullptr, open_file(*plan, options), options.world) {}

Executor::Executor(Plan plan, const Executor& larger)
    : Executor(std::make_shared<Plan>(std::move(plan)), larger.arenas_, larger.arena_, larger.file_,
               larger.ranks_) {
  most_arena_ = larger.most_arena_;
}

Executor::~Executor() = default;

void Executor::bind(std::byte* arena) {
  programs_.clear();  // and stay so, if this fails
  chain_.reset();
  base_ = arena;
  std::vector<std::unique_ptr<BoundProgram>> bound;
  for (const plan::Program& p : plan_.programs)
    bound.push_back(std::make_unique<BoundProgram>(plan_, p, arena, values_, spilled_, resident_));
  if (ranks_) chain_ = std::make_unique<RankChain>(*ranks_, plan_, arena);
  programs_ = std::move(bound);
  resident_.forget_places();
  step_times_.forget_timed();
}

void Executor::own_variables() {
  resident_.own([&](plan::Id variable, std::byte* bytes) {
    for (const auto& program : programs_) program->patch(variable, bytes);
  });
}

// What the caller holds on to is his own, and there has to be room for it.
void Executor::take_results(std::vector<Tensor>& results) {
  results.resize(plan_.result_specs.size());
  places_.resize(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool held = results[i] && !results[i].unique();
    if (!results[i] || held || results[i].spec() != plan_.result_specs[i]) {
      if (!held) results[i] = {};
      const memory::Drawing draws(held ? nullptr : &arenas_.promise());
      Tensor next = Tensor::uninitialized(plan_.result_specs[i], "result", Category::data);
      if (held) {
        memory::draw(results[i].handle(), nullptr);
        memory::draw(next.handle(), &arenas_.promise());
      }
      results[i] = std::move(next);
    }
    places_[i] = results[i].bytes();
  }
}

// What belongs into the file goes there before the arena takes its place. Where another thread's step has
// taken what there is, it waits for that one, and begins again.
void Executor::take_memory(Arenas::Lease& lease, std::vector<Tensor>* results) {
  for (;;) {
    try {
      if (results) take_results(*results);
      const memory::Drawing draws(arenas_.promise());
      if (spilled_) spilled_->refresh({lease.arena().data(), lease.arena().size()});
      // Also a plan that holds nothing has a place for it.
      std::byte* const arena = lease.fit(std::max<std::uint64_t>(plan_.arena, 64), most_arena_);
      if (base_ != arena || programs_.empty()) bind(arena);
      return own_variables();
    } catch (const OutOfMemory&) {
      if (!lease.wait_for_another()) throw;
    }
  }
}

void Executor::run_micro_batch(const Plan::Run& run, std::span<const Tensor> inputs,
                               ResultPlaces results, random::State& draws, bool timed) {
  BoundProgram& bound = *programs_[static_cast<std::size_t>(run.program)];
  const timeline::Slice slice(run.examples ? "micro-batch" : "updates", timeline::Kind::part);
  const MicroBatch batch{plan_, bound.program, run, inputs, bound.example_bytes, results};
  bound.patch(batch);
  if (plan_.split()) {
    draws.row0 = plan_.part.begin(plan_.examples) + run.first;
    draws.rows = run.examples;
  }
  random::write_key(draws, values_.key());
  bound.actions.run(spill_file_, timed ? &bound.times : nullptr, updated_, chain_.get());
  bound.results.carry_sums();
  bound.results.copy(batch);
  // The last one's are assigned when nothing can fail any more.
  if (&run == &plan_.runs.back() || bound.results.assignments.empty()) return;
  updated_ = true;
  bound.results.assign(resident_);
}

void Executor::run_all(std::span<const Tensor> inputs, ResultPlaces results, bool timed) {
  updated_ = false;
  random::State draws = random::state();
  if (ranks_)
    run_divided(inputs, results, draws, timed);
  else
    for (const Plan::Run& run : plan_.runs) run_micro_batch(run, inputs, results, draws, timed);
  if (spill_file_) spill_file_->commit();
}

void Executor::run_divided(std::span<const Tensor> inputs, ResultPlaces results,
                           random::State& draws, bool timed) {
  shared_step(*ranks_, *chain_, plan_.runs,
              [&](const Plan::Run& run) { run_micro_batch(run, inputs, results, draws, timed); });
}

void Executor::run(std::span<const Tensor> inputs, std::vector<Tensor>& results) {
  step(inputs, &results, {});
}
void Executor::run(std::span<const Tensor> inputs, ResultPlaces places) {
  step(inputs, nullptr, places);
}

void Executor::step(std::span<const Tensor> inputs, std::vector<Tensor>* results,
                    ResultPlaces places) {
  if (torn_) throw Error(kTorn);
  timeline::step_begins();
  timeline::Slice slice("step", timeline::Kind::step);
  slice.event().step = timeline::step();
  Arenas::Lease lease(arenas_, arena_);
  arena_ = &lease.arena();
  if (ranks_) ranks_->step_begins();
  together(ranks_, kStepBegins, [&] {
    take_memory(lease, results);
    if (results) places = ResultPlaces(places_);
    values_.fill();
    if (plan_.carry_bytes) std::memset(base_, 0, plan_.carry_bytes);
  });

  const bool timed = step_times_.times_next();
  const double begin = seconds_now();
  try {
    run_all(inputs, places, timed);
  } catch (...) {
    undo(timed);
    throw;
  }
  programs_.back()->results.assign(resident_);
  for (const auto& done : plan_.programs.back().trace.after) done();
  step_times_.add(seconds_now() - begin, timed, plan_.forecast.measured);
  if (step_times_.steps() == 1) runtime::drop_code();  // what only a first step runs
}

void Executor::undo(bool timed) {
  try {
    if (spill_file_) spill_file_->rollback();
  } catch (const Error&) {
    torn_ = true;  // nobody knows what the file holds
  }
  torn_ |= updated_;
  if (!timed) return;
  for (const auto& program : programs_) program->times.forget();
  step_times_.forget_timed();
}

std::vector<CallTime> Executor::times() const {
  std::vector<const CallSeconds*> all;
  for (const auto& program : programs_) all.push_back(&program->times);
  return call_times(all, step_times_.timed_steps());
}

}  // namespace ebb::exec
