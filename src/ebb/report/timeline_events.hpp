// What a process has recorded (base/timeline.hpp), as slices for ChromeEvents: one group of tracks for each rank.
//
//   computing    steps, micro-batches, layers by their scopes, calls, and what is waited for
//   messages     what is sent, until it is gone; a second and third track where several are under way
//   received     a mark where a message is here; an arrow leads to it from where it began
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ebb/base/timeline.hpp"
#include "ebb/report/chrome_events.hpp"

namespace ebb::report {

struct RecordedBy {
  int rank = 0;
  std::string host;                                // "": a process alone
  std::function<std::int64_t(std::int64_t)> time;  // of this process's clock, by the clock of all
};

// The recording has been stopped; its events are sorted.
void write(timeline::Recording& recording, const RecordedBy& by, ChromeEvents& to);

}  // namespace ebb::report
