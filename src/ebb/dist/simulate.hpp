// How long a step takes that ranks share, by their timetables: a simulation by events, in which nothing runs.
//
//   Simulated step = simulate(timetables(plans, rows, 1000), {.between = {5e-5, 1.25e9}});
//   step.seconds, step.ranks[7].waiting
//
// A message of n bytes begins when both sides have started it. It takes alpha and n beta, and as much longer as
// others use the same way: messages that leave a host, or come to it, have equal parts of its link, each way by
// itself. Ranks on one host copy through its memory, one message of a pair after the other, with a core that then
// computes for nobody. More threads than cores share these.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ebb/dist/timetable.hpp"
#include "ebb/plan/forecast/machine.hpp"
#include "ebb/plan/forecast/network.hpp"

namespace ebb::dist {

struct Cluster {
  plan::Network between = {};  // hosts: of the link that each has, each way
  plan::Network within = {};   // one host: of one message at a time
  double memory_bytes = 0;  // a second, of all that is copied on one host; 0: no limit of their own
  int ranks_per_host = 1;   // rank r is on host r / ranks_per_host
  int threads = 1;          // of a rank
  double cores = 0;         // of a host; 0: one for each thread and message
};

// Hosts like this machine, each with so many ranks; between them the network that is usual.
Cluster cluster_of(const plan::Machine& machine, int ranks_per_host);

struct Simulated {
  struct Rank {
    double busy = 0;         // seconds that it computes
    double waiting = 0;      // for messages and votes, and at the end for those that are slower
    double exposed = 0;      // of that: while what it waits for is on its way
    std::uint64_t sent = 0;  // bytes
    bool operator==(const Rank&) const = default;
  };
  double seconds = 0;  // until the last rank is done
  std::vector<Rank> ranks;
  std::uint64_t messages = 0;
  double waiting() const;  // the part of the ranks' time in which they wait
  double exposed() const;  // likewise
  bool operator==(const Simulated&) const = default;
};

// One timetable for each rank, in order. An Error where ranks wait for each other, or a letter has no other end.
Simulated simulate(std::span<const Timetable> ranks, const Cluster& cluster);

}  // namespace ebb::dist
