// Compiled with the flags of the kernels, so that it sees the targets that they were compiled for.
#include "apps/ebb/simd.hpp"

#include <hwy/highway.h>

namespace ebb::app {

Simd simd() {
  Simd found;
  const std::int64_t built = HWY_TARGETS, here = hwy::SupportedTargets() & built;
  // Better targets have lower bits.
  const std::int64_t best = here ? here & -here : HWY_STATIC_TARGET;
  found.used = hwy::TargetName(best);
  for (std::int64_t left = built; left != 0; left &= left - 1)
    found.built.emplace_back(hwy::TargetName(left & -left));
  found.fused = best != HWY_SSE4;
  return found;
}

}  // namespace ebb::app
