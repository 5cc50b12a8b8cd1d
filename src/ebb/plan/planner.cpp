// Trace + budget → Plan, stage by stage: candidates, each with the frontier of its schedules; the
// smallest of them and the fastest that fits; what was chosen, assembled with its forecast.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "ebb/plan/assemble.hpp"
#include "ebb/plan/candidates.hpp"
#include "ebb/plan/choose.hpp"
#include "ebb/plan/frontier.hpp"
#include "ebb/plan/limits.hpp"

namespace ebb::plan {
namespace {

void check_options(const CompileOptions& options) {
  const DType stored = options.approximate.activations;
  if (stored != DType::f32 && !is_half(stored))
    throw Error(fmt::format("compile: activations cannot be stored in {}; expected bf16 or f16",
                            name(stored)));
}

// Whether the memory that the arena will take is enough for several searches at a time.
bool room_for_searches(const Problem& problem, std::uint64_t budget) {
  if (budget == 0) return true;
  const trace::Trace& whole = problem.batch.whole();
  std::uint64_t there =
      problem.footprint.reserve + problem.footprint.batches + problem.other_bytes();
  for (const Variable& v : whole.variables) there += v.spec().bytes();
  return budget >
         there + kLimits.refined_at_once * whole.calls.size() * kLimits.search_bytes_per_call;
}

}  // namespace

Plan make_plan(const trace::TraceBatch& trace_batch, std::int64_t examples,
               const CompileOptions& options, const Footprint& footprint, const Machine& machine) {
  check_options(options);
  const std::uint64_t budget = options.memory.bytes;
  const MicroBatches batch(trace_batch, examples, options);
  Problem problem{options, footprint, machine, batch};
  problem.at_once = room_for_searches(problem, budget);

  Candidates candidates = find_candidates(problem, false);
  const SmallestCandidate smallest = find_smallest(problem, candidates);
  const bool may_fit = budget == 0 || budget >= smallest.plan.budget;
  if (budget && may_fit) add_spilled_state(problem, candidates, budget);

  Plan plan;
  plan.examples = examples;
  plan.budget = budget;
  plan.part = batch.part();
  plan.rank_sums = batch.rank_sums();
  plan.result_specs = batch.result_specs();
  plan.minimum = smallest.plan.budget;
  plan.smallest = smallest.plan;

  std::optional<Choice> choice;
  if (may_fit) choice = choose(problem, candidates, budget ? budget : kOutside);
  plan.frontier = frontier_of(problem, candidates, plan.minimum);
  if (!choice) refuse(problem, candidates.all[smallest.candidate], plan);
  return assembled(problem, candidates, std::move(*choice), std::move(plan));
}

std::vector<FrontierPoint> frontier(const trace::TraceBatch& trace_batch, std::int64_t examples,
                                    const CompileOptions& options, const Footprint& footprint,
                                    const Machine& machine) {
  check_options(options);
  const MicroBatches batch(trace_batch, examples, options);
  const Problem problem{options, footprint, machine, batch};
  std::uint64_t least = 0;  // the smallest budget that make_plan takes
  {
    Candidates coarse = find_candidates(problem, false);
    least = find_smallest(problem, coarse).plan.budget;
  }
  Candidates candidates = find_candidates(problem, true);
  add_spilled_state(problem, candidates, 0);
  SmallestCandidate smallest = find_smallest(problem, candidates);
  smallest.plan.budget = std::max(smallest.plan.budget, least);
  return packed_frontier(problem, candidates, smallest);
}

void add_to_reserve(Plan& plan, std::uint64_t bytes) {
  plan.minimum += bytes;
  plan.smallest.budget += bytes;
  plan.chosen.budget += bytes;
  plan.forecast.reserve += bytes;
  for (FrontierPoint& p : plan.frontier) p.budget += bytes;
}

}  // namespace ebb::plan
