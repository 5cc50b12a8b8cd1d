#include "ebb/trace/pipeline.hpp"

#include <span>
#include <utility>

#include "ebb/trace/fuse.hpp"
#include "ebb/trace/gradient_blocks.hpp"
#include "ebb/trace/passes.hpp"
#include "ebb/trace/sparse.hpp"
#include "ebb/trace/store_half.hpp"

namespace ebb::trace {
namespace {

using Pass = Trace (*)(Trace, const PassOptions&);

// None of these may depend on how many examples there are: plan/split compares traces that differ
// in nothing else.
constexpr Pass kSimplify[] = {
    // The walk back repeats what the way forward did: equal calls become one.
    [](Trace t, const PassOptions&) { return without_repeats(t); },
    // A fused backward op may give what another call gives, which is then not needed.
    [](Trace t, const PassOptions&) { return without_subsumed(t); },
    // Gradients that nobody asked for, and what the passes before have left over.
    [](Trace t, const PassOptions&) { return without_dead_code(t); },
    // A sum goes on from the one before it: one chain over all micro-batches, for the same bits.
    [](Trace t, const PassOptions&) { return chained(t); },
};

// How large a constant is depends on the number of examples, as does what is worth storing.
constexpr Pass kSettle[] = {
    // Calls of constants alone run now, once.
    [](Trace t, const PassOptions&) { return folded(t); },
    // Before the updates are left out of all micro-batches but the last, which all store alike.
    [](Trace t, const PassOptions& o) {
      return o.stored == DType::f32 ? t : stored_half(t, o.stored).trace;
    },
};

// Last, as no pass looks into what these make.
constexpr Pass kRewrite[] = {
    // An embedding's gradient and its update become one: the whole gradient is never made.
    [](Trace t, const PassOptions& o) {
      return with_sparse_updates(std::move(t), o.like ? &o.like->sparse : nullptr);
    },
    // Of the gradients that are left, large ones are made in their updates, at some cost in time.
    [](Trace t, const PassOptions& o) {
      return o.gradient_blocks ? with_gradient_blocks(t, o.like ? &o.like->blocks : nullptr) : t;
    },
    // Elementwise calls become one; after all that looks for a call by its op.
    [](Trace t, const PassOptions& o) { return o.fuse ? fused(t) : t; },
};

Trace run(std::span<const Pass> passes, Trace trace, const PassOptions& options) {
  for (const Pass pass : passes) trace = pass(std::move(trace), options);
  return trace;
}

}  // namespace

RewriteChoices choices_of(const Trace& rewritten) {
  return {parameters_with_sparse_updates(rewritten), parameters_in_blocks(rewritten)};
}

Trace simplified(Trace trace) { return run(kSimplify, std::move(trace), {}); }

Trace specialized(Trace trace, const PassOptions& options) {
  return run(kSettle, std::move(trace), options);
}

Trace rewritten(Trace trace, const PassOptions& options) {
  return run(kRewrite, std::move(trace), options);
}

}  // namespace ebb::trace
