// Quick ways to pack, each one pass over the blocks: what pack() tries before it searches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ebb/plan/pack/pack_search.hpp"

namespace ebb::plan {

using Rectangles = std::vector<Rectangle>;
using Offsets = std::vector<std::uint64_t>;  // parallel to the rectangles

// Always at the lowest stretch of the skyline, the longest block that fits between the walls; where
// none does, the stretch is filled up to the lower wall. Exact where lifetimes nest.
Offsets skyline(const Rectangles& blocks, int sections);

// As an allocator would, in the order of time: the smallest gap that is large enough.
Offsets best_fit_in_time(const Rectangles& blocks);

// Each block in turn at the lowest place that is free for all its life. The first `fixed` of the
// order lie where `offsets` has them. Takes time with the square of the number of blocks.
Offsets first_fit(const Rectangles& blocks, const std::vector<int>& order, Offsets offsets = {},
                  std::size_t fixed = 0);

}  // namespace ebb::plan
