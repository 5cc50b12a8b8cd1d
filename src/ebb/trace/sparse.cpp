#include "ebb/trace/sparse.hpp"

#include <algorithm>

#include "ebb/ops/apply.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/optim/sparse_update.hpp"
#include "ebb/trace/ids.hpp"
#include "ebb/trace/passes.hpp"

namespace ebb::trace {
namespace {

using At = ops::UpdateInputs;
using SparseAt = ops::SparseUpdateInputs;

// Whether the call adds rows up from zero along the first axis.
bool sums_rows(const Call& call) {
  if (&call.op.type() != &ops::op_type<ops::ScatterAdd>()) return false;
  const auto& op = *static_cast<const ops::ScatterAdd*>(call.op.attributes());
  return op.axis == 0 && !op.accumulate;
}

bool squares(const Call& call) { return &call.op.type() == &ops::op_type<ops::SumOfSquares>(); }

}  // namespace

Trace with_sparse_updates(Trace to, const std::vector<Variable>* only) {
  const std::vector<int> used = uses(to);
  std::vector<std::vector<Id>> squared(to.values.size());  // by which calls
  for (Id c = 0; c < static_cast<Id>(to.calls.size()); ++c)
    if (squares(to.calls[c])) squared[to.calls[c].in[0]].push_back(c);
  bool changed = false;
  for (Call& call : to.calls) {
    if (call.in.size() <= At::param) continue;
    const Id gradient = call.in[At::gradient], made_by = to.values[gradient].call;
    const auto readers = 1 + static_cast<int>(squared[gradient].size());
    if (made_by == kNone || used[gradient] != readers || !sums_rows(to.calls[made_by])) continue;
    if (only &&
        std::find(only->begin(), only->end(), variable_at(to, call.in[At::param])) == only->end())
      continue;
    const Call& sum = to.calls[made_by];
    const Spec& param = to.values[call.in[At::param]].spec;
    const auto form = ops::sparse_form(call.op, param, to.values[sum.in[0]].spec);
    if (!form) continue;
    const ops::SparseSumOfSquares of{param.shape};
    for (const Id c : squared[gradient]) {
      to.calls[c].op = ops::AnyOp(ops::op_type<ops::SparseSumOfSquares>(), &of);
      to.calls[c].in = sum.in;
    }
    call.op = *form;
    // The gradient becomes two inputs; what stands behind it moves on.
    call.in.insert(call.in.begin() + SparseAt::indices, sum.in[0]);
    call.in[SparseAt::rows] = sum.in[1];
    if (call.donated >= static_cast<int>(At::param)) ++call.donated;
    changed = true;
  }
  return changed ? without_dead_code(to) : to;
}

std::vector<Variable> parameters_with_sparse_updates(const Trace& trace) {
  std::vector<Variable> all;
  for (const Call& call : trace.calls)
    if (ops::is_sparse_update(call.op)) all.push_back(variable_at(trace, call.in[SparseAt::param]));
  return all;
}

}  // namespace ebb::trace
