#include "ebb/exec/resident_variables.hpp"

#include <algorithm>

namespace ebb::exec {

ResidentVariables::ResidentVariables(const plan::Plan& plan, const SpilledVariables* spilled) {
  const auto contains = [](const std::vector<Variable>& list, const Variable& v) {
    return std::find(list.begin(), list.end(), v) != list.end();
  };
  for (const plan::Program& p : plan.programs)
    for (const Variable& v : p.trace.variables) {
      if (spilled && contains(spilled->variables(), v)) continue;
      if (!contains(variables_, v)) variables_.push_back(v);
    }
  forget_places();
}

plan::Id ResidentVariables::find(const Variable& variable) const {
  const auto at = std::find(variables_.begin(), variables_.end(), variable);
  return at == variables_.end() ? plan::kNone : static_cast<plan::Id>(at - variables_.begin());
}

}  // namespace ebb::exec
