// What is planned: the same for every stage of the planner.
#pragma once

#include <cstdint>

#include "ebb/plan/candidate.hpp"
#include "ebb/plan/plan.hpp"
#include "ebb/plan/split/micro_batches.hpp"

namespace ebb::plan {

struct Problem {
  const CompileOptions& options;
  const Footprint& footprint;
  const Machine& machine;
  const MicroBatches& batch;
  bool at_once = true;  // there is memory for several searches at a time

  // What the program holds that is neither the step's nor its data: its own tensors, other models.
  std::uint64_t other_bytes() const {
    std::uint64_t own = 0;
    for (const Tensor& t : batch.whole().constants) own += t.spec().bytes();
    return footprint.others > own ? footprint.others - own : 0;
  }

  // Whether such candidates stand beside others that do not round.
  bool rounds_beside(DType stored) const {
    return stored != DType::f32 && !options.approximate.always;
  }
};

}  // namespace ebb::plan
