// From what a function does to what is planned: the list of passes over a trace, in their order,
// stands in pipeline.cpp.
//
//   simplified   as traced, for any number of examples: is asked whether the batch can be split
//   specialized  for the number of examples that it is run with
//   rewritten    for the planner's graph: calls that stand for several
#pragma once

#include "ebb/trace/trace.hpp"

namespace ebb::trace {

// What rewriting chooses by the size of a batch: parameters with sparse updates, and those whose
// gradients are made in blocks.
struct RewriteChoices {
  std::vector<Variable> sparse, blocks;
};
RewriteChoices choices_of(const Trace& rewritten);

struct PassOptions {
  DType stored = DType::f32;     // what waits for the walk back: bf16 and f16 are approximate
  bool gradient_blocks = false;  // large gradients are made block by block, in their updates
  const RewriteChoices* like = nullptr;  // as for a larger batch; null: what is worth it
  bool fuse = true;
};

Trace simplified(Trace trace);
Trace specialized(Trace trace, const PassOptions& options);
Trace rewritten(Trace trace, const PassOptions& options);

}  // namespace ebb::trace
