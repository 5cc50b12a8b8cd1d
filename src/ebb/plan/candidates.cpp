#include "ebb/plan/candidates.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "ebb/base/memory/memory.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/plan/limits.hpp"
#include "ebb/plan/schedules.hpp"
#include "ebb/trace/pipeline.hpp"

namespace ebb::plan {
namespace {

// f(i) for each; at once, where there is memory for that.
template <class F>
void each(const Problem& problem, std::size_t count, F&& f) {
  const auto some = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) f(i);
  };
  if (problem.at_once && count > 1) {
    pool::parallel_for(count, 1, some);
  } else {
    some(0, count);
  }
}

// Whether some gradient of the whole batch can be made in its update.
bool has_gradient_blocks(const Problem& problem) {
  const CompileOptions& options = problem.options;
  if (!options.gradient_blocks || problem.batch.divided() ||
      (problem.batch.may_split() && options.micro_batch > 0))
    return false;
  return !trace::rewritten(problem.batch.whole(), {.gradient_blocks = true, .fuse = false})
              .gradient_blocks.empty();
}

// How variables may lie in the file.
std::vector<Policy> spilled_state(const Problem& problem, DType stored) {
  std::vector<Policy> policies;
  const trace::Trace& whole = problem.batch.whole();
  if (!problem.options.spill || whole.variables.empty()) return policies;
  const bool streams = !lower(whole, problem.machine, true, true).streams.empty();
  // Fewer will do of those that round: a refusal has to be there in a second.
  if (!streams || !problem.rounds_beside(stored))
    policies.push_back({Spilling::state, false, stored});
  if (streams) policies.push_back({Spilling::streamed, false, stored});
  return policies;
}

// The whole batch and the smallest micro-batches tell the least memory: these with every policy.
void add_all(const Problem& problem, Candidates& candidates, bool gradient_blocks, DType stored) {
  const std::vector<Policy> kept = {{Spilling::none, false, stored}},
                            file = spilled_state(problem, stored);
  std::vector<Policy> every = kept;
  if (problem.options.spill) every.push_back({Spilling::activations, false, stored});
  every.insert(every.end(), file.begin(), file.end());
  std::vector<Policy> of_whole = every;
  if (gradient_blocks) {
    of_whole.push_back({Spilling::none, true, stored});
    if (!file.empty()) of_whole.push_back({file.back().spilling, true, stored});
  }
  std::vector<std::int64_t>& sizes = candidates.sizes;
  add(problem, candidates, sizes.front(), of_whole);
  while (sizes.size() > 1 && !add(problem, candidates, sizes.back(), every)) sizes.pop_back();
  for (std::size_t i = 1; i + 1 < sizes.size(); ++i)
    if (!problem.rounds_beside(stored) || i % 2 == 0) add(problem, candidates, sizes[i], kept);
}

double effort_of(const Problem& problem, const Candidate& c) {
  const double effort = !c.fine     ? kLimits.coarse_effort
                        : c.split() ? kLimits.fine_effort_split
                                    : kLimits.fine_effort;
  return effort * (problem.rounds_beside(c.policy.stored) ? kLimits.rounding_effort : 1);
}

std::uint64_t result_bytes(const MicroBatches& batch) {
  std::uint64_t bytes = 0;
  for (const Spec& spec : batch.result_specs()) bytes += memory::aligned(spec.bytes());
  return bytes;
}

Allow label_of(const SplitAnswer& split) {
  return !split.mixed.empty() ? Allow::approximate
         : split.same_bits    ? Allow::same_bits
                              : Allow::same_gradient;
}

}  // namespace

Candidates find_candidates(const Problem& problem, bool fine) {
  Candidates candidates;
  candidates.fine = fine;
  candidates.sizes = problem.batch.sizes(fine);
  const bool gradient_blocks = has_gradient_blocks(problem);
  // Where there is one candidate only, it is the one that matters.
  if (candidates.sizes.size() == 1 && !problem.options.spill && !gradient_blocks)
    candidates.fine = true;
  const Approximate& asked = problem.options.approximate;
  const bool rounds =
      asked.activations != DType::f32 &&
      problem.batch.traced(candidates.sizes.front(), asked.activations)->stored != DType::f32;
  if (!rounds || !asked.always) add_all(problem, candidates, gradient_blocks, DType::f32);
  if (rounds) add_all(problem, candidates, gradient_blocks, asked.activations);
  return candidates;
}

void add_spilled_state(const Problem& problem, Candidates& candidates, std::uint64_t budget) {
  const Approximate& asked = problem.options.approximate;
  const std::vector<Policy> file =
      spilled_state(problem, asked.always ? asked.activations : DType::f32);
  bool fits = file.empty();
  for (const Candidate& c : candidates.all)
    fits |= c.policy.spilling < Spilling::state && budget >= c.least_bytes();
  for (std::size_t i = 1; i + 1 < candidates.sizes.size() && !fits; ++i)
    add(problem, candidates, candidates.sizes[i], file);
}

bool add(const Problem& problem, Candidates& candidates, std::int64_t micro_batch,
         const std::vector<Policy>& policies) {
  const DType stored = policies.front().stored;
  const std::optional<Traced> traced = problem.batch.traced(micro_batch, stored);
  if (!traced) return false;
  if (traced->stored != stored && !problem.options.approximate.always) return true;  // as without
  std::vector<Candidate>& all = candidates.all;
  const std::size_t first = all.size();
  all.resize(first + policies.size());
  std::vector<Searched> only;  // a single one that is searched finely is wanted soon
  const bool keep = candidates.fine && policies.size() == 1;
  each(problem, policies.size(), [&](std::size_t i) {
    Policy policy = policies[i];
    policy.stored = traced->stored;
    all[first + i] =
        candidate_of(problem, *traced, policy, candidates.fine, keep ? &only : nullptr);
  });
  candidates.at_hand.clear();
  if (keep) candidates.at_hand.push_back({first, std::move(only)});
  return true;
}

Candidate candidate_of(const Problem& problem, const Traced& traced, Policy policy, bool fine,
                       std::vector<Searched>* found) {
  Candidate c;
  c.micro_batch = traced.micro_batch;
  c.count = traced.count;
  c.ranks = static_cast<int>(problem.batch.part().count);
  c.policy = policy;
  c.fine = fine;
  c.effort = effort_of(problem, c);
  std::vector<Searched> programs = schedules(problem, traced, policy, c.effort);
  if (c.split()) {
    c.label = label_of(problem.batch.split());
    c.carry = paged(programs.back().lowered.carry_bytes);
  }
  if (policy.stored != DType::f32) c.label = Allow::approximate;
  const Footprint& footprint = problem.footprint;
  c.given = footprint.batches + problem.other_bytes() + constants_of(programs) +
            result_bytes(problem.batch);
  c.fixed = footprint.reserve + c.given;
  if (policy.spilling != Spilling::none) c.fixed += footprint.spill_memory;
  if (policy.spilling < Spilling::state) c.fixed += programs.back().lowered.state_bytes;
  for (const Searched& s : programs) {
    c.programs.push_back(s.front->points());
    c.streamed.push_back(s.lowered.streamed_bytes);
  }
  c.gradient_blocks = programs.back().trace.gradient_blocks.size();
  if (found) *found = std::move(programs);
  return c;
}

void refine(const Problem& problem, Candidates& candidates, const std::vector<std::size_t>& which,
            const std::vector<std::uint64_t>& load) {
  candidates.at_hand.clear();
  std::vector<std::optional<Traced>> traced(which.size());
  std::vector<std::vector<Searched>> found(which.size());
  const auto trace = [&](std::size_t k) {
    const Candidate& c = candidates.all[which[k]];
    traced[k] = problem.batch.traced(c.micro_batch, c.policy.stored);
  };
  if (problem.at_once)  // the function is called by one thread
    for (std::size_t k = 0; k < which.size(); ++k) trace(k);
  each(problem, which.size(), [&](std::size_t k) {
    if (!problem.at_once) {
      for (std::size_t done = 0; done < k; ++done) found[done].clear();
      trace(k);
    }
    Candidate& c = candidates.all[which[k]];
    Candidate finer = candidate_of(problem, *traced[k], c.policy, true, &found[k]);
    traced[k].reset();
    c.fine = true;
    const bool better = load[k] < c.least() ? finer.least() <= c.least()
                                            : finer.least() <= load[k] &&
                                                  finer.seconds(load[k]) <= c.seconds(load[k]);
    if (better) c = std::move(finer);
    if (!better) found[k].clear();
  });
  for (std::size_t k = 0; k < which.size(); ++k)
    if (!found[k].empty()) candidates.at_hand.push_back({which[k], std::move(found[k])});
}

const std::vector<Searched>& schedules_of(const Problem& problem, Candidates& candidates,
                                          std::size_t which) {
  for (const Candidates::AtHand& h : candidates.at_hand)
    if (h.of == which) return h.programs;
  const Candidate& c = candidates.all[which];
  candidates.at_hand.clear();
  const std::optional<Traced> traced = problem.batch.traced(c.micro_batch, c.policy.stored);
  candidates.at_hand.push_back({which, schedules(problem, *traced, c.policy, c.effort)});
  return candidates.at_hand.back().programs;
}

}  // namespace ebb::plan
