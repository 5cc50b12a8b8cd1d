#include <utility>

#include "ebb/kernels/recurrent.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/recurrent.hpp"
#include "ebb/ops/recurrent_lstm_second.hpp"
#include "ebb/ops/recurrent_shapes.hpp"
#include "ebb/ops/slice.hpp"

namespace ebb {

using namespace ops;

using recurrent::BackPlaces;
using recurrent::ForwardPlaces;
using recurrent::kLstm;
using recurrent::kLstmBack;

// ---- forward ----

std::array<Spec, 4> Lstm::shape(Specs in) const {
  return recurrent::forward_shape(kLstm, in, along);
}
Cost Lstm::cost(Specs in) const { return recurrent::cost(kLstm, in, along, shape(in)); }
std::size_t Lstm::scratch(Specs in) const { return recurrent::scratch(kLstm, in, along); }

void Lstm::run(Ins in, Out h, Out last, Out gates, Out cells, Scratch scratch) const {
  const ForwardPlaces at(kLstm, along);
  const auto over = recurrent::sizes(kLstm, in, along, at.lengths);
  recurrent::check_lengths(name, over, along);
  with_float(h.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::lstm(
        kernels::Lstm<T>{over, in[0].as<T>(), in[1].as<T>(), recurrent::data<T>(in, at.state),
                         h.as<T>(), last.as<T>(), gates.as<T>(), cells.as<T>()},
        scratch);
  });
}

Needs Lstm::needs(int input) const {
  const ForwardPlaces at(kLstm, along);
  if (input == at.lengths) return Needs::nothing();
  const Needs all = at.given() | Needs::input(1) | Needs::output(2) | Needs::output(3);
  return input == 1 ? all | Needs::output(0) : all;
}

void Lstm::grad(Back& back) const {
  const ForwardPlaces at(kLstm, along);
  const recurrent::GivenBack given = recurrent::given_back(back, at);
  const Tensor &gates = back.out(2), &cells = back.out(3), &weight = back.in(1);
  std::array<Tensor, 2> d;
  if (back.has(2) || back.has(3)) {  // a second order: something asks about the kept values
    recurrent::LstmWayBack way{given, gates, cells, weight, along};
    if (back.has(2)) way.to_gates = back.d(2);
    if (back.has(3)) way.to_cells = back.d(3);
    d = recurrent::walk_back(way).gradients();
  } else {
    d = recurrent::call_back<LstmBackward>(along, {&gates, &cells, &weight}, given);
  }
  if (back.wants(1))
    back.give(1, recurrent::weight_grad(back.take(1), d[0], back.out(0), {}, given.state,
                                        given.lengths, along));
  if (along.state && back.wants(at.state)) back.give(at.state, std::move(d[1]));
  if (back.wants(0)) back.give(0, std::move(d[0]));
}

BatchRule Lstm::batch_rule(const BatchInputs& batch, int) const {
  return recurrent::apart_but(batch, 0b10);
}

// ---- backward ----

std::array<Spec, 2> LstmBackward::shape(Specs in) const {
  const auto [sequence, state] = recurrent::back_specs(kLstmBack, in, {kLstmBack, *this}, along);
  recurrent::check_is(name, "cells", in[1], sequence);
  return {in[0], state};
}
Cost LstmBackward::cost(Specs in) const { return recurrent::cost(kLstmBack, in, along, shape(in)); }
std::size_t LstmBackward::scratch(Specs in) const {
  return recurrent::scratch(kLstmBack, in, along);
}

void LstmBackward::run(Ins in, Out dgates, Out dstate, Scratch scratch) const {
  const BackPlaces at(kLstmBack, *this);
  const auto over = recurrent::sizes(kLstmBack, in, along, at.lengths);
  with_float(dgates.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::lstm_backward(
        kernels::LstmBack<T>{over, in[0].as<T>(), in[1].as<T>(), in[2].as<T>(),
                             recurrent::data<T>(in, at.state), recurrent::data<T>(in, at.dh),
                             recurrent::data<T>(in, at.dlast), dgates.as<T>(), dstate.as<T>()},
        scratch);
  });
}

Needs LstmBackward::needs(int input) const { return BackPlaces(kLstmBack, *this).needs(input); }

void LstmBackward::grad(Back& back) const {
  const BackPlaces at(kLstmBack, *this);
  const auto d = [&](int i) { return back.has(i) ? back.d(i) : Tensor(); };
  const recurrent::LstmWayBack way{recurrent::given_back(back, at), back.in(0), back.in(1),
                                   back.in(2), along};
  const auto second = recurrent::second_order(way, d(0), d(1));
  const std::pair<int, const Tensor&> gradients[] = {{0, second.gates},  {1, second.cells},
                                                     {2, second.weight}, {at.state, second.state},
                                                     {at.dh, second.dh}, {at.dlast, second.dlast}};
  for (const auto& [place, gradient] : gradients) recurrent::give_wanted(back, place, gradient);
}

BatchRule LstmBackward::batch_rule(const BatchInputs& batch, int) const {
  return recurrent::apart_but(batch, 0b100);
}

// ---- sequences ----

SegmentResult lstm_segment(const Tensor& x, const LstmWeights& weights, const Tensor& state,
                           const RecurrentOptions& options, std::int64_t time, std::int64_t total) {
  recurrent::check_segments(Lstm::name, {&x, 1});
  const Tensor lengths = recurrent::lengths_of(Lstm::name, options.lengths, x);
  const Tensor gates_in = linear(x, weights.input, weights.bias);
  return recurrent::run_segment<Lstm>({&gates_in, &weights.hidden}, state, lengths, options.reverse,
                                      time, total);
}

LstmSegments lstm(std::span<const Tensor> segments, const LstmWeights& weights,
                  const LstmState& initial, const RecurrentOptions& options) {
  LstmSegments result;
  const Tensor state = recurrent::run_segments(Lstm::name, segments, weights, joined(initial),
                                               options, result.outputs, lstm_segment);
  const std::int64_t hidden = state.dim(1) / 2;
  result.last = {slice(state, 1, 0, hidden), slice(state, 1, hidden)};
  return result;
}

LstmResult lstm(const Tensor& x, const LstmWeights& weights, const LstmState& initial,
                const RecurrentOptions& options) {
  LstmSegments r = lstm(time_segments(x), weights, initial, options);
  return {recurrent::joined(r.outputs), r.last};
}

}  // namespace ebb
