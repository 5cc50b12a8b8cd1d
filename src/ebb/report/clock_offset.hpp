// How far the clocks of ranks are apart, by messages to and fro.
#pragma once

#include <cstdint>

#include "ebb/base/messages/ranks.hpp"

namespace ebb::report {

struct ClockOffset {
  std::int64_t at = 0;  // of this rank's clock (timeline::nanoseconds_now), when it was measured
  std::int64_t offset = 0;  // to be added to it, for that of rank 0
};

// All ranks make this call. Off by half of the quickest way to rank 0 and back, at most.
ClockOffset clock_offset(Ranks& ranks);

// Two of them, measured at two moments: the time of rank 0's clock, also where this one goes faster.
class AlignedClock {
 public:
  AlignedClock() = default;
  AlignedClock(const ClockOffset& first, const ClockOffset& last) : first_(first), last_(last) {}
  std::int64_t operator()(std::int64_t of_here) const;

 private:
  ClockOffset first_, last_;
};

}  // namespace ebb::report
