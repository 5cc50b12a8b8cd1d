// Visits the places in which a trace names a value, each of them, so that nobody forgets one.
#pragma once

#include "ebb/trace/trace.hpp"

namespace ebb::trace {

// The variable that a value is, or a part of; none where it is not.
inline Variable variable_at(const Trace& t, Id id) {
  const Value& v = t.values[t.base_of(id)];
  return v.kind == Kind::variable ? t.variables[v.index] : Variable();
}

// What is there when the step ends: results, sums that go on, new values of variables. f(id) where
// there is one; an Id& of a trace that may be changed.
template <class TraceOrConst, class F>
void each_outcome(TraceOrConst& trace, F&& f) {
  for (auto& id : trace.results) f(id);
  for (auto& id : trace.carry)
    if (id != kNone) f(id);
  for (auto& a : trace.assigns) f(a.value);
}

// These, and what calls read and views share: all that keeps a value, but for the call that makes
// it.
template <class TraceOrConst, class F>
void each_use(TraceOrConst& trace, F&& f) {
  for (auto& call : trace.calls)
    for (auto& id : call.in) f(id);
  for (auto& v : trace.values)
    if (v.base != kNone) f(v.base);
  each_outcome(trace, f);
}

}  // namespace ebb::trace
