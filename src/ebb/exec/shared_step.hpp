// A step that ranks share, after they have agreed to begin it: the executor's, and what is forecast of it
// (dist/timetable.hpp), so that the two do the same in the same order.
#pragma once

#include <exception>
#include <span>

#include "ebb/base/messages/ranks.hpp"
#include "ebb/exec/rank_chain.hpp"
#include "ebb/plan/plan.hpp"

namespace ebb::exec {

// What ranks agree on: before it begins, when the sums are known, when it is done.
inline constexpr char kStepBegins[] = "a step", kSumsKnown[] = "the sums of a step",
                      kStepEnds[] = "the end of a step";

// `run` runs one micro-batch; the last of them, of no examples, makes the updates. What a rank cannot add, it hands
// on all the same, so that nobody waits for it; then all know of it.
template <class Run>
void shared_step(Ranks& ranks, RankChain& chain, std::span<const plan::Plan::Run> runs, Run&& run) {
  chain.begin();
  together(&ranks, kSumsKnown, [&] {
    std::exception_ptr failed;
    try {
      for (const plan::Plan::Run& r : runs.first(runs.size() - 1)) {
        if (&r == &runs[runs.size() - 2]) chain.set_last();
        run(r);
      }
    } catch (...) {
      failed = std::current_exception();
    }
    chain.finish();
    if (failed) std::rethrow_exception(failed);
  });
  together(&ranks, kStepEnds, [&] { run(runs.back()); });
}

}  // namespace ebb::exec
