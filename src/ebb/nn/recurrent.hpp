// Lstm and Gru: layers of recurrent cells over (batch, time, in), in one direction or both.
//
// Parameters are named and shaped as people know them: weight_ih_l0 (gates · hidden, in or what the
// layer below gives), weight_hh_l0 (gates · hidden, hidden), bias_ih_l0 and bias_hh_l0 (gates ·
// hidden), and so on for l1 …; those of the reverse direction end in _reverse. Gates in the order
// input, forget, cell, output (Lstm) and reset, update, new (Gru).
//
//   nn::Lstm layer(init / "lstm", 512, 512, {.layers = 2});
//   auto [output, last] = layer(x);                   // output (batch, time, 512)
//   Tensor classes = head(layer.last(x));             // (batch, 512): outputs are not put together
//
// The states of all layers, forward before reverse in each, are side by side in `initial` and
// `last`. Truncated backpropagation through time passes them on, cut off from their past:
//
//   nn::LstmStates states;
//   for (const Batch& window : text) {
//     auto [output, last] = layer(window["x"], {.initial = states});
//     …
//     states = nn::stop_gradient(last);
//   }
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ebb/nn/init.hpp"
#include "ebb/ops/recurrent.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::nn {

struct RecurrentLayers {
  int layers = 1;
  bool bidirectional = false;  // output (…, 2 hidden): forward, then reverse
  double dropout = 0;          // of what a layer hands to the next, while training
  bool bias = true;
};

struct RecurrentCell {  // one direction of one layer
  Variable weight_ih, weight_hh, bias_ih, bias_hh;
  std::string suffix;  // l0, l0_reverse, l1 …
  RecurrentCell(const Init& init, std::int64_t in, std::int64_t hidden, std::int64_t gates,
                int layer, bool reverse, bool bias);
  std::string named(const char* what) const { return std::string(what).append(suffix); }
  void each(auto&& f) {
    f(named("weight_ih_"), weight_ih);
    f(named("weight_hh_"), weight_hh);
    if (bias_ih) f(named("bias_ih_"), bias_ih);
    if (bias_hh) f(named("bias_hh_"), bias_hh);
  }
};

using LstmStates = std::vector<LstmState>;  // one for each cell; empty: zeros
using GruStates = std::vector<Tensor>;
LstmStates stop_gradient(const LstmStates& states);
GruStates stop_gradient(const GruStates& states);

struct LstmGiven {
  Tensor lengths{};  // (batch), or none
  LstmStates initial{};
};
struct LstmOutput {
  Tensor output;  // (batch, time, hidden, or twice that in both directions)
  LstmStates last;
};

struct Lstm {
  using States = LstmStates;
  std::vector<RecurrentCell> cells;
  RecurrentLayers options;
  Scope::Id scope;
  Lstm(const Init& init, std::int64_t in, std::int64_t hidden, RecurrentLayers options = {});
  LstmOutput operator()(const Tensor& x, const LstmGiven& given = {}) const;
  // The last h of the top layer, (batch, hidden): of both directions, side by side.
  Tensor last(const Tensor& x, const LstmGiven& given = {}) const;
  void each(auto&& f) {
    for (RecurrentCell& cell : cells) cell.each(f);
  }
};

struct GruGiven {
  Tensor lengths{};
  GruStates initial{};
};
struct GruOutput {
  Tensor output;
  GruStates last;
};

struct Gru {
  using States = GruStates;
  std::vector<RecurrentCell> cells;
  RecurrentLayers options;
  Scope::Id scope;
  Gru(const Init& init, std::int64_t in, std::int64_t hidden, RecurrentLayers options = {});
  GruOutput operator()(const Tensor& x, const GruGiven& given = {}) const;
  Tensor last(const Tensor& x, const GruGiven& given = {}) const;
  void each(auto&& f) {
    for (RecurrentCell& cell : cells) cell.each(f);
  }
};

}  // namespace ebb::nn
