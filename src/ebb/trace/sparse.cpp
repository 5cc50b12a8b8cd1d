#include "ebb/trace/sparse.hpp"

#include "ebb/ops/apply.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/optim/sparse_update.hpp"
#include "ebb/trace/passes.hpp"

namespace ebb::trace {
namespace {

constexpr std::size_t kGradient = 2, kParam = 3;  // of an update's inputs

// Whether the call adds rows up from zero along the first axis.
bool sums_rows(const Call& call) {
  if (&call.op.type() != &ops::op_type<ops::ScatterAdd>()) return false;
  const auto& op = *static_cast<const ops::ScatterAdd*>(call.op.attributes());
  return op.axis == 0 && !op.accumulate;
}

}  // namespace

Trace with_sparse_updates(const Trace& trace) {
  Trace to = trace;
  const std::vector<int> used = uses(trace);
  bool changed = false;
  for (Call& call : to.calls) {
    if (call.in.size() <= kParam) continue;
    const Id gradient = call.in[kGradient], made_by = to.values[gradient].call;
    if (made_by == kNone || used[gradient] != 1 || !sums_rows(to.calls[made_by])) continue;
    const Call& sum = to.calls[made_by];
    const auto form = ops::sparse_form(call.op, to.values[call.in[kParam]].spec,
                                       to.values[sum.in[0]].spec);
    if (!form) continue;
    call.op = *form;
    call.in[kGradient] = sum.in[1];
    call.in.insert(call.in.begin() + kGradient, sum.in[0]);
    if (call.donated >= static_cast<int>(kParam)) ++call.donated;
    changed = true;
  }
  return changed ? without_dead_code(to) : trace;
}

}  // namespace ebb::trace
