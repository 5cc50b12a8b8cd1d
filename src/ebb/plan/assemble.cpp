#include "ebb/plan/assemble.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ebb/base/memory/memory.hpp"
#include "ebb/plan/frontier.hpp"
#include "ebb/trace/store_half.hpp"

namespace ebb::plan {
namespace {

// What the programs of micro-batches hand on to each other, and which of them runs when.
void add_runs(const Problem& problem, const Candidate& c, Plan& p) {
  const MicroBatches& batch = problem.batch;
  const std::int64_t rows = batch.own_rows();
  const int end = static_cast<int>(p.programs.size()) - 1;  // the program that updates
  if (batch.divided()) {
    for (std::int64_t first = 0; first < rows; first += c.micro_batch) {
      const std::int64_t here = std::min(c.micro_batch, rows - first);
      p.runs.push_back({here < c.micro_batch ? end - 1 : 0, first, here});
    }
    p.runs.push_back({end, rows, 0});
  } else {
    for (std::int64_t first = 0, i = 0; i < c.count; ++i, first += c.micro_batch)
      p.runs.push_back({i == c.count - 1 ? end : 0, first, std::min(c.micro_batch, rows - first)});
  }
  p.carry_bytes = c.carry;
  if (!c.split()) return;
  const SplitAnswer& split = problem.batch.split();
  for (const SplitAnswer::Count& count : split.counts) p.counts.push_back(count.constant);
  p.micro_batch_constants = split.constants;
  p.result_per_example = split.result_per_example;
  for (int program = 0; program <= end; ++program)  // a last micro-batch gives all of them
    for (std::size_t i = 0; i < p.result_per_example.size(); ++i)
      if (p.result_per_example[i] != (program == end) && (program < end || batch.divided()))
        p.programs[static_cast<std::size_t>(program)].result_index.push_back(static_cast<Id>(i));
  const trace::Trace& last = p.programs.back().trace;
  std::uint64_t offset = 0;
  for (const trace::Id id : last.carry) {
    p.carry_offsets.push_back(id == trace::kNone ? kOutside : offset);
    if (id != trace::kNone) offset += memory::aligned(last.values[id].spec.bytes());
  }
}

// What is done to the numbers, on request.
std::string approximations(const Problem& problem, const Candidate& c, bool mixed) {
  std::string text;
  if (mixed)
    text = fmt::format("each micro-batch is a batch of its own: {}", problem.batch.split().mixed);
  if (c.policy.stored == DType::f32) return text;
  const trace::StoredHalf half = trace::stored_half(
      problem.batch.traced(c.micro_batch, DType::f32)->traces.back(), c.policy.stored);
  if (!text.empty()) text += "; ";
  return text + fmt::format("activations stored in {}: {} of them, {} instead of {}",
                            name(c.policy.stored), half.values,
                            to_string(ByteSize{half.before / 2}), to_string(ByteSize{half.before}));
}

void forecast(const Problem& problem, const Candidates& candidates, const Candidate& c, Plan& p) {
  const Footprint& footprint = problem.footprint;
  Forecast& f = p.forecast;
  f.arena = p.arena;
  f.runtime = footprint.runtime;
  f.reserve = footprint.reserve;
  f.process = c.fixed - footprint.reserve + footprint.runtime + p.resident + p.arena;
  f.seconds = p.chosen.seconds;
  f.unlimited_seconds = f.seconds;
  for (const Candidate& other : candidates.all)
    f.unlimited_seconds = std::min(f.unlimited_seconds, other.seconds(kOutside));
  describe_peak(p.programs, f);
  if (c.policy.spilling < Spilling::state) {
    const trace::Trace& last = p.programs.back().trace;  // it uses all that the others do
    for (const trace::Value& v : last.values)
      if (v.kind == trace::Kind::variable && v.base == trace::kNone)
        f.at_peak[static_cast<int>(last.variables[v.index].category())] +=
            memory::aligned(v.spec.bytes());
  }
  f.at_peak[static_cast<int>(Category::gradients)] += p.carry_bytes;
  if (c.policy.spilling != Spilling::none)
    f.at_peak[static_cast<int>(Category::workspace)] += footprint.spill_memory;
  f.others = problem.other_bytes();
  f.at_peak[static_cast<int>(Category::data)] += c.given - f.others;
  std::uint64_t told = f.runtime + f.others;
  for (const std::uint64_t bytes : f.at_peak) told += bytes;
  f.gaps = f.process > told ? f.process - told : 0;
}

}  // namespace

Plan assembled(const Problem& problem, const Candidates& candidates, Choice choice, Plan p) {
  const Candidate& c = candidates.all[choice.candidate];
  p.programs = std::move(choice.programs);
  for (std::size_t i = 1; i < p.programs.size(); ++i)
    p.programs[i].first_slot =
        p.programs[i - 1].first_slot + p.programs[i - 1].lowered.graph.buffers.size();
  p.resident = p.programs.back().resident;
  p.arena = choice.arena - p.resident;
  add_runs(problem, c, p);
  p.chosen = point_of(problem, c, c.fixed + choice.arena, c.sample(choice.load));
  // Tiles may have more scratch than the points told.
  p.chosen.seconds += c.waiting(choice.load) - c.seconds(choice.load);
  for (std::size_t i = 0; i < p.programs.size(); ++i)
    p.chosen.seconds += p.programs[i].schedule.seconds * c.times(i);
  p.approximate = approximations(problem, c, p.chosen.mixed);
  forecast(problem, candidates, c, p);
  return p;
}

}  // namespace ebb::plan
