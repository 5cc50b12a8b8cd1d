// The first stage of the planner: the candidates for a step. A candidate is the batch whole or in
// micro-batches of some size, with a policy for variables, activations and gradients; each has the
// frontier of its schedules, searched coarsely at first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ebb/plan/candidate.hpp"
#include "ebb/plan/pack/program.hpp"
#include "ebb/plan/problem.hpp"

namespace ebb::plan {

struct Candidates {
  std::vector<std::int64_t> sizes;  // of micro-batches, falling: those tried from the start
  std::vector<Candidate> all;       // the first is the simplest one: the whole batch, all in memory
  bool fine = false;                // all are searched finely, not only those that matter
  struct AtHand {
    std::size_t of;  // which candidate
    std::vector<Searched> programs;
  };
  std::vector<AtHand> at_hand;  // schedules that are likely to be wanted next
};

Candidates find_candidates(const Problem& problem, bool fine);

// Other sizes with variables in the file are of interest only where nothing else fits the budget.
// They come after the smallest budget is known, which does not depend on the one that is asked for.
void add_spilled_state(const Problem& problem, Candidates& candidates, std::uint64_t budget);

// False where the function does not take micro-batches of this size.
bool add(const Problem& problem, Candidates& candidates, std::int64_t micro_batch,
         const std::vector<Policy>& policies);

// Searches these finely; what that finds is taken where it is better at their load.
void refine(const Problem& problem, Candidates& candidates, const std::vector<std::size_t>& which,
            const std::vector<std::uint64_t>& load);

// The schedules of a candidate: those at hand, or searched again.
const std::vector<Searched>& schedules_of(const Problem& problem, Candidates& candidates,
                                          std::size_t which);

// One candidate; its schedules, where they are wanted.
Candidate candidate_of(const Problem& problem, const Traced& traced, Policy policy, bool fine,
                       std::vector<Searched>* found = nullptr);

}  // namespace ebb::plan
