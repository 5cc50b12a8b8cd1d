#include "ebb/plan/split/micro_batches.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/pool.hpp"
#include "ebb/trace/gradient_blocks.hpp"
#include "ebb/trace/fuse.hpp"
#include "ebb/trace/passes.hpp"
#include "ebb/trace/sparse.hpp"
#include "ebb/trace/store_half.hpp"

namespace ebb::plan {
namespace {

constexpr std::size_t kManyCalls = 1500;  // from here on sizes are never fine
constexpr double kEffortForOrder = 0.01;  // where nothing but the order can change
constexpr double kTransferSeconds = 20e-6;

// Whether each finds what the other leaves. The whole batch leaves nothing.
bool carry_alike(const trace::Trace& a, const trace::Trace& b) {
  return std::equal(a.carry.begin(), a.carry.end(), b.carry.begin(), b.carry.end(),
                    [](trace::Id x, trace::Id y) {
                      return (x == trace::kNone) == (y == trace::kNone);
                    });
}

}  // namespace

Searched ready(trace::Trace trace, Policy policy, bool fuse, const Machine& machine) {
  trace = trace::with_sparse_updates(std::move(trace));
  if (policy.gradient_blocks) trace = trace::with_gradient_blocks(trace);
  Searched s{fuse ? trace::fused(trace) : std::move(trace), {}, {}};
  trace = {};
  s.lowered = lower(s.trace, machine, policy.spilling >= Spilling::state,
                    policy.spilling == Spilling::streamed);
  return s;
}

Passes::Passes(const TraceRows& trace_rows, std::int64_t examples, const CompileOptions& options,
               const Machine& machine)
    : trace_rows_(trace_rows), examples_(examples), options_(options), machine_(machine) {
  whole_ = trace::simplified(trace_rows_(examples_, trace::Part::whole));
  whole_.carry.clear();
  ask_whether_split();
  whole_ = trace::folded(whole_);
  gradient_blocks_ = options_.gradient_blocks && !(may_split_ && options_.micro_batch > 0) &&
             !with_gradient_blocks(with_sparse_updates(whole_)).gradient_blocks.empty();
}

void Passes::ask_whether_split() {
  const bool asked = options_.micro_batch > 0;
  if (asked && !is_batch()) cannot_be_asked("its inputs have no first axis in common");
  if (examples_ < 2 || !options_.split || (asked && options_.micro_batch >= examples_)) return;
  // Not one row: what is made for each row of one is no larger than what it is made of.
  const std::int64_t half = options_.micro_batch > 1 ? options_.micro_batch
                            : examples_ > 2   ? (examples_ + 1) / 2
                                              : 3;
  const std::string refused = refusal(half, [&] {
    trace::Trace part = trace::simplified(trace_rows_(half, trace::Part::last));
    const trace::Trace all = trace::simplified(trace_rows_(examples_, trace::Part::last));
    split_ = can_split(part, half, all, examples_);
    if (!split_.possible && options_.independent_micro_batches) {
      const trace::Trace more = trace::simplified(trace_rows_(half + 1, trace::Part::last));
      split_ = can_split(part, half, more, half + 1, true);
    }
    if (split_.possible) {
      part_ = std::move(part);
      part_rows_ = half;
    }
  });
  if (!refused.empty()) split_.reason = refused;
  if (asked && !split_.possible) cannot_be_asked(split_.reason);
  may_split_ = split_.possible && (options_.allow != Allow::same_bits || split_.same_bits);
  if (asked && !may_split_)
    cannot_be_asked(fmt::format("with .allow = same_bits: {}", split_.reason));
}

std::vector<std::int64_t> Passes::sizes(bool fine) const {
  std::vector<std::int64_t> result = {examples_};
  if (!may_split_) return result;
  if (options_.micro_batch > 0) return {options_.micro_batch};
  fine = fine && whole_.calls.size() <= kManyCalls;
  for (std::int64_t parts = fine ? 2 : 4; parts <= examples_; parts *= fine ? 2 : 4) {
    for (const std::int64_t p : {parts, parts + parts / 2}) {
      const std::int64_t rows = (examples_ + p - 1) / p;
      if (rows < result.back() && (p == parts || fine)) result.push_back(rows);
    }
  }
  if (result.back() != 1) result.push_back(1);
  return result;
}

bool Passes::is_batch() const {
  for (const Spec& s : whole_.inputs)
    if (s.rank() == 0 || s.shape[0] != whole_.inputs[0].shape[0]) return false;
  return !whole_.inputs.empty();
}

void Passes::cannot_be_asked(const std::string& reason) const {
  throw Error(fmt::format("compile: .micro_batch is {}, but the batch cannot be taken in parts: {}",
                          options_.micro_batch, reason));
}

// `f` traces the function for so many rows, which nobody has asked for: what it says where it does
// not take them, or nothing.
std::string Passes::refusal(std::int64_t rows, const std::function<void()>& f) const {
  try {
    f();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    if (options_.micro_batch > 0)
      throw Error(
          fmt::format("compile: .micro_batch is {}, but the function does not take {} of the {} "
                      "rows: {}",
                      options_.micro_batch, rows, examples_, e.what()));
    return fmt::format("the function does not take {} of the {} rows: {}", rows, examples_,
                       e.what());
  }
  return {};
}

// That a part of so many rows does what the one does that was asked whether the batch can be split.
void Passes::check_alike(const trace::Trace& part, std::int64_t rows) const {
  const std::string why = depends_on_rows(part, rows, part_, part_rows_, split_);
  if (!why.empty()) throw Error(why);
}

// The part that ends a step; of all rows, it is the whole.
trace::Trace Passes::last_part(std::int64_t rows) const {
  if (rows == examples_) return whole_;
  trace::Trace part = trace::simplified(trace_rows_(rows, trace::Part::last));
  check_alike(part, rows);
  if (rows == 1 && examples_ > 2)  // of which less can be said
    check_alike(trace::simplified(trace_rows_(2, trace::Part::last)), 2);
  if (!with_counts(part, split_))
    throw Error("the number of constants depends on how many rows there are");
  return trace::folded(part);
}

std::optional<Traced> Passes::traced(std::int64_t rows, DType stored) const {
  Traced result{rows, (examples_ + rows - 1) / rows, DType::f32, {}};
  const auto part = [&](std::int64_t count) {
    trace::Trace last = last_part(count);
    if (stored == DType::f32) return last;
    trace::StoredHalf half = trace::stored_half(last, stored);
    if (half.values > 0) result.stored = stored;
    return half.values > 0 ? std::move(half.trace) : std::move(last);
  };
  const auto all = [&] {
    const std::int64_t last = examples_ - (result.parts - 1) * rows;
    trace::Trace full = part(rows);
    if (result.parts > 1) {
      result.passes.push_back(
          trace::part_only(full, split_.result_carries, split_.assigned_in_parts));
    }
    result.passes.push_back(last == rows ? std::move(full) : part(last));
    if (!carry_alike(result.passes.front(), result.passes.back()))
      throw Error("which sums go on from part to part depends on how many rows there are");
  };
  if (rows == examples_) {
    all();
  } else if (!refusal(rows, all).empty()) {
    return std::nullopt;
  }
  return result;
}

bool Passes::streams() const { return !lower(whole_, machine_, true, true).streams.empty(); }

// What a last part can leave in the file: large, and not to be given back as a result.
std::vector<Variable> Passes::can_be_away(const trace::Trace& last, bool streamed) const {
  const Lowered lowered = lower(last, machine_, true, streamed);
  std::vector<bool> used(lowered.graph.buffers.size());
  for (const Node& node : lowered.graph.nodes)
    for (const auto* list : {&node.in, &node.updates})
      for (const Id b : *list) used[b] = true;
  std::vector<bool> in_parts(last.variables.size());  // what every part goes on from
  for (std::size_t a = 0; a < last.assigns.size(); ++a)
    if (a < split_.assigned_in_parts.size() && split_.assigned_in_parts[a])
      in_parts[last.assigns[a].variable] = true;
  std::vector<Variable> away;
  for (std::size_t b = 0; b < used.size(); ++b) {
    const Buffer& buffer = lowered.graph.buffers[b];
    if (!used[b] || buffer.origin != Origin::state || !buffer.spillable || buffer.kept) continue;
    const trace::Id variable = last.values[lowered.value_of[b]].index;
    if (!in_parts[variable]) away.push_back(last.variables[variable]);
  }
  return away;
}

std::vector<Searched> Passes::searched(const Traced& traced, Policy policy, double effort,
                                       bool at_once) const {
  std::vector<Variable> away;
  const bool parts = traced.parts > 1;
  if (parts && policy.spilling >= Spilling::state)
    away = can_be_away(traced.passes.back(), policy.spilling == Spilling::streamed);
  std::vector<Searched> result(traced.passes.size());
  const auto search = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      result[i] = searched(traced.passes[i], policy, effort, parts ? &away : nullptr);
  };
  if (at_once) {
    pool::parallel_for(result.size(), 1, search);
  } else {
    search(0, result.size());
  }
  return result;
}

// `away`: what lies in the file whatever the plan, as every pass of a batch in parts has to find a
// variable where the others leave it.
Searched Passes::searched(trace::Trace trace, Policy policy, double effort,
                          const std::vector<Variable>* away) const {
  const Spilling spilling = policy.spilling;
  Searched s = ready(std::move(trace), policy, options_.fuse, machine_);
  for (std::size_t b = 0; away && b < s.lowered.graph.buffers.size(); ++b) {
    Buffer& buffer = s.lowered.graph.buffers[b];
    if (buffer.origin != Origin::state) continue;
    const Variable& v = s.trace.variables[s.trace.values[s.lowered.value_of[b]].index];
    buffer.away = std::find(away->begin(), away->end(), v) != away->end();
    buffer.spillable = buffer.away;
  }
  SearchOptions o;
  o.recompute = options_.recompute;
  o.effort = options_.recompute || spilling != Spilling::none ? effort : kEffortForOrder;
  o.spill.allowed = spilling != Spilling::none;
  o.spill.state_allowed = spilling >= Spilling::state;
  o.spill.write_seconds_per_byte = 1 / machine_.spill_write;
  o.spill.read_seconds_per_byte = 1 / machine_.spill_read;
  o.spill.seconds_per_transfer = kTransferSeconds;
  o.spill.busy = machine_.spill_busy * std::min(machine_.spill_write, machine_.spill_read);
  s.frontier = search(s.lowered.graph, o);
  return s;
}

}  // namespace ebb::plan
