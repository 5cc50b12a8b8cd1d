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

namespace {

constexpr std::int64_t kGates = 4;

using recurrent::BackPlaces;
using recurrent::ForwardPlaces;

ForwardPlaces places(const Lstm& op) { return {2, op.along}; }
BackPlaces places(const LstmBackward& op) { return {3, op}; }

}  // namespace

// ---- forward ----

std::array<Spec, 4> Lstm::shape(Specs in) const {
  const ForwardPlaces at = places(*this);
  recurrent::check_count(name, in, at.count);
  const auto over = recurrent::sizes(name, in[0], in[1], kGates, along);
  return recurrent::forward_shape(name, in, at, over, 2);
}

Cost Lstm::cost(Specs in) const {
  return recurrent::cost(recurrent::sizes(name, in[0], in[1], kGates, along), kGates, 80, in,
                         shape(in));
}

std::size_t Lstm::scratch(Specs in) const {
  return kernels::recurrent_scratch(recurrent::sizes(name, in[0], in[1], kGates, along), kGates,
                                    size_of(in[0].dtype));
}

void Lstm::run(Ins in, Out h, Out last, Out gates, Out cells, Scratch scratch) const {
  const ForwardPlaces at = places(*this);
  auto over = recurrent::sizes(name, *in[0].spec, *in[1].spec, kGates, along);
  over.lengths = recurrent::data<std::int32_t>(in, at.lengths);
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
  const ForwardPlaces at = places(*this);
  if (input == at.lengths) return Needs::nothing();
  Needs all = Needs::input(1) | Needs::output(2) | Needs::output(3);
  if (along.state) all = all | Needs::input(at.state);
  if (along.lengths) all = all | Needs::input(at.lengths);
  return input == 1 ? all | Needs::output(0) : all;
}

void Lstm::grad(Back& back) const {
  const ForwardPlaces at = places(*this);
  const Tensor none;
  const Tensor& state = along.state ? back.in(at.state) : none;
  const Tensor& lengths = along.lengths ? back.in(at.lengths) : none;
  const Tensor &gates = back.out(2), &cells = back.out(3), &weight = back.in(1);
  const Tensor dh = back.has(0) ? back.d(0) : none, dlast = back.has(1) ? back.d(1) : none;
  std::array<Tensor, 2> d;
  if (back.has(2) || back.has(3)) {  // a second order: something asks about the kept values
    recurrent::LstmWayBack way{gates, cells, weight, state, dh, dlast, lengths, along};
    if (back.has(2)) way.to_gates = back.d(2);
    if (back.has(3)) way.to_cells = back.d(3);
    d = recurrent::walk_back(way).gradients();
  } else {
    const Tensor* in[7] = {&gates, &cells, &weight};
    std::size_t count = 3;
    for (const Tensor* optional : {&state, &dh, &dlast, &lengths})
      if (*optional) in[count++] = optional;
    const LstmBackward op{along, static_cast<bool>(dh), static_cast<bool>(dlast)};
    d = apply_all(op, std::span(in, count));
  }
  if (back.wants(1))
    back.give(1,
              recurrent::weight_grad(back.take(1), d[0], back.out(0), none, state, lengths, along));
  if (along.state && back.wants(at.state)) back.give(at.state, std::move(d[1]));
  if (back.wants(0)) back.give(0, std::move(d[0]));
}

BatchRule Lstm::batch_rule(const BatchInputs& batch, int) const {
  return recurrent::apart_but(batch, 0b10);
}

// ---- backward ----

std::array<Spec, 2> LstmBackward::shape(Specs in) const {
  const BackPlaces at = places(*this);
  recurrent::check_count(name, in, at.count);
  const auto over = recurrent::sizes(name, in[0], in[2], kGates, along);
  const Spec state = recurrent::state_spec(over, in[0].dtype, 2);
  recurrent::check_is(name, "cells", in[1], recurrent::sequence_spec(over, in[0].dtype));
  recurrent::check_back(name, in, at, over, 2);
  return {in[0], state};
}

Cost LstmBackward::cost(Specs in) const {
  return recurrent::cost(recurrent::sizes(name, in[0], in[2], kGates, along), kGates, 40, in,
                         shape(in));
}

std::size_t LstmBackward::scratch(Specs in) const {
  return kernels::recurrent_scratch(recurrent::sizes(name, in[0], in[2], kGates, along), kGates,
                                    size_of(in[0].dtype));
}

void LstmBackward::run(Ins in, Out dgates, Out dstate, Scratch scratch) const {
  const BackPlaces at = places(*this);
  auto over = recurrent::sizes(name, *in[0].spec, *in[2].spec, kGates, along);
  over.lengths = recurrent::data<std::int32_t>(in, at.lengths);
  with_float(dgates.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::lstm_backward(
        kernels::LstmBack<T>{over, in[0].as<T>(), in[1].as<T>(), in[2].as<T>(),
                             recurrent::data<T>(in, at.state), recurrent::data<T>(in, at.dh),
                             recurrent::data<T>(in, at.dlast), dgates.as<T>(), dstate.as<T>()},
        scratch);
  });
}

Needs LstmBackward::needs(int input) const { return places(*this).needs(input); }

void LstmBackward::grad(Back& back) const {
  const BackPlaces at = places(*this);
  const auto in = [&](int place) { return place < 0 ? Tensor() : back.in(place); };
  const recurrent::LstmWayBack way{back.in(0), back.in(1),   back.in(2),     in(at.state),
                                   in(at.dh),  in(at.dlast), in(at.lengths), along};
  const auto second = recurrent::second_order(way, back.has(0) ? back.d(0) : Tensor(),
                                              back.has(1) ? back.d(1) : Tensor());
  const auto give = [&](int place, const Tensor& gradient) {
    if (place >= 0 && back.wants(place)) back.give(place, gradient);
  };
  give(0, second.gates);
  give(1, second.cells);
  give(2, second.weight);
  give(at.state, second.state);
  give(at.dh, second.dh);
  give(at.dlast, second.dlast);
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
  recurrent::check_segments(Lstm::name, segments);
  const RecurrentOptions each{options.reverse,
                              recurrent::lengths_of(Lstm::name, options.lengths, segments[0])};
  const std::int64_t total = recurrent::total_steps(segments);
  LstmSegments result;
  const Tensor state =
      recurrent::each_segment(segments, options.reverse, joined(initial), result.outputs,
                              [&](const Tensor& x, const Tensor& from, std::int64_t time) {
                                return lstm_segment(x, weights, from, each, time, total);
                              })
          .state;
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
