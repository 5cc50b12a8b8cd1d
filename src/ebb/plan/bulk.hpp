// Plans made in one go, to start a descent from: in a long step most of what waits is of a few
// kinds, and what is right for one layer or stretch of time is right for all.
//
// Buffers are told apart by what making them again costs a byte. Up to a price all of them are made
// again where they are used next, in each gap that is not short; above it they go to the spill
// file, or stay. So the states between stretches of time are kept or sent away, and what a stretch
// saves is made again from them.
#pragma once

#include <vector>

#include "ebb/plan/replay.hpp"

namespace ebb::plan {

struct Bulk {
  double price = 0;    // seconds a byte
  bool spill = false;  // what costs more
};

// `all`: the replay that keeps everything. Prices that part what waits by its bytes, rising.
std::vector<double> prices(const Ordered& graph, const Replay& all);
// Empty where nearly everything would run again many times.
Extras in_bulk(const Ordered& graph, const Replay& all, const Bulk& how);

}  // namespace ebb::plan
