// The numbers by which a search shares out its work. Found by comparing with optima of small graphs
// (tools/optimum) and with long searches of large ones.
#pragma once

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
};

inline constexpr SearchLimits kSearch;

}  // namespace ebb::plan
