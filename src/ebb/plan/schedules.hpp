// The traces of a step, made ready by a policy, lowered and searched: the frontier of the schedules
// of each.
#pragma once

#include <vector>

#include "ebb/plan/candidate.hpp"
#include "ebb/plan/pack/program.hpp"
#include "ebb/plan/problem.hpp"
#include "ebb/trace/pipeline.hpp"

namespace ebb::plan {

// In the form that is searched, but not searched yet.
// `like`: rewritten as a larger batch was, in whose place it is to run.
Searched lowered(trace::Trace trace, Policy policy, bool fuse, const Machine& machine,
                 const trace::RewriteChoices* like = nullptr);

SpillCost spill_cost(Spilling spilling, const Machine& machine);

// Pure, and safe on several threads at once; on several itself, where the problem allows that.
std::vector<Searched> schedules(const Problem& problem, const Traced& traced, Policy policy,
                                double effort);

}  // namespace ebb::plan
