// The options of compile, before anything is planned: checked, and made definite for this machine.
#pragma once

#include <string>

#include "ebb/plan/plan.hpp"

namespace ebb::exec {

// Throws where they contradict each other or name no directory. What does nothing here is left out: a file
// in memory is no place to spill to.
CompileOptions checked(CompileOptions options);

// An automatic budget becomes one in bytes; where that comes from. "": it was none.
std::string resolve_memory(CompileOptions& options);

// Whether there is more than one plan, so that a smallest budget is of interest.
bool has_choices(const CompileOptions& options);

// What the planner knows of the machine; with the spill file's speed also where there is no budget: the
// smallest one is to be the same number.
plan::Machine machine_for(const CompileOptions& options);

}  // namespace ebb::exec
