// A program of the plan, bound to an arena: plan → addresses → actions and results, each made from the one
// before.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/exec/actions.hpp"
#include "ebb/exec/call_times.hpp"
#include "ebb/exec/micro_batch.hpp"
#include "ebb/exec/results.hpp"

namespace ebb::exec {

struct BoundProgram {
  BoundProgram(const plan::Plan& plan, const plan::Program& program, std::byte* arena,
               const StepValues& values, const SpilledVariables* spilled,
               const ResidentVariables& resident);

  // What this micro-batch reads, and where it writes its results.
  void patch(const MicroBatch& batch);
  // A variable has moved.
  void patch(plan::Id variable, std::byte* bytes);

  const plan::Program& program;
  Actions actions;
  Results results;
  CallSeconds times;
  std::vector<std::uint64_t> example_bytes;  // of each input

 private:
  BoundProgram(const plan::Plan& plan, const plan::Program& program, Addresses addresses,
               const SpilledVariables* spilled, const ResidentVariables& resident);
};

}  // namespace ebb::exec
