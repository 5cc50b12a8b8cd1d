// What a plan keeps in the spill file: known before the file is made, so that a disk without room, and the
// memory that the file takes, are seen while planning.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/plan/plan.hpp"

namespace ebb::exec {

struct PlannedSpill {
  std::vector<Variable> variables;
  std::vector<std::uint64_t> activations;  // bytes, per buffer of every program; 0: not spilled
  bool any = false;

  explicit PlannedSpill(const plan::Plan& plan);
  std::uint64_t memory_bytes() const;  // what its file needs in memory
  std::uint64_t disk_bytes() const;
};

}  // namespace ebb::exec
