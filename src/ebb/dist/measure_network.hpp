// How long messages take between the ranks of a world, as its own thread for messages sends them.
#pragma once

#include <vector>

#include "ebb/dist/world.hpp"
#include "ebb/plan/forecast/network.hpp"

namespace ebb::dist {

struct Link {  // between two neighbours of the ring
  int from = 0, to = 0;
  double seconds_per_message = 0, bytes_per_second = 0;
};

struct Measured {
  std::vector<Link> links;
  plan::Network network;  // the slowest of each: a ring is as fast as that
};

// About a tenth of a second for each link, one after the other; all ranks get the same. Takes 64 MiB from the
// memory seam on the two that measure. An Error in a world of one.
Measured measure_network(World& world);

}  // namespace ebb::dist
