// The last stage of the planner: what was chosen becomes a Plan, with a forecast of bytes and time.
#pragma once

#include "ebb/plan/candidates.hpp"
#include "ebb/plan/choose.hpp"

namespace ebb::plan {

// Adds to `plan`, which has its budget and results.
Plan assembled(const Problem& problem, const Candidates& candidates, Choice choice, Plan plan);

}  // namespace ebb::plan
