// A plan for a smaller shape from that of a larger one: the same steps, mostly at the same places.
// Every buffer is at most as large as it was, so that it fits where the larger plan fits, without a
// search: the ragged last batch of an epoch takes no memory that was not promised before the first.
// (Where a call wants more scratch for fewer examples, the places are found anew, within the same
// arena.)
#pragma once

#include <optional>

#include "ebb/plan/plan.hpp"

namespace ebb::plan {

// `trace_batch` and `examples` are those of the smaller shape. Nothing where the function does
// other calls for it, or it does not fit into the larger one's arena.
std::optional<Plan> smaller(const Plan& larger, const trace::TraceBatch& trace_batch,
                            std::int64_t examples, const CompileOptions& options,
                            const Machine& machine);

}  // namespace ebb::plan
