#include "ebb/plan/schedules.hpp"

#include <algorithm>
#include <utility>

#include "ebb/base/pool.hpp"
#include "ebb/plan/limits.hpp"

namespace ebb::plan {
namespace {

// What the last micro-batch can leave in the file: large, and not to be given back as a result.
std::vector<Variable> can_be_away(const Problem& problem, const trace::Trace& last, bool streamed) {
  const Lowered lowered = lower(last, problem.machine, true, streamed);
  std::vector<bool> used(lowered.graph.buffers.size());
  for (const Node& node : lowered.graph.nodes)
    for (const auto* list : {&node.in, &node.updates})
      for (const Id b : *list) used[b] = true;
  const std::vector<bool>& assigned = problem.batch.split().assigned_in_each;
  std::vector<bool> in_each(last.variables.size());  // what every micro-batch goes on from
  for (std::size_t a = 0; a < last.assigns.size(); ++a)
    if (a < assigned.size() && assigned[a]) in_each[last.assigns[a].variable] = true;
  std::vector<Variable> away;
  for (std::size_t b = 0; b < used.size(); ++b) {
    const Buffer& buffer = lowered.graph.buffers[b];
    if (!used[b] || buffer.origin != Origin::state || !buffer.spillable || buffer.kept) continue;
    const trace::Id variable = last.values[lowered.value_of[b]].index;
    if (!in_each[variable]) away.push_back(last.variables[variable]);
  }
  return away;
}

// `away` lies in the file whatever the plan, as every micro-batch has to find a variable where the
// others leave it.
void send_away(Searched& s, const std::vector<Variable>& away) {
  for (std::size_t b = 0; b < s.lowered.graph.buffers.size(); ++b) {
    Buffer& buffer = s.lowered.graph.buffers[b];
    if (buffer.origin != Origin::state) continue;
    const Variable& v = s.trace.variables[s.trace.values[s.lowered.value_of[b]].index];
    buffer.away = std::find(away.begin(), away.end(), v) != away.end();
    buffer.spillable = buffer.away;
  }
}

// What stays in memory does so in every program, though only the last one uses the optimizer's state.
void hold_alike(std::vector<Searched>& programs) {
  std::vector<std::uint64_t> own;
  for (const Searched& s : programs) {
    own.push_back(0);
    for (const Buffer& b : s.lowered.graph.buffers)
      if (b.origin == Origin::state && !b.away) own.back() += b.bytes;
  }
  const std::uint64_t all = *std::max_element(own.begin(), own.end());
  for (std::size_t i = 0; i < programs.size(); ++i) programs[i].lowered.graph.held = all - own[i];
}

}  // namespace

Searched lowered(trace::Trace trace, Policy policy, bool fuse, const Machine& machine,
                 const trace::RewriteChoices* like) {
  const trace::PassOptions passes{
      .gradient_blocks = policy.gradient_blocks, .like = like, .fuse = fuse};
  Searched s{trace::rewritten(std::move(trace), passes), {}, {}};
  s.lowered = lower(s.trace, machine, policy.spilling >= Spilling::state,
                    policy.spilling == Spilling::streamed);
  return s;
}

SpillCost spill_cost(Spilling spilling, const Machine& machine) {
  SpillCost cost;
  cost.allowed = spilling != Spilling::none;
  cost.state_allowed = spilling >= Spilling::state;
  cost.write_seconds_per_byte = 1 / machine.spill_write;
  cost.read_seconds_per_byte = 1 / machine.spill_read;
  cost.seconds_per_transfer = kLimits.transfer_seconds;
  cost.busy = machine.spill_busy * std::min(machine.spill_write, machine.spill_read);
  return cost;
}

std::vector<Searched> schedules(const Problem& problem, const Traced& traced, Policy policy,
                                double effort) {
  const bool split = traced.count > 1;
  std::vector<Variable> away;
  if (split && policy.spilling >= Spilling::state)
    away = can_be_away(problem, traced.traces.back(), policy.spilling == Spilling::streamed);
  const bool only_order = !problem.options.recompute && policy.spilling == Spilling::none;
  SearchOptions options;
  options.recompute = problem.options.recompute;
  options.effort = only_order ? kLimits.order_effort : effort;
  options.spill = spill_cost(policy.spilling, problem.machine);
  std::vector<Searched> result(traced.traces.size());
  const auto each = [&](const auto& f) {
    const auto some = [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) f(i);
    };
    if (problem.at_once) {
      pool::parallel_for(result.size(), 1, some);
    } else {
      some(0, result.size());
    }
  };
  each([&](std::size_t i) {
    result[i] = lowered(traced.traces[i], policy, problem.options.fuse, problem.machine);
    if (split) send_away(result[i], away);
  });
  if (split) hold_alike(result);
  each([&](std::size_t i) { result[i].front = search(result[i].lowered.graph, options); });
  return result;
}

}  // namespace ebb::plan
