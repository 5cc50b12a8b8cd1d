// From the compact form of the search to a Schedule: steps, instances, totals.
#pragma once

#include "ebb/plan/search/replay.hpp"

namespace ebb::plan {

Schedule compose(const Ordered& graph, Extras extras);

}  // namespace ebb::plan
