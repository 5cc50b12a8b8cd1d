// What the machine can do: the yardstick of the compute-bound kernels.
#pragma once

namespace ebb::bench {

// f32 multiply-adds from registers alone, on `threads` threads at once, in GFLOP/s (an FMA counts
// two). One reading of about 2 ms; take the best of several.
double fma_peak(int threads);

}  // namespace ebb::bench
