// What a program would take if it held its data otherwise: rows in memory, or left in their files. Whoever says so
// goes that way where it is what fits, so that the smallest budget is that of the way that takes least.
#pragma once

#include <cstdint>
#include <optional>

namespace ebb::exec {

// Beside what it takes as it is; below 0: less.
struct OtherWay {
  std::int64_t held = 0;     // of the program's own tensors
  std::int64_t dealing = 0;  // of dealing out batches
};

struct OtherWays {
  std::optional<OtherWay> in_files = {},
                          in_memory = {};  // with all rows there; none: as they are now
  // Rows are in memory in budgets from this on, and in their files below, unless only the other way fits.
  std::uint64_t in_memory_from = 0;
  bool any() const { return in_files || in_memory; }
};

}  // namespace ebb::exec
