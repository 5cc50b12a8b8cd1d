// d output / d input for any number of rows, in chunks that fit a budget. No gradients of parameters are
// made, and no more than one chunk's activations are held.
//
//   Tensor saliency = input_gradients([&](const Tensor& x) { return model(x); }, x, {.memory = 64_MiB});
//   input_gradients(score, "rows.npy", "gradients.npy");   // from file to file
#pragma once

#include <functional>
#include <string>

#include "ebb/plan/plan.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb {

struct InputGradientOptions {
  Memory memory = ByteSize{std::uint64_t{32} << 20};  // beside input, output and the runtime
  std::int64_t rows = 0;                              // of a chunk; 0: as many as are fast and fit
};

using RowFunction = std::function<Tensor(const Tensor& rows)>;

// Of the sum of what fn gives for each row, by that row: same shape as x. Rows must not depend on
// each other; a function that mixes them is refused by name.
Tensor input_gradients(const RowFunction& fn, const Tensor& x,
                       const InputGradientOptions& options = {});

// From an .npy file of f32 or f64 to another one of the same shape, read and written chunk by chunk.
void input_gradients(const RowFunction& fn, const std::string& from, const std::string& to,
                     const InputGradientOptions& options = {});

}  // namespace ebb
