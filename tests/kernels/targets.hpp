// The targets kernels are built for, of those this machine has.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hwy/targets.h"

namespace ebb::kernels {

inline bool has_fma(std::int64_t target) {
  return (target & (HWY_SSSE3 | HWY_SSE4 | HWY_SCALAR | HWY_EMU128)) == 0;
}

// f(target) with each of them alone, then the best is used again.
template <class F>
void for_each_target(F&& f) {
  const std::int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  for (std::int64_t rest = all; rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(hwy::TargetName(target));
    f(target);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// For tests with the target as their parameter.
inline std::vector<std::int64_t> targets() {
  std::vector<std::int64_t> all;
  for (const std::int64_t t : {HWY_SSE4, HWY_AVX2, HWY_AVX3, HWY_NEON})
    if (hwy::SupportedTargets() & t) all.push_back(t);
  return all;
}
inline std::string target_name(const testing::TestParamInfo<std::int64_t>& info) {
  return hwy::TargetName(info.param);
}

}  // namespace ebb::kernels
