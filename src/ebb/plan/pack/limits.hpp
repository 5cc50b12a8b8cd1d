// The numbers by which packing shares out its work. Found with the MiniMalloc instances
// (tests/plan/pack) and the plans of the models in benches/; any of them gives a packing that is right.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ebb::plan {

struct PackLimits {
  // Of a plan, in blocks looked at (PackOptions::effort): some tens of milliseconds. It stops at an
  // arena that is above the load by less than one over `enough_divisor` of it.
  std::uint64_t plan_effort = 8'000'000;
  std::uint64_t enough_divisor = 200;

  // Best fit in time looks at so many blocks for the longest that fits into a gap.
  int fit_looks = 64;
  // First fit is tried again so often, with the blocks that came to lie too high in front.
  int first_fit_rounds = 6;

  // Blocks of a core: beyond, no search. What it remembers grows with their square, and planning has
  // to stay small in memory, too.
  std::size_t searchable_blocks = 600;
  // Looks for each block of the fullest core, before anything that takes time with all blocks.
  std::uint64_t soon_looks = 1500;
  // A search ends where what is left between its goal and the best is below one over this much.
  std::uint64_t close_divisor = 1000;
  // Weight of one failure of a block; a tenth of all weight fades at a restart.
  std::uint64_t failure_weight = 1000;
};

inline constexpr PackLimits kPack;

}  // namespace ebb::plan
