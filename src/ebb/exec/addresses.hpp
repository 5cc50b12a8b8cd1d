// Where the bytes of a program's buffers are, while its schedule is walked from the first step to the last.
//
// Most lie in the arena, at the offset of the instance that is there at the time: a buffer that is dropped
// and made again, or spilled and read back, has one for each stay. Sums over micro-batches stand at the
// arena's start; constants and the values of a step lie where they are. Inputs, variables in memory and
// results that are written straight to the caller have no address here: they are found at each step.
#pragma once

#include <cstddef>
#include <vector>

#include "ebb/exec/step_values.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb::exec {

class Addresses {
 public:
  Addresses(const plan::Plan& plan, const plan::Program& program, std::byte* arena,
            const StepValues& values);

  // From this step of the schedule on, it is this instance of the buffer that is there.
  void set_instance(plan::Id buffer, plan::Id instance) { instance_of_[buffer] = instance; }

  // Null: found at each step.
  std::byte* of(plan::Id buffer) const { return of(buffer, instance_of_[buffer]); }
  std::byte* of(plan::Id buffer, plan::Id instance) const;
  std::byte* sum(std::size_t carry) const { return arena_ + plan_.carry_offsets[carry]; }
  std::byte* scratch(std::size_t step) const { return arena_ + program_.scratch[step]; }

 private:
  const plan::Plan& plan_;
  const plan::Program& program_;
  std::byte* arena_;
  const StepValues& values_;
  std::vector<plan::Id> instance_of_;  // per buffer; kNone: none so far
};

}  // namespace ebb::exec
