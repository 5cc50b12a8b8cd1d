// A searched trace becomes a Program: one of its schedules with an offset for everything that lies
// in the arena; and what stands in memory where that schedule is at its largest.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "ebb/plan/forecast/forecast.hpp"
#include "ebb/plan/graph/lower.hpp"
#include "ebb/plan/search/search.hpp"
#include "ebb/trace/trace.hpp"

namespace ebb::plan {

inline constexpr std::uint64_t kOutside = std::numeric_limits<std::uint64_t>::max();

// One run over the batch, or over a micro-batch of it. A batch that is split has two programs: one
// for every micro-batch before the last, which adds to the sums, and one for the last, which
// updates. (A plan for a smaller batch may have a third, for what is left.)
struct Program {
  trace::Trace trace;
  Lowered lowered;
  Schedule schedule;
  std::vector<std::uint64_t> offsets;  // per instance, in the arena; kOutside: not in it
  std::vector<std::uint64_t> scratch;  // per step, likewise
  std::uint64_t arena = 0;
  std::uint64_t resident = 0;    // variables that stay in memory although they may be spilled
  std::vector<Id> result_index;  // per result of the trace: which of the step's; empty: in order
  std::uint64_t first_slot = 0;  // of its buffers, among the activations of the spill file
  bool operator==(const Program&) const = default;
};

// A trace with the frontier of its schedules.
struct Searched {
  trace::Trace trace;
  Lowered lowered;
  std::optional<ScheduleFront> front;
};

// The fastest schedule of at most `load`; the arena begins with `carry` bytes of sums that go on
// from micro-batch to micro-batch.
Program packed(const Searched& searched, std::uint64_t load, std::uint64_t carry);
Program packed(trace::Trace trace, Lowered lowered, Schedule schedule, std::uint64_t carry);
std::vector<Program> packed(std::span<const Searched> searched, std::uint64_t load,
                            std::uint64_t carry);

// Bytes for all of them, one after the other, with variables that stay in memory though others are
// spilled.
std::uint64_t arena_of(std::span<const Program> programs);

// Of constants. Views of one another, and what several programs hold, are counted once.
std::uint64_t constants_of(std::span<const Searched> searched);  // as the memory seam counts them
std::uint64_t constants_of(std::span<const Program> programs);

// Variables that these keep in the spill file.
std::vector<Variable> spilled_variables(std::span<const Program> programs);

// Bytes that are live at each step of the schedule, given ones and its scratch included.
std::vector<std::uint64_t> live_bytes(const Program& program);
// Adds what is in memory at the peak of all, by category, and names the op that runs there.
void describe_peak(std::span<const Program> programs, Forecast& forecast);

}  // namespace ebb::plan
