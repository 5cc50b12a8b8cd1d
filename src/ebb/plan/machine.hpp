// How fast this machine is, in the terms in which ops declare their cost.
#pragma once

#include <string>

#include "ebb/ops/op.hpp"

namespace ebb::plan {

struct Machine {
  int threads = 1;
  double flops = 50e9;         // a second, of matrix products
  double bytes = 10e9;         // a second, to and from memory
  double cached_bytes = 40e9;  // a second, of what fits into the cache
  double cache = 256 << 10;    // bytes of it, near a core
  double seconds_per_call = 2e-7;
  double seconds_per_fork = 3e-6;              // what it costs to put all threads to work on a call
  double spill_write = 1e9, spill_read = 1e9;  // bytes a second; of a disk, by with_spill_speed

  double seconds(const ops::Cost& cost) const;
  bool operator==(const Machine&) const = default;
};

// Measured in about a tenth of a second when first asked for, and kept in a small file
// ($XDG_CACHE_HOME/ebb or ~/.cache/ebb; EBB_MACHINE names another, "off" measures anew), so that
// plans are the same from start to start.
const Machine& this_machine();

// With the speed of the disk under `directory`, measured in about a tenth of a second when first
// asked for, and kept beside the machine's. Where nothing can be written there, as `machine` has it.
Machine with_spill_speed(const Machine& machine, const std::string& directory);

Machine measured();                       // anew
std::string to_string(const Machine& m);  // the file's content
bool parse(const std::string& text, Machine& into);

}  // namespace ebb::plan
