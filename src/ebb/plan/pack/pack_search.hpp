// The search behind pack(): fits rectangles into a strip of fixed height, or gives up.
//
// Time is cut into sections, one for each largest set of blocks alive together; a rectangle covers
// a run of sections. The search fills the strip from below. At each turn it takes the section whose
// free space begins lowest and asks which rectangle lies there: each that can, then none of them.
// Four things keep it small:
//
//   bounds      in a section, what is still to be placed must fit above the places it can reach
//   parts       once nothing to be placed spans a cut in time, both sides are solved on their own
//   jumps       a failure remembers the placements it rests on; those it does not are not varied.
//               What is remembered is the nearest cause, not every one: a packing may be missed
//   restarts    rectangles that had a part in failures are tried first next time
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ebb::plan {

struct Rectangle {
  std::int32_t first = 0, last = 0;  // sections, last not included
  std::uint64_t bytes = 0;           // not 0
  std::uint64_t alignment = 1;       // of its offset: a power of two

  std::uint64_t at_or_above(std::uint64_t offset) const {
    return (offset + alignment - 1) & ~(alignment - 1);
  }
};

// Offsets that keep all rectangles below `capacity`, or an empty vector. `work`, the number of
// rectangles it may look at, is counted down.
std::vector<std::uint64_t> search_packing(std::span<const Rectangle> rectangles,
                                          std::uint64_t capacity, std::uint64_t& work);

}  // namespace ebb::plan
