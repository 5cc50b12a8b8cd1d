// The caches of this machine: how much they hold, and how to have nothing in them.
#pragma once

#include <cstddef>
#include <string>

namespace ebb::plan {

// Bytes near the cores that so many threads run on.
double near_cache(int threads);

// Bytes that a step may find again in the last cache before memory, with so many threads: half of what
// there is, as others use it too, and as it loses some of what would just fit. `root`: where the system
// says so, for tests.
double shared_cache(int threads, const std::string& root = "/sys/devices/system/cpu/cpu0/cache");

// What is read next of these bytes comes from memory. Where the machine has no way to ask for that
// nothing is done.
bool can_put_out_of_caches();
void put_out_of_caches(const void* data, std::size_t bytes);

}  // namespace ebb::plan
