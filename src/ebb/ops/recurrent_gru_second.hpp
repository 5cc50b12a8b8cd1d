// The way back of gru once more, step by step in plain ops: slow, for the second order only.
#pragma once

#include <array>
#include <vector>

#include "ebb/ops/recurrent_shapes.hpp"

namespace ebb::ops::recurrent {

// What gru_backward is given. `to_gates` and `to_hidden_n`, empty or not, flow into the kept values
// themselves.
struct GruWayBack : GivenBack {
  Tensor gates, hidden_n, h, weight;
  Along along;
  Tensor to_gates{}, to_hidden_n{};
};

// The values of the walk, by time: gradients of h, of the gates before activation and of hidden_n.
struct GruWalk {
  std::vector<Tensor> dh, da, dq;
  Tensor dh_first;                          // of the state
  std::array<Tensor, 3> gradients() const;  // of gates_in, of hidden_n and of the state
};
GruWalk walk_back(const GruWayBack& way);

// Gradients of what gru_backward is given, from those of its three results.
struct GruSecond {
  Tensor gates, hidden_n, h, weight, state, dh, dlast;
};
GruSecond second_order(const GruWayBack& way, const Tensor& of_dgates, const Tensor& of_dhidden_n,
                       const Tensor& of_dstate);

}  // namespace ebb::ops::recurrent
