#include <algorithm>
#include <numeric>

#include "ebb/trace/ids.hpp"
#include "ebb/trace/passes.hpp"

namespace ebb::trace {
namespace {

// Calls that need one of these values, directly or not.
std::vector<bool> dependents(const Trace& trace, const std::vector<Id>& values) {
  std::vector<bool> touched(trace.values.size()), calls(trace.calls.size());
  for (const Id id : values) touched[id] = true;
  for (std::size_t c = 0; c < trace.calls.size(); ++c) {
    const Call& call = trace.calls[c];
    calls[c] = std::any_of(call.in.begin(), call.in.end(), [&](Id id) {
      return touched[id] || touched[trace.base_of(id)];  // also through a view that no call made
    });
    if (calls[c])
      for (const Id id : call.out) touched[id] = true;
  }
  return calls;
}

// The call that `by` makes needless, or kNone.
Id subsumed_by(const Trace& trace, std::size_t by) {
  const Call& call = trace.calls[by];
  if (call.op.type().subsumes == nullptr) return kNone;
  const ops::Subsumed subsumed = call.op.type().subsumes(call.op.attributes());
  const std::vector<Id> in(call.in.begin(), call.in.begin() + subsumed.inputs);
  for (std::size_t c = 0; c < trace.calls.size(); ++c)
    if (trace.calls[c].op == subsumed.op && trace.calls[c].in == in) return static_cast<Id>(c);
  return kNone;
}

// The same trace with its calls in this order, and values in the order of the calls that make them.
Trace ordered(const Trace& from, const std::vector<std::size_t>& order) {
  Trace to = from;
  to.values.clear();
  to.calls.clear();
  std::vector<Id> at(from.values.size(), kNone), call_at(from.calls.size(), kNone);
  const auto add = [&](std::size_t id) {
    at[id] = static_cast<Id>(to.values.size());
    to.values.push_back(from.values[id]);
  };
  for (std::size_t id = 0; id < from.values.size(); ++id)
    if (from.values[id].kind != Kind::made) add(id);
  for (const std::size_t c : order)
    for (const Id id : from.calls[c].out) add(id);
  for (std::size_t i = 0; i < order.size(); ++i) call_at[order[i]] = static_cast<Id>(i);
  for (std::size_t id = 0; id < from.values.size(); ++id) {  // views that no call made
    if (at[id] != kNone) continue;
    add(id);
    if (Id& call = to.values.back().call; call != kNone)
      call = call_at[static_cast<std::size_t>(call)];
  }
  for (const std::size_t c : order) {
    Call call = from.calls[c];
    for (Id& id : call.out) {
      id = at[id];
      to.values[id].call = static_cast<Id>(to.calls.size());
    }
    to.calls.push_back(std::move(call));
  }
  each_use(to, [&](Id& id) { id = at[id]; });
  return to;
}

// `by` gives what `gone` gave. What came before `by` and needs it is put right behind it.
Trace replaced(Trace trace, std::size_t gone, std::size_t by, const std::vector<bool>& later) {
  const ops::AnyOp& op = trace.calls[by].op;
  const auto from = static_cast<std::size_t>(op.type().subsumes(op.attributes()).from);
  const std::vector<Id> old = trace.calls[gone].out, now = trace.calls[by].out;
  const auto rename = [&](Id& id) {
    const auto place = std::find(old.begin(), old.end(), id);
    if (place != old.end()) id = now[from + static_cast<std::size_t>(place - old.begin())];
  };
  each_use(trace, rename);

  std::vector<std::size_t> order(trace.calls.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(by) + 1;
  std::stable_partition(order.begin(), end, [&](std::size_t c) { return !later[c]; });
  return ordered(trace, order);
}

}  // namespace

Trace without_subsumed(const Trace& trace) {
  Trace now = trace;
  for (std::size_t by = 0; by < now.calls.size(); ++by) {
    const Id gone = subsumed_by(now, by);
    if (gone == kNone) continue;
    const auto later = dependents(now, now.calls[gone].out);
    const auto stuck = [&](std::size_t c) { return later[c] && now.calls[c].op.type().once; };
    bool possible = !later[by];
    for (std::size_t c = 0; c < by; ++c) possible = possible && !stuck(c);
    if (possible) now = replaced(std::move(now), static_cast<std::size_t>(gone), by, later);
  }
  return now;
}

}  // namespace ebb::trace
