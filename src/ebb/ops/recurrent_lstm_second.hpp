// The way back of lstm once more, step by step in plain ops: slow, for the second order only.
#pragma once

#include <array>
#include <vector>

#include "ebb/ops/recurrent_shapes.hpp"

namespace ebb::ops::recurrent {

// What lstm_backward is given. `to_gates` and `to_cells`, empty or not, flow into the kept values
// themselves.
struct LstmWayBack : GivenBack {
  Tensor gates, cells, weight;
  Along along;
  Tensor to_gates{}, to_cells{};
};

// The values of the walk, by time: gradients of h, of c and of the gates before activation.
struct LstmWalk {
  std::vector<Tensor> dh, dc, da;
  Tensor dh_first, dc_first;                // of the state
  std::array<Tensor, 2> gradients() const;  // of gates_in and of the state
};
LstmWalk walk_back(const LstmWayBack& way);

// Gradients of what lstm_backward is given, from those of its two results.
struct LstmSecond {
  Tensor gates, cells, weight, state, dh, dlast;
};
LstmSecond second_order(const LstmWayBack& way, const Tensor& of_dgates, const Tensor& of_dstate);

}  // namespace ebb::ops::recurrent
