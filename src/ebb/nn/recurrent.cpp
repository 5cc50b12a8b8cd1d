#include "ebb/nn/recurrent.hpp"

#include <fmt/core.h>

#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/ops/stop_gradient.hpp"

namespace ebb::nn {
namespace {

const Tensor& or_none(const Variable& v) {
  static const Tensor none;
  return v ? v.value() : none;
}

std::vector<RecurrentCell> make_cells(const char* layer, const Init& init, std::int64_t in,
                                      std::int64_t hidden, std::int64_t gates,
                                      const RecurrentLayers& options) {
  if (in < 1 || hidden < 1 || options.layers < 1)
    throw Error(fmt::format("{}: in is {}, hidden {}, layers {}; expected at least 1 of each",
                            layer, in, hidden, options.layers));
  if (!(options.dropout >= 0 && options.dropout < 1))
    throw Error(fmt::format("{}: the dropout is {}, expected at least 0 and below 1", layer,
                            options.dropout));
  std::vector<RecurrentCell> cells;
  for (int l = 0; l < options.layers; ++l) {
    const std::int64_t below = l == 0 ? in : options.bidirectional ? 2 * hidden : hidden;
    cells.emplace_back(init, below, hidden, gates, l, false, options.bias);
    if (options.bidirectional)
      cells.emplace_back(init, below, hidden, gates, l, true, options.bias);
  }
  return cells;
}

LstmWeights lstm_weights(const RecurrentCell& cell) {
  return {cell.weight_ih, cell.weight_hh,
          cell.bias_ih ? cell.bias_ih.value() + cell.bias_hh.value() : Tensor()};
}

// The hidden bias of reset and update goes with the input's; that of new stays with the product.
GruWeights gru_weights(const RecurrentCell& cell) {
  GruWeights w{cell.weight_ih, cell.weight_hh, {}, {}};
  if (!cell.bias_ih) return w;
  const Tensor &input = or_none(cell.bias_ih), &hidden = or_none(cell.bias_hh);
  const std::int64_t gates = input.dim(0) / 3 * 2;
  w.bias = concat({slice(input, 0, 0, gates) + slice(hidden, 0, 0, gates), slice(input, 0, gates)});
  w.bias_hidden = slice(hidden, 0, gates);
  return w;
}

// The way through all cells: the top layer's segments, and each cell's last state as the segments
// pass it on.
struct Passed {
  std::vector<Tensor> segments, states;
};

// What takes a cell of these weights through one segment: lstm_segment, gru_segment.
template <class Weights>
using Step = SegmentResult(const Tensor& segment, const Weights& weights, const Tensor& state,
                           const RecurrentOptions& options, std::int64_t time, std::int64_t total);

// In one direction, a segment goes through all layers before the next one starts: so what lies between
// two segments, should one have to be made again, is a state of each layer and nothing else.
template <class Layer, class Weights>
Passed through(const Layer& layer, const Tensor& x, const Tensor& lengths,
               std::vector<Tensor> states, Weights (&weights_of)(const RecurrentCell&),
               Step<Weights>& step) {
  std::vector<Weights> weights;
  for (const RecurrentCell& cell : layer.cells) weights.push_back(weights_of(cell));
  const RecurrentLayers& options = layer.options;
  Passed passed{time_segments(x), std::move(states)};
  const Dropout drop(options.dropout);
  const auto layers = static_cast<std::size_t>(options.layers);
  const auto run = [&](std::size_t cell, bool reverse, Tensor& segment, std::int64_t time) {
    SegmentResult r = step(segment, weights[cell], passed.states[cell],
                           RecurrentOptions{reverse, lengths}, time, x.dim(1));
    passed.states[cell] = std::move(r.state);
    segment = std::move(r.output);
  };
  std::int64_t time = 0;
  if (!options.bidirectional) {
    for (Tensor& s : passed.segments) {
      const std::int64_t steps = s.dim(1);
      for (std::size_t l = 0; l < layers; ++l) {
        run(l, false, s, time);
        if (l + 1 < layers) s = drop(s);
      }
      time += steps;
    }
    return passed;
  }
  for (std::size_t l = 0; l < layers; ++l) {
    std::vector<Tensor> reverse = passed.segments;
    for (Tensor& s : passed.segments) {
      const std::int64_t steps = s.dim(1);
      run(2 * l, false, s, time);
      time += steps;
    }
    for (std::size_t s = reverse.size(); s-- > 0;) {
      time -= reverse[s].dim(1);
      run(2 * l + 1, true, reverse[s], time);
    }
    for (std::size_t s = 0; s < reverse.size(); ++s) {
      passed.segments[s] = concat({passed.segments[s], reverse[s]}, 2);
      if (l + 1 < layers) passed.segments[s] = drop(passed.segments[s]);
    }
  }
  return passed;
}

void check(const char* layer, const Tensor& x, std::size_t given, std::size_t cells) {
  if (x.rank() != 3)
    throw Error(fmt::format("{}: x is {}, expected (batch, time, in)", layer, to_string(x.spec())));
  if (given != 0 && given != cells)
    throw Error(fmt::format("{}: {} initial states were given, expected {}", layer, given, cells));
}

Passed through(const Lstm& layer, const Tensor& x, const LstmGiven& given) {
  check("Lstm", x, given.initial.size(), layer.cells.size());
  std::vector<Tensor> states(layer.cells.size());
  for (std::size_t i = 0; i < given.initial.size(); ++i) states[i] = joined(given.initial[i]);
  return through(layer, x, given.lengths, std::move(states), lstm_weights, lstm_segment);
}

Passed through(const Gru& layer, const Tensor& x, const GruGiven& given) {
  check("Gru", x, given.initial.size(), layer.cells.size());
  std::vector<Tensor> states = given.initial;
  states.resize(layer.cells.size());
  return through(layer, x, given.lengths, std::move(states), gru_weights, gru_segment);
}

// h of a state as the segments pass it on.
Tensor h_of(const Tensor& state, const RecurrentCell& cell) {
  return slice(state, 1, 0, cell.weight_hh.value().dim(1));
}

Tensor whole(const std::vector<Tensor>& segments) {
  return segments.size() == 1 ? segments[0] : concat(segments, 1);
}

}  // namespace

RecurrentCell::RecurrentCell(const Init& init, std::int64_t in, std::int64_t hidden,
                             std::int64_t gates, int layer, bool reverse, bool bias)
    : suffix(fmt::format("l{}{}", layer, reverse ? "_reverse" : "")) {
  const Initialiser first = fan_in_uniform(hidden);
  weight_ih = init.make(named("weight_ih_"), {gates * hidden, in}, first);
  weight_hh = init.make(named("weight_hh_"), {gates * hidden, hidden}, first);
  if (!bias) return;
  bias_ih = init.make(named("bias_ih_"), {gates * hidden}, first);
  bias_hh = init.make(named("bias_hh_"), {gates * hidden}, first);
}

Lstm::Lstm(const Init& init, std::int64_t in, std::int64_t hidden, RecurrentLayers o)
    : cells(make_cells("Lstm", init, in, hidden, 4, o)), options(o), scope(init.scope()) {}

LstmOutput Lstm::operator()(const Tensor& x, const LstmGiven& given) const {
  const Scope in(scope);
  const Passed passed = through(*this, x, given);
  LstmOutput r{whole(passed.segments), {}};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Tensor h = h_of(passed.states[i], cells[i]);
    r.last.push_back({h, slice(passed.states[i], 1, h.dim(1))});
  }
  return r;
}

Tensor Lstm::last(const Tensor& x, const LstmGiven& given) const {
  const Scope in(scope);
  const Passed passed = through(*this, x, given);
  const std::size_t top = cells.size() - 1;
  const Tensor h = h_of(passed.states[top], cells[top]);
  return options.bidirectional ? concat({h_of(passed.states[top - 1], cells[top - 1]), h}, 1) : h;
}

LstmStates stop_gradient(const LstmStates& states) {
  LstmStates cut;
  for (const LstmState& s : states) cut.push_back(ebb::stop_gradient(s));
  return cut;
}

Gru::Gru(const Init& init, std::int64_t in, std::int64_t hidden, RecurrentLayers o)
    : cells(make_cells("Gru", init, in, hidden, 3, o)), options(o), scope(init.scope()) {}

GruOutput Gru::operator()(const Tensor& x, const GruGiven& given) const {
  const Scope in(scope);
  Passed passed = through(*this, x, given);
  return {whole(passed.segments), std::move(passed.states)};
}

Tensor Gru::last(const Tensor& x, const GruGiven& given) const {
  const Scope in(scope);
  const Passed passed = through(*this, x, given);
  const std::size_t top = cells.size() - 1;
  return options.bidirectional ? concat({passed.states[top - 1], passed.states[top]}, 1)
                               : passed.states[top];
}

GruStates stop_gradient(const GruStates& states) {
  GruStates cut;
  for (const Tensor& s : states) cut.push_back(s ? ebb::stop_gradient(s) : s);
  return cut;
}

}  // namespace ebb::nn
