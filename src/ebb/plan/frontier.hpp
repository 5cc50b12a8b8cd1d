// Time over budget, of all candidates together: what a plan prints, and what a refusal offers.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/plan/candidates.hpp"
#include "ebb/plan/choose.hpp"

namespace ebb::plan {

FrontierPoint point_of(const Problem& problem, const Candidate& c, std::uint64_t budget,
                       const Sample& sample);

// As far as loads tell, which packing exceeds a little. Budgets below `minimum` are given as that.
std::vector<FrontierPoint> frontier_of(const Problem& problem, const Candidates& candidates,
                                       std::uint64_t minimum);

// Each point packed, from the smallest on.
std::vector<FrontierPoint> packed_frontier(const Problem& problem, Candidates& candidates,
                                           const SmallestCandidate& smallest);

// Throws what `plan`, whose budget is too small, has to say: its minimum and frontier; and what
// rounding would save, where that was not allowed.
[[noreturn]] void refuse(const Problem& problem, const Candidate& smallest, const Plan& plan);

}  // namespace ebb::plan
