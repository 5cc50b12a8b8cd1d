// How the processes of a world share a step: values for CompileOptions::strategy.
#pragma once

#include "ebb/plan/options.hpp"

namespace ebb::dist {

// Every rank has all parameters, and its rows of each batch.
inline Strategy mirrored() { return {Strategy::Kind::mirrored}; }

}  // namespace ebb::dist
