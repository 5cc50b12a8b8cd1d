// How fast this machine is, in the terms in which ops declare their cost.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "ebb/ops/op.hpp"

namespace ebb::plan {

struct Machine {
  // Of all threads together, a second.
  struct Speed {
    double flops = 50e9;
    double cached = 40e9;  // bytes, of what fits into the cache
    double far = 10e9;     // bytes, of what no cache holds
    bool operator==(const Speed&) const = default;
  };
  int threads = 1;
  bool sound = true;  // nothing had to be guessed, for want of memory or as others used the machine
  std::array<Speed, ops::kWorks> speeds{};  // by kind of work
  double bytes = 10e9;        // a second, of what is too much for the caches near the cores
  double cache = 1 << 20;     // bytes of those, of the cores that the threads run on
  double shared_cache = 8e6;  // bytes of the last cache before memory that a step can count on
  double seconds_per_call = 2e-7;
  double seconds_per_fork = 3e-6;  // what it costs to put all threads to work on a call
  // Of a disk, by with_spill_speed: bytes a second while all threads compute, and the seconds that
  // they lose to each byte.
  double spill_write = 1e9, spill_read = 1e9, spill_busy = 0.15e-9;

  Speed& speed(ops::Work work) { return speeds[static_cast<std::size_t>(work)]; }
  const Speed& speed(ops::Work work) const { return speeds[static_cast<std::size_t>(work)]; }
  double seconds(const ops::Cost& cost, double far = 0) const;  // far: part of the bytes
  bool operator==(const Machine&) const = default;
};

inline constexpr std::uint64_t kAmple = std::numeric_limits<std::uint64_t>::max();

// Measured in about a quarter of a second when first asked for, and kept in a small file
// ($XDG_CACHE_HOME/ebb or ~/.cache/ebb; EBB_MACHINE names another, "off" measures anew), so that
// plans are the same from start to start. `room`: bytes that the process may still take. What is not
// sound is measured again after an hour.
const Machine& this_machine(std::uint64_t room = kAmple);

// With the speed of the disk under `directory`, measured in about a tenth of a second when first
// asked for, and kept beside the machine's. Where nothing can be written there, as `machine` has it.
Machine with_spill_speed(const Machine& machine, const std::string& directory,
                         std::uint64_t room = kAmple);

// Anew, on all threads: one op of each kind of work, in less than 1 MiB, in the caches and out of
// them; and the speed of the shared cache, in some more where there is room for that (calibrate.cpp).
Machine measured(std::uint64_t room = kAmple);

std::string to_string(const Machine& m);  // the file's content
bool parse(const std::string& text, Machine& into);

}  // namespace ebb::plan
