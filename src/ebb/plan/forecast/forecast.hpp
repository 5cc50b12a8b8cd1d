// What a plan is expected to take, in bytes and in seconds; and what it took.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "ebb/base/memory/ledger.hpp"

namespace ebb::plan {

// What steps took so far, beside what was forecast, and what the process took before them. No part of what
// was planned: plans compare equal whatever was measured.
struct Measured {
  std::uint64_t peak_before = 0;  // of the process, when all was planned: reading, planning
  std::uint64_t steps = 0;
  double seconds = 0;  // a step, the median of the last ones
  bool operator==(const Measured&) const { return true; }
};

struct Forecast {
  std::uint64_t arena = 0;    // exact
  std::uint64_t process = 0;  // everything: the peak of resident memory while steps run
  // In the process: with `others`, `gaps` and `runtime` this adds up to it.
  std::array<std::uint64_t, kCategories> at_peak{};  // by category
  std::uint64_t others = 0;   // what the program holds beside the step: its tensors, other models
  std::uint64_t gaps = 0;     // of the arena, between what lies in it
  std::uint64_t runtime = 0;  // code, libraries, stacks, plans
  std::uint64_t reserve = 0;  // what of the budget is set aside for it
  std::string op;             // that runs at the peak
  double seconds = 0;         // a step
  double unlimited_seconds = 0;
  Measured measured;
  std::uint64_t spilled = 0;  // bytes of the disk that the spill file takes
  std::uint64_t peak() const { return std::max(process, measured.peak_before); }
  double overhead() const { return unlimited_seconds > 0 ? seconds / unlimited_seconds - 1 : 0; }
  bool operator==(const Forecast&) const = default;
};

}  // namespace ebb::plan
