#include "ebb/exec/sum_uses.hpp"

namespace ebb::exec {

std::vector<SumUses> sum_uses(const plan::Program& program) {
  const trace::Trace& trace = program.trace;
  const plan::Lowered& lowered = program.lowered;
  std::vector<SumUses> uses(program.schedule.steps.size());
  std::vector<bool> taken(trace.carry.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const plan::Step& step = program.schedule.steps[i];
    if (step.kind != plan::Step::Kind::run) continue;
    const trace::Call& call = trace.calls[lowered.call[step.node]];
    const auto sum_of = [&](plan::Id value) { return lowered.sum_of[lowered.buffer_of[value]]; };
    for (const auto* values : {&call.in, &call.out})
      for (const plan::Id value : *values) {
        const plan::Id sum = sum_of(value);
        if (sum == plan::kNone || taken[static_cast<std::size_t>(sum)]) continue;
        taken[static_cast<std::size_t>(sum)] = true;
        uses[i].takes.push_back(sum);
      }
    for (const plan::Id value : call.out)
      if (const plan::Id sum = sum_of(value); sum != plan::kNone) uses[i].gives.push_back(sum);
  }
  return uses;
}

}  // namespace ebb::exec
