// A searched trace becomes a Program: one of its schedules with an offset for everything that lies
// in the arena; and what stands in memory where that schedule is at its largest.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ebb/plan/plan.hpp"
#include "ebb/plan/search/search.hpp"

namespace ebb::plan {

// A trace with the frontier of its schedules.
struct Searched {
  trace::Trace trace;
  Lowered lowered;
  std::optional<Frontier> frontier;
};

constexpr std::uint64_t paged(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// The fastest schedule of at most `load`; the arena begins with `carry` bytes of sums over parts.
Program packed(const Searched& searched, std::uint64_t load, std::uint64_t carry);
Program packed(trace::Trace trace, Lowered lowered, Schedule schedule, std::uint64_t carry);
std::vector<Program> packed(std::span<const Searched> passes, std::uint64_t load,
                            std::uint64_t carry);

// Bytes for all of them, one after the other, with variables that stay in memory though others are
// spilled.
std::uint64_t arena_of(std::span<const Program> programs);

// Of constants. Views of one another, and what several passes hold, are counted once.
std::uint64_t constants_of(std::span<const Searched> passes);

// Bytes that are live at each step of the schedule, given ones and its scratch included.
std::vector<std::uint64_t> live_bytes(const Program& program);
// Adds what is in the arena at the program's peak, by category, and names the op that runs there.
void describe_peak(const Program& program, Forecast& forecast);

}  // namespace ebb::plan
