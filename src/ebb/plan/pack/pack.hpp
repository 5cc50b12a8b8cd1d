// Where every buffer of a plan lies in the arena: blocks that are alive at the same step never
// share a byte, and the arena is as small as it can be made.
//
// No arena is smaller than the load, the most bytes alive at one step, and nearly always one of
// that size exists. Quick constructions find it, or come close, for the profile of a training step,
// where lifetimes nest. Where they do not, a search fills the arena from below (pack_search.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ebb::plan {

struct Block {
  std::int64_t first = 0, last = 0;  // alive from step first up to but not including last
  std::uint64_t bytes = 0;
  std::uint64_t alignment = 1;  // of its offset, where that of all is not enough; a power of two
  bool operator==(const Block&) const = default;
};

struct Packing {
  // Parallel to the blocks; 0 for one that is empty or never alive.
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;  // the end of the highest block
  bool operator==(const Packing&) const = default;
};

struct PackOptions {
  std::uint64_t alignment =
      64;  // of every offset, at least: a power of two; sizes are rounded up to it
  std::uint64_t enough = 0;  // stop as soon as bytes <= enough; below the load: aim at the load
  // When to give up the search, counted in blocks looked at (a few nanoseconds each), not in
  // seconds: the answer is the same on every machine.
  std::uint64_t effort = 80'000'000;
};

// The most bytes alive at one step, sizes rounded up: no packing is smaller.
std::uint64_t load(std::span<const Block> blocks, std::uint64_t alignment = 1);

Packing pack(std::span<const Block> blocks, PackOptions options = {});

}  // namespace ebb::plan
