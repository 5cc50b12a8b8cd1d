// Which of the bytes that the calls of a step move come from memory, as no cache holds them any more.
//
// A step is walked twice, as steps follow each other, beside a shared cache that drops whole buffers,
// the longest unused first. A result lies where what died last has lain. So a small model stays in the
// cache from step to step; of a large one weights and state come from memory, while what a call has
// just written is still there for the next.
#pragma once

#include <vector>

#include "ebb/plan/graph/graph.hpp"
#include "ebb/trace/trace.hpp"

namespace ebb::plan {

// What a call costs: that of the op, or, in turn, of the ops in it.
std::vector<ops::Cost> costs_of(const trace::Trace& trace, const trace::Call& call);

// Per call of the trace: the part of its bytes, 0 … 1. `buffer_of`: per value, as lowered; `cache`: bytes.
std::vector<double> far_parts(const trace::Trace& trace, const std::vector<Id>& buffer_of,
                              double cache);

}  // namespace ebb::plan
