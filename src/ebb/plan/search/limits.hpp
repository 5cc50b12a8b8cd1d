// The numbers by which a search shares out its work. Found by comparing with optima of small graphs
// (tools/optimum) and with long searches of large ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ebb/plan/graph/graph.hpp"

namespace ebb::plan {

struct SearchLimits {
  Id exhaustive_nodes = 64;  // up to here every neighbour of every plan is tried
  // A small graph may be a hard one: so much more work goes into it, while that finds better plans.
  std::uint64_t exhaustive_work = 8;
  Id shaken_nodes = 400;       // up to here plans are shaken, and all levels of tiles walked
  Id two_orders_nodes = 2000;  // up to here two orders are followed
  std::size_t most_levels = 6 * Tile::kToHalf;  // of tiles: down to a 64th of the scratch
  double coarse_effort = 0.1;  // with less than this, only a few plans are made in one go
  // Positions replayed at an effort of 1, some 60 ns each: for each node, of so many at least; and
  // for each of a graph that is large.
  double positions = 600;
  Id least_nodes = 1000;
  double positions_of_large = 450;

  // Seed plans. A buffer waits where its next use is further than so many positions; recomputing is
  // priced where these parts of the bytes that wait are cheaper; segments are at least so long.
  Id short_wait = 3;
  std::array<double, 5> priced_parts = {0.5, 0.75, 0.9, 0.97, 0.995};
  Id least_segment = 4;
  // Extras for each node: more is what runs again all the way back.
  std::size_t most_extras = 2;

  // A descent. Nodes that one eviction may run again; rounds that may pass without a lower peak.
  std::size_t most_run_again = 256;
  int patience = 6;

  // Refining. Extras that are taken back by trial, one at a time; stages that one is moved by, at
  // most; what a plan has to gain, as a share of the seconds, for the search to go on from it.
  std::size_t taken_back_singly = 48;
  Id most_shift = 6;
  double worth_going_on = 2e-3;
};

inline constexpr SearchLimits kSearch;

}  // namespace ebb::plan
