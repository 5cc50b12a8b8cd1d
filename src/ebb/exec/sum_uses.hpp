// Which sums over the examples a step of a schedule goes on from, and which it has added to: when ranks take a sum
// from the one before, and give it to the next. What runs and what is forecast both read it here.
#pragma once

#include <vector>

#include "ebb/plan/pack/program.hpp"

namespace ebb::exec {

struct SumUses {
  std::vector<plan::Id>
      takes;  // before it: each sum once, by the first step that reads or writes it
  std::vector<plan::Id> gives;  // after it
  bool operator==(const SumUses&) const = default;
};

std::vector<SumUses> sum_uses(const plan::Program& program);  // per step of its schedule

}  // namespace ebb::exec
