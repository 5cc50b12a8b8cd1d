// Variables whose bytes stay in memory, and where those were found last: they may be elsewhere at the next
// step, when the program has assigned them in between.
#pragma once

#include <cstddef>
#include <vector>

#include "ebb/exec/spill/spilled_variables.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb::exec {

class ResidentVariables {
 public:
  // All that the programs use, but for the spilled ones; null: none is.
  ResidentVariables(const plan::Plan& plan, const SpilledVariables* spilled);

  plan::Id find(const Variable& variable) const;  // kNone: it is spilled
  std::byte* bytes(plan::Id index) const { return bytes_[static_cast<std::size_t>(index)]; }

  // Takes them for a step: each has bytes that no other tensor shares. moved(index, bytes) for those that
  // are not where they were.
  template <class F>
  void own(F&& moved) {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      variables_[i].own();
      std::byte* const now = variables_[i].bytes();
      if (now == bytes_[i]) continue;
      bytes_[i] = now;
      moved(static_cast<plan::Id>(i), now);
    }
  }
  void forget_places() { bytes_.assign(variables_.size(), nullptr); }

 private:
  std::vector<Variable> variables_;
  std::vector<std::byte*> bytes_;
};

}  // namespace ebb::exec
