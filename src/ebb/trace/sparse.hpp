// The gradient of an embedding is a sum of few rows. Where only the optimizer reads it, sum and
// update become one call, and the whole gradient is never made:
//
//   %8 = scatter_add(ids, %7); w', m', v' = adam(rule, scale, %8, w, m, v)
//   becomes   w', m', v' = sparse_adam(rule, scale, ids, %7, w, m, v)
//
// Likewise its sum of squares, where gradients are clipped by their norm.
// For a batch that is taken as a whole: over micro-batches the sum has to stand somewhere.
#pragma once

#include "ebb/trace/trace.hpp"

namespace ebb::trace {

// `only`: of these parameters; null: where it is quicker.
Trace with_sparse_updates(Trace trace, const std::vector<Variable>* only = nullptr);
// Those with such updates.
std::vector<Variable> parameters_with_sparse_updates(const Trace& trace);

}  // namespace ebb::trace
