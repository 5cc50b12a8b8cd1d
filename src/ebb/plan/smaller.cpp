#include "ebb/plan/smaller.hpp"

#include <algorithm>
#include <utility>

#include "ebb/plan/schedules.hpp"
#include "ebb/plan/split/can_split.hpp"
#include "ebb/trace/passes.hpp"
#include "ebb/trace/pipeline.hpp"

namespace ebb::plan {
namespace {

using trace::MicroBatch;

Policy policy_of(const Plan& p) {
  Policy policy;
  policy.gradient_blocks = p.chosen.gradient_blocks > 0;
  policy.stored = p.chosen.activations;
  bool streamed = false;
  for (const Program& program : p.programs) streamed |= !program.lowered.streams.empty();
  policy.spilling = streamed                 ? Spilling::streamed
                    : p.chosen.state_spilled ? Spilling::state
                                             : Spilling::none;  // to the graph, as activations
  return policy;
}

bool same_calls(const Program& larger, const trace::Trace& t, const Lowered& lowered) {
  const Lowered& from = larger.lowered;
  const trace::Trace& was = larger.trace;
  if (t.variables != was.variables || t.results.size() != was.results.size() ||
      t.carry.size() != was.carry.size() || t.before.size() != was.before.size() ||
      lowered.call.size() != from.call.size() || lowered.copies != from.copies ||
      lowered.streams != from.streams || lowered.streamed != from.streamed ||
      lowered.sum_of != from.sum_of || lowered.result_of != from.result_of ||
      lowered.graph.buffers.size() != from.graph.buffers.size())
    return false;
  for (std::size_t k = 0; k < t.carry.size(); ++k) {
    if ((t.carry[k] == trace::kNone) != (was.carry[k] == trace::kNone)) return false;
    if (t.carry[k] != trace::kNone && t.values[t.carry[k]].spec != was.values[was.carry[k]].spec)
      return false;
  }
  for (std::size_t k = 0; k < t.before.size(); ++k)
    if (t.before[k].name != was.before[k].name || t.before[k].spec != was.before[k].spec)
      return false;
  for (std::size_t n = 0; n < from.call.size(); ++n) {
    const Node &a = lowered.graph.nodes[n], &b = from.graph.nodes[n];
    if (&t.calls[lowered.call[n]].op.type() != &was.calls[from.call[n]].op.type() || a.in != b.in ||
        a.out != b.out || a.updates != b.updates || a.reuse != b.reuse)
      return false;
  }
  for (std::size_t b = 0; b < from.graph.buffers.size(); ++b) {
    const Buffer &x = lowered.graph.buffers[b], &y = from.graph.buffers[b];
    if (x.bytes > y.bytes || x.origin != y.origin || x.kept != y.kept) return false;
  }
  return true;
}

// The larger program's schedule and places, for a trace that makes the same calls; the arena begins
// with `carry` bytes of sums over micro-batches.
std::optional<Program> in_place_of(const Program& larger, Searched made, std::uint64_t carry,
                                   std::uint64_t most) {
  if (!same_calls(larger, made.trace, made.lowered)) return std::nullopt;
  Schedule schedule = larger.schedule;
  bool fits = true;
  for (Step& step : schedule.steps) {
    if (step.kind != Step::Kind::run) continue;
    const Node& node = made.lowered.graph.nodes[step.node];
    const std::uint64_t least = node.tiles.empty() ? node.scratch : node.tiles.back().scratch;
    fits &= least <= step.scratch;
    step.scratch = std::min(node.scratch, std::max(step.scratch, least));
  }
  Program p;
  if (fits) {
    p.trace = std::move(made.trace);
    p.lowered = std::move(made.lowered);
    p.schedule = std::move(schedule);
    p.offsets = larger.offsets;
    p.scratch = larger.scratch;
    p.arena = larger.arena;
    p.resident = larger.resident;
  } else {
    p = packed(std::move(made.trace), std::move(made.lowered), std::move(schedule), carry);
    if (p.arena > most) return std::nullopt;
  }
  p.first_slot = larger.first_slot;
  p.result_index = larger.result_index;
  return p;
}

class Smaller {
 public:
  Smaller(const Plan& larger, const trace::TraceBatch& trace_batch, const CompileOptions& options,
          const Machine& machine)
      : larger_(larger),
        trace_batch_(trace_batch),
        options_(options),
        machine_(machine),
        policy_(policy_of(larger)) {}

  std::optional<Plan> plan(std::int64_t examples) {
    if (larger_.chosen.mixed || examples < 1) return std::nullopt;
    Plan p = larger_;
    p.examples = examples;
    p.programs.clear();
    p.runs.clear();
    p.forecast.measured = {};
    trace::Trace whole = trace::simplified(trace_batch_(examples, MicroBatch::whole));
    p.result_specs.clear();
    for (const trace::Id id : whole.results) p.result_specs.push_back(whole.values[id].spec);
    if (larger_.divided()) return divided(std::move(p));
    if (larger_.programs.size() == 1 && larger_.carry_bytes == 0) {
      whole.carry.clear();
      if (!add(p, larger_.programs[0], specialized(std::move(whole)), 0, examples, 1))
        return std::nullopt;
      return p;
    }
    whole = {};
    if (!count(examples)) return std::nullopt;
    // As many micro-batches of the larger's size as there are, one of what is left, and a last one
    // that is no larger than the larger's last.
    const Program& before = larger_.programs.front();
    const std::int64_t size = larger_.chosen.micro_batch;
    const std::int64_t at_end = std::min(larger_.runs.back().examples, examples);
    const std::int64_t full = (examples - at_end) / size, left = (examples - at_end) % size;
    if (full > 0 && !add(p, before, accumulating(size), 0, size, full)) return std::nullopt;
    if (left > 0 && !add(p, before, accumulating(left), full * size, left, 1)) return std::nullopt;
    if (!add(p, larger_.programs.back(), last(at_end), examples - at_end, at_end, 1))
      return std::nullopt;
    return p;
  }

 private:
  // The same micro-batches, as far as there are rows; then what updates.
  std::optional<Plan> divided(Plan p) {
    examples_ = p.examples;
    if (larger_.rank_sums.possible())
      all_ = trace::simplified(trace_batch_(p.examples, MicroBatch::last));
    else if (!count(p.examples))
      return std::nullopt;
    const std::int64_t rows = p.part.rows(p.examples), size = larger_.chosen.micro_batch;
    const std::int64_t full = rows / size, left = rows % size;
    for (std::size_t i = 0; i < p.result_specs.size(); ++i)
      if (p.result_per_example[i])
        p.result_specs[i] =
            p.result_specs[i].with_axis(0, p.result_specs[i].shape[0] / p.examples * rows);
    const Program& adding = larger_.programs.front();
    if (full > 0 && !add(p, adding, accumulating(size), 0, size, full)) return std::nullopt;
    if (left > 0 && !add(p, adding, accumulating(left), full * size, left, 1)) return std::nullopt;
    const std::int64_t some = rows == 0 ? 1 : std::min(rows, size);
    const trace::Trace t = trace::after_sums(last(some), p.result_per_example);
    if (!add(p, larger_.programs.back(), t, rows, 0, 1)) return std::nullopt;
    return p;
  }
  // A program for these examples in the place of one of the larger plan, run so many times.
  bool add(Plan& p, const Program& larger, trace::Trace t, std::int64_t first,
           std::int64_t examples, std::int64_t times) const {
    const trace::RewriteChoices like = trace::choices_of(larger.trace);
    std::optional<Program> program =
        in_place_of(larger, lowered(std::move(t), policy_, options_.fuse, machine_, &like),
                    larger_.carry_bytes, larger_.arena);
    if (!program) return false;
    for (std::int64_t i = 0; i < times; ++i)
      p.runs.push_back({static_cast<int>(p.programs.size()), first + i * examples, examples});
    p.programs.push_back(std::move(*program));
    return true;
  }
  trace::Trace specialized(trace::Trace t) const {
    return trace::specialized(std::move(t), {.stored = policy_.stored});
  }
  // What counts the examples of the batch counts those of this one, in every micro-batch.
  bool count(std::int64_t examples) {
    all_ = trace::simplified(trace_batch_(examples, MicroBatch::last));
    examples_ = examples;
    if (all_.constants.size() != larger_.micro_batch_constants) return false;
    counts_.constants = larger_.micro_batch_constants;
    for (const trace::Id id : larger_.counts) counts_.counts.push_back({id, all_.constants[id]});
    return true;
  }
  trace::Trace last(std::int64_t examples) const {
    if (larger_.rank_sums.possible())
      return specialized(with_rank_sums(trace::simplified(trace_batch_(examples, MicroBatch::last)),
                                        larger_.rank_sums, all_));
    trace::Trace t = trace::simplified(trace_batch_(examples, MicroBatch::last));
    if (const std::string why = why_different(t, examples, all_, examples_, counts_); !why.empty())
      throw Error(why);
    if (!with_counts(t, counts_))
      throw Error("the number of constants depends on how many examples there are");
    return specialized(std::move(t));
  }
  trace::Trace accumulating(std::int64_t examples) const {
    const trace::Trace full = last(examples);
    return trace::before_last(full, larger_.result_per_example,
                              std::vector<bool>(full.assigns.size(), false));
  }

  const Plan& larger_;
  const trace::TraceBatch& trace_batch_;
  const CompileOptions& options_;
  const Machine& machine_;
  Policy policy_;
  trace::Trace all_;  // the whole batch, as a last micro-batch
  std::int64_t examples_ = 0;
  SplitAnswer counts_;
};

}  // namespace

std::optional<Plan> smaller(const Plan& larger, const trace::TraceBatch& trace_batch,
                            std::int64_t examples, const CompileOptions& options,
                            const Machine& machine) {
  try {
    return Smaller(larger, trace_batch, options, machine).plan(examples);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {  // the function does not take it: whoever plans anew says why
    return std::nullopt;
  }
}

}  // namespace ebb::plan
