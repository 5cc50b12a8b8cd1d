#include "ebb/exec/spill/planned_spill.hpp"

#include "ebb/exec/spill/spilled_variables.hpp"

namespace ebb::exec {

PlannedSpill::PlannedSpill(const plan::Plan& plan)
    : variables(plan::spilled_variables(plan.programs)) {
  any = !variables.empty();
  for (const plan::Program& p : plan.programs) {
    activations.resize(p.first_slot + p.lowered.graph.buffers.size());
    for (const plan::Step& s : p.schedule.steps) {
      if (s.kind == plan::Step::Kind::run) continue;
      const bool write = s.kind == plan::Step::Kind::write;
      const plan::Id buffer = p.schedule.instances[write ? s.in[0] : s.out[0]].buffer;
      const plan::Buffer& b = p.lowered.graph.buffers[buffer];
      if (b.origin == plan::Origin::made)
        activations[p.first_slot + static_cast<std::size_t>(buffer)] = b.bytes;
      any = true;
    }
  }
}

std::uint64_t PlannedSpill::memory_bytes() const {
  return any ? SpillFile::memory_bytes({}, SpilledVariables::slots(variables, activations)) : 0;
}

std::uint64_t PlannedSpill::disk_bytes() const {
  return any ? SpillFile::file_bytes(SpilledVariables::slots(variables, activations)) : 0;
}

}  // namespace ebb::exec
