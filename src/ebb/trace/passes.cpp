#include "ebb/trace/passes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/trace/ids.hpp"

namespace ebb::trace {
namespace {

// The trace with `live` calls only; what they need of inputs, variables and constants stays. With `all_state`
// also the variables and step values that they do not need.
Trace kept(const Trace& from, const std::vector<bool>& live_calls, bool all_state = false) {
  std::vector<bool> needed(from.values.size());
  const auto need = [&](Id id) {
    needed[id] = true;
    if (from.values[id].base != kNone) needed[from.values[id].base] = true;
  };
  for (std::size_t c = 0; c < from.calls.size(); ++c) {
    if (!live_calls[c]) continue;
    for (const Id id : from.calls[c].in) need(id);
    for (const Id id : from.calls[c].out) need(id);
  }
  each_outcome(from, need);
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (all_state && from.values[i].base == kNone)
      needed[i] =
          needed[i] || from.values[i].kind == Kind::variable || from.values[i].kind == Kind::before;

  Trace to;
  to.inputs = from.inputs;
  to.after = from.after;
  to.groups = from.groups;
  to.gradient_blocks = from.gradient_blocks;
  to.gradients = from.gradients;
  to.starts = from.starts;
  std::vector<Id> value_at(from.values.size(), kNone), call_at(from.calls.size(), kNone);
  std::vector<Id> variable_at(from.variables.size(), kNone);
  for (std::size_t c = 0, next = 0; c < from.calls.size(); ++c)
    if (live_calls[c]) call_at[c] = static_cast<Id>(next++);
  const auto variable = [&](Id index) {
    if (variable_at[index] == kNone) {
      to.variables.push_back(from.variables[index]);
      variable_at[index] = static_cast<Id>(to.variables.size()) - 1;
    }
    return variable_at[index];
  };
  to.values.reserve(static_cast<std::size_t>(std::count(needed.begin(), needed.end(), true)));
  to.calls.reserve(
      static_cast<std::size_t>(std::count(live_calls.begin(), live_calls.end(), true)));
  for (std::size_t i = 0; i < from.values.size(); ++i) {
    if (!needed[i]) continue;
    Value v = from.values[i];
    if (v.call != kNone) v.call = call_at[v.call];
    if (v.base != kNone) v.base = value_at[v.base];
    if (v.kind == Kind::variable) v.index = variable(v.index);
    if (v.kind == Kind::constant) {
      to.constants.push_back(from.constants[v.index]);
      v.index = static_cast<Id>(to.constants.size()) - 1;
    }
    if (v.kind == Kind::before) {
      to.before.push_back(from.before[v.index]);
      v.index = static_cast<Id>(to.before.size()) - 1;
    }
    to.values.push_back(v);
    value_at[i] = static_cast<Id>(to.values.size()) - 1;
  }
  const auto renamed = [&](std::vector<Id> ids) {
    for (Id& id : ids)
      if (id != kNone) id = value_at[id];
    return ids;
  };
  for (std::size_t c = 0; c < from.calls.size(); ++c) {
    if (!live_calls[c]) continue;
    Call call = from.calls[c];
    call.in = renamed(std::move(call.in));
    call.out = renamed(std::move(call.out));
    to.calls.push_back(std::move(call));
  }
  to.results = renamed(from.results);
  to.carry = renamed(from.carry);
  for (const Assign& a : from.assigns)
    to.assigns.push_back({variable(a.variable), value_at[a.value]});
  return to;
}

}  // namespace

std::vector<int> uses(const Trace& trace) {
  std::vector<int> count(trace.values.size());
  each_use(trace, [&](Id id) { ++count[id]; });
  return count;
}

namespace {

// Per call: whether anything comes of it.
std::vector<bool> live_calls(const Trace& trace) {
  std::vector<bool> live(trace.calls.size()), wanted(trace.values.size());
  const auto want = [&](Id id) {
    wanted[id] = true;
    wanted[trace.base_of(id)] = true;
  };
  each_outcome(trace, want);
  for (std::size_t c = trace.calls.size(); c-- > 0;) {
    const Call& call = trace.calls[c];
    live[c] = std::any_of(call.out.begin(), call.out.end(), [&](Id id) { return wanted[id]; });
    if (live[c])
      for (const Id id : call.in) want(id);
  }
  return live;
}

}  // namespace

Trace without_dead_code(const Trace& trace) { return kept(trace, live_calls(trace)); }

Trace without_repeats(const Trace& trace) {
  Trace to = trace;
  std::vector<Id> same(to.values.size());
  for (std::size_t i = 0; i < same.size(); ++i) same[i] = static_cast<Id>(i);
  std::map<std::tuple<const ops::OpType*, std::vector<Id>>, std::vector<std::size_t>> seen;
  std::vector<bool> live(to.calls.size(), true);
  for (std::size_t c = 0; c < to.calls.size(); ++c) {
    Call& call = to.calls[c];
    for (Id& id : call.in) id = same[id];
    if (call.op.type().once) continue;
    auto& alike = seen[{&call.op.type(), call.in}];
    const auto twin = std::find_if(alike.begin(), alike.end(),
                                   [&](std::size_t k) { return to.calls[k].op == call.op; });
    if (twin == alike.end()) {
      alike.push_back(c);
      continue;
    }
    live[c] = false;
    for (std::size_t i = 0; i < call.out.size(); ++i) same[call.out[i]] = to.calls[*twin].out[i];
  }
  each_use(to, [&](Id& id) { id = same[id]; });
  return kept(to, live);
}

namespace {

// `so far + sum of these examples`, where carry[k] is that.
struct Going {
  Id so_far = kNone, sum = kNone, add = kNone;
};
Going going(const Trace& t, std::size_t k) {
  const Id total = t.carry[k];
  if (total == kNone || t.values[total].kind != Kind::made || t.values[total].base != kNone)
    return {};
  const Id place = t.values[total].call;
  const Call& add = t.calls[place];
  if (&add.op.type() != &ops::op_type<ops::Add>()) return {};
  const Value &before = t.values[add.in[0]], &sum = t.values[add.in[1]];
  if (before.kind != Kind::sum_so_far || before.index != static_cast<Id>(k) ||
      sum.kind != Kind::made || sum.base != kNone)
    return {};
  return {add.in[0], add.in[1], place};
}

}  // namespace

Trace chained(const Trace& trace) {
  Trace to = trace;
  std::vector<int> used = uses(to);
  std::vector<bool> live(to.calls.size(), true);
  std::vector<Id> same(to.values.size());
  for (std::size_t i = 0; i < same.size(); ++i) same[i] = static_cast<Id>(i);
  std::map<Id, Id> total_of;  // a scalar that was asked for twice goes on once
  for (std::size_t k = 0; k < to.carry.size(); ++k) {
    const Going g = going(to, k);
    if (g.sum == kNone || to.values[g.sum].spec.rank() > 0) continue;
    const auto [first, is_new] = total_of.emplace(g.sum, to.carry[k]);
    if (is_new) continue;
    live[g.add] = false;
    same[to.carry[k]] = first->second;
    to.carry[k] = kNone;
    --used[g.sum];
  }
  for (std::size_t k = 0; k < to.carry.size(); ++k) {
    const Going g = going(to, k);
    if (g.sum == kNone || used[g.sum] != 1 || used[g.so_far] != 1) continue;
    Call& call = to.calls[to.values[g.sum].call];
    std::vector<Spec> specs;
    for (const Id id : call.in) specs.push_back(to.values[id].spec);
    const ops::AnyOp on =
        call.op.type().accumulating(call.op.attributes(), specs, to.values[g.sum].index);
    if (!on) continue;
    call.op = on;
    call.in.push_back(g.so_far);
    live[g.add] = false;
    same[to.carry[k]] = g.sum;
  }
  each_use(to, [&](Id& id) {
    while (same[id] != id) id = same[id];
  });
  return kept(to, live);
}

Trace before_last(const Trace& trace, const std::vector<bool>& keep,
                  const std::vector<bool>& assigns) {
  Trace to = trace;
  to.results.clear();
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) to.results.push_back(trace.results[i]);
  to.assigns.clear();
  for (std::size_t i = 0; i < assigns.size(); ++i)
    if (assigns[i]) to.assigns.push_back(trace.assigns[i]);
  to.after.clear();
  return without_dead_code(to);
}

Trace after_sums(const Trace& trace, const std::vector<bool>& per_example) {
  Trace to = trace;
  to.results.clear();
  for (std::size_t i = 0; i < trace.results.size(); ++i)
    if (i >= per_example.size() || !per_example[i]) to.results.push_back(trace.results[i]);
  std::vector<Id> goes_on(to.carry.size(), kNone), same(to.values.size());
  for (std::size_t i = 0; i < same.size(); ++i) {
    same[i] = static_cast<Id>(i);
    const Value& v = to.values[i];
    if (v.kind == Kind::sum_so_far && v.base == kNone)
      goes_on[static_cast<std::size_t>(v.index)] = static_cast<Id>(i);
  }
  for (std::size_t k = 0; k < to.carry.size(); ++k)
    if (to.carry[k] != kNone) same[to.carry[k]] = goes_on[k];
  each_use(to, [&](Id& id) {
    if (same[id] == kNone) throw Error("a sum over the examples goes on from nothing");
    id = same[id];
  });
  to = kept(to, live_calls(to), true);
  for (const Call& call : to.calls)
    for (const Id id : call.in) {
      const Kind kind = to.values[to.base_of(id)].kind;
      if (kind == Kind::input || kind == Kind::key)
        throw Error(fmt::format("{} reads examples after their sums", call.op.type().name));
    }
  return to;
}

}  // namespace ebb::trace
