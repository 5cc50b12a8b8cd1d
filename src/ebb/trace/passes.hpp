// From Trace to Trace. Each pass is a pure function; none changes what a trace computes.
#pragma once

#include "ebb/trace/trace.hpp"

namespace ebb::trace {

Trace without_dead_code(const Trace& trace);  // calls that lead to no result
Trace without_repeats(const Trace& trace);    // equal calls of equal values become one
Trace without_covered(const Trace& trace);    // calls whose results another one gives as well

// What a part does that is not the last: no assignments, and of the results only those that `keep`
// names (rows of this part).
Trace part_only(const Trace& trace, const std::vector<bool>& keep);

// All of them. (Calls of constants alone were folded while tracing: they ran.)
Trace simplified(const Trace& trace);

}  // namespace ebb::trace
