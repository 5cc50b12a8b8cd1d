#include "ebb/exec/bound_program.hpp"

namespace ebb::exec {

BoundProgram::BoundProgram(const plan::Plan& plan, const plan::Program& program, std::byte* arena,
                           const StepValues& values, const SpilledVariables* spilled,
                           const ResidentVariables& resident)
    : BoundProgram(plan, program, Addresses(plan, program, arena, values), spilled, resident) {}

BoundProgram::BoundProgram(const plan::Plan& plan, const plan::Program& p, Addresses addresses,
                           const SpilledVariables* spilled, const ResidentVariables& resident)
    : program(p),
      actions(make_actions(p, addresses, spilled, resident,
                           plan.divided() && &p != &plan.programs.back())),
      results(find_results(plan, p, addresses, resident)),
      times(p) {
  for (const Spec& in : p.trace.inputs)
    example_bytes.push_back(in.rank() && in.shape[0] ? in.bytes() / in.shape[0] : 0);
}

void BoundProgram::patch(const MicroBatch& batch) {
  for (const Actions::Patch& p : actions.inputs)
    actions.ins[p.place].data = batch.input(static_cast<std::size_t>(p.index)) + p.offset;
  for (const Actions::Patch& p : actions.results)
    actions.patch(p, batch.result(static_cast<std::size_t>(p.index)));
}

void BoundProgram::patch(plan::Id variable, std::byte* bytes) {
  for (const Actions::Patch& p : actions.variables)
    if (p.index == variable) actions.patch(p, bytes);
}

}  // namespace ebb::exec
