// The second stage of the planner: of all candidates, the smallest there is and the fastest that
// fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ebb/plan/candidates.hpp"

namespace ebb::plan {

struct SmallestCandidate {
  std::size_t candidate = 0;
  Smallest plan;
};

// Candidates that may be the smallest are searched finely; only what can be is packed to know.
SmallestCandidate find_smallest(const Problem& problem, Candidates& candidates);

struct Choice {
  std::size_t candidate = 0;
  std::uint64_t load = 0;  // of its schedules, at most
  std::vector<Program> programs;
  std::uint64_t arena = 0;  // with variables that stay in memory though others are spilled
};

// The fastest candidate that fits `budget`, or kOutside, when packed; nothing where none does.
// Others are looked for beside it, and it is searched finely, before it is taken.
std::optional<Choice> choose(const Problem& problem, Candidates& candidates, std::uint64_t budget);

}  // namespace ebb::plan
