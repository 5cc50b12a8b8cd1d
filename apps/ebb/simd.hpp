// The instructions that the kernels use on this machine.
#pragma once

#include <string>
#include <vector>

namespace ebb::app {

struct Simd {
  std::string used;                // "AVX2"
  std::vector<std::string> built;  // what the kernels were compiled for, best first
  bool fused = true;               // it has fused multiply-add
};
Simd simd();

}  // namespace ebb::app
