// Activations that wait for the walk back wait in 16 bits. Approximate, on request only.
//
//   %3 = gelu(%2) … %9 = gelu_backward(%2, %8)
//   becomes
//   %3 = gelu(%2); %4 = store[bf16](%2) … %8 = cast[f32](%4); %9 = gelu_backward(%8, %7)
//
// The forward pass and the loss keep their bits: only the saved copy is rounded. A backward call
// that reads 16 bits itself, such as a matrix product, is given the copy as it is. All of them are
// calls like any other, for the planner to move, to spill and to repeat.
#pragma once

#include "ebb/trace/trace.hpp"

namespace ebb::trace {

struct StoredHalf {
  Trace trace;
  std::int64_t values = 0;   // that are stored in 16 bits
  std::uint64_t before = 0;  // their bytes as they were
};

// `type` is bf16 or f16. Small ones, and those that are read back soon, stay as they are.
StoredHalf stored_half(const Trace& trace, DType type);
bool stores_half(const Trace& trace);  // whether anything is, in a trace that was given back

}  // namespace ebb::trace
