// Where a number became infinite or NaN first: for the error of a run that stops because of it.
//
//   first_bad(batch, {.variables = variables(model), .params = adam.params(), .draws = draws},
//             [&](const Batch& b) { return model.loss(b); });
//   // "log in head, on the way forward, made -inf at [3, 7] of f32(64, 10) from numbers that were finite"
//
// The batch is looked at first, then the weights; then the loss and its gradient are computed once more, on the
// tape, with a look at what every call gives. That is slow and takes the memory of a step without a plan; where
// the budget has not that much, the batch is taken in parts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ebb/data/batch.hpp"
#include "ebb/ops/loss.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::train {

// "up.weight holds inf at [3, 7] of f32(64, 10)"; "" where all of them are finite. Read in pieces, as fast as memory.
std::string bad_variable(const std::vector<Variable>& variables);

// What a batch was given that is no number.
struct BadInput {
  std::string column;
  std::int64_t row = 0;  // of the batch
  double value = 0;
};
std::optional<BadInput> bad_input(const Batch& batch);

struct BadSearch {
  std::vector<Variable> variables;  // of the model
  std::vector<Variable> params;     // by which the gradient is taken
  random::State draws = {};         // those that the step began with
  double loss_scale = 1;            // likewise
};
// Random draws and variables are as they were before. "": nothing bad was found.
std::string first_bad(const Batch& batch, const BadSearch& search,
                      const std::function<Loss(const Batch&)>& loss);

}  // namespace ebb::train
