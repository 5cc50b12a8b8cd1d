// The traces of a step, made ready by a policy, lowered and searched: the frontier of the schedules
// of each.
#pragma once

#include <vector>

#include "ebb/plan/candidate.hpp"
#include "ebb/plan/pack/program.hpp"
#include "ebb/plan/problem.hpp"

namespace ebb::plan {

// In the form that is searched, but not searched yet.
// `blocks_of`: whose gradients are made in blocks, where the policy says so; null: where it is worth it.
Searched lowered(trace::Trace trace, Policy policy, bool fuse, const Machine& machine,
                 const std::vector<Variable>* blocks_of = nullptr);

SpillCost spill_cost(Spilling spilling, const Machine& machine);

// Pure, and safe on several threads at once; on several itself, where the problem allows that.
std::vector<Searched> schedules(const Problem& problem, const Traced& traced, Policy policy,
                                double effort);

}  // namespace ebb::plan
