// From Trace to Trace. Each pass is a pure function; none but the last two change what a trace
// computes. Which of them run, and in what order: pipeline.cpp.
#pragma once

#include "ebb/trace/trace.hpp"

namespace ebb::trace {

Trace without_dead_code(const Trace& trace);  // calls that lead to no result
Trace without_repeats(const Trace& trace);    // equal calls of equal values become one
Trace without_subsumed(const Trace& trace);   // calls whose results another one gives as well

// A sum over micro-batches, as `so far + sum of these examples`, becomes the call that sums, going
// on from what is so far (OpType::accumulating): one chain over the examples of all micro-batches.
Trace chained(const Trace& trace);

// Calls of constants alone run now, once, and their results become constants. Most of them ran
// while the function was traced; what is left makes more bytes than it reads, such as a broadcast.
// A constant is in memory from step to step, so these are folded up to 64 KiB a call; larger
// results stay calls, whose bytes the planner counts only where they are read.
Trace folded(const Trace& trace);

// What a micro-batch before the last does, which adds to the sums and does not update: of the
// results only those that `keep` names (made for each example), of the assignments only those that
// `assigns` names (made in every micro-batch).
Trace before_last(const Trace& trace, const std::vector<bool>& keep,
                  const std::vector<bool>& assigns);

// What is left when all sums over the examples are known: the updates, and results that are made of sums. It
// reads no example. `per_example`: the results that it does not give. It has all variables that `trace` has.
Trace after_sums(const Trace& trace, const std::vector<bool>& per_example);

// Per value: how often calls read it, views share it, and it is a result or assigned.
std::vector<int> uses(const Trace& trace);

}  // namespace ebb::trace
