#include <fmt/core.h>

#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/kernels/recurrent.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/recurrent.hpp"
#include "ebb/ops/recurrent_lstm_second.hpp"
#include "ebb/ops/recurrent_shapes.hpp"
#include "ebb/ops/rows.hpp"
#include "ebb/ops/slice.hpp"

namespace ebb {

using namespace ops;

namespace {

constexpr std::int64_t kGates = 4;

struct ForwardPlaces {
  int state, lengths, count;
  explicit ForwardPlaces(const Along& along) {
    recurrent::Places places(2);
    state = places.take(along.state);
    lengths = places.take(along.lengths);
    count = places.count();
  }
};

struct BackPlaces {
  int state, dh, dlast, lengths, count;
  explicit BackPlaces(const LstmBackward& op) {
    recurrent::Places places(3);
    state = places.take(op.along.state);
    dh = places.take(op.dh);
    dlast = places.take(op.dlast);
    lengths = places.take(op.along.lengths);
    count = places.count();
  }
};

}  // namespace

// ---- forward ----

std::array<Spec, 4> LstmOp::shape(Specs in) const {
  const ForwardPlaces at(along);
  recurrent::check_count(name, in, at.count);
  const auto over = recurrent::sizes(name, in[0], in[1], kGates, along);
  const DType dtype = in[0].dtype;
  const Spec state = recurrent::state_spec(over, dtype, 2);
  const Spec sequence = recurrent::sequence_spec(over, dtype);
  if (along.state)
    recurrent::check_is(name, "state", in[static_cast<std::size_t>(at.state)], state);
  if (along.lengths)
    recurrent::check_is(name, "lengths", in[static_cast<std::size_t>(at.lengths)],
                        recurrent::lengths_spec(over));
  return {sequence, state, in[0], sequence};
}

Cost LstmOp::cost(Specs in) const {
  return recurrent::cost(recurrent::sizes(name, in[0], in[1], kGates, along), kGates, 80, in,
                         shape(in));
}

std::size_t LstmOp::scratch(Specs in) const {
  return kernels::recurrent_scratch(recurrent::sizes(name, in[0], in[1], kGates, along), kGates,
                                    size_of(in[0].dtype));
}

void LstmOp::run(Ins in, Out h, Out last, Out gates, Out cells, Scratch scratch) const {
  const ForwardPlaces at(along);
  auto over = recurrent::sizes(name, *in[0].spec, *in[1].spec, kGates, along);
  over.lengths = recurrent::data<std::int32_t>(in, at.lengths);
  recurrent::check_lengths(name, over, along);
  rows::with_float(h.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::lstm(
        kernels::Lstm<T>{over, in[0].as<T>(), in[1].as<T>(), recurrent::data<T>(in, at.state),
                         h.as<T>(), last.as<T>(), gates.as<T>(), cells.as<T>()},
        scratch);
  });
}

Needs LstmOp::needs(int input) const {
  const ForwardPlaces at(along);
  if (input == at.lengths) return Needs::nothing();
  Needs all = Needs::input(1) | Needs::output(2) | Needs::output(3);
  if (along.state) all = all | Needs::input(at.state);
  if (along.lengths) all = all | Needs::input(at.lengths);
  return input == 1 ? all | Needs::output(0) : all;
}

void LstmOp::grad(Back& back) const {
  const ForwardPlaces at(along);
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

Rows LstmOp::rows(const Carried& batch, int) const { return recurrent::apart_but(batch, 0b10); }

// ---- backward ----

std::array<Spec, 2> LstmBackward::shape(Specs in) const {
  const BackPlaces at(*this);
  recurrent::check_count(name, in, at.count);
  const auto over = recurrent::sizes(name, in[0], in[2], kGates, along);
  const DType dtype = in[0].dtype;
  const Spec state = recurrent::state_spec(over, dtype, 2);
  const Spec sequence = recurrent::sequence_spec(over, dtype);
  const auto check = [&](int place, const char* what, const Spec& expected) {
    if (place >= 0) recurrent::check_is(name, what, in[static_cast<std::size_t>(place)], expected);
  };
  check(1, "cells", sequence);
  check(at.state, "state", state);
  check(at.dh, "gradient of h", sequence);
  check(at.dlast, "gradient of the last state", state);
  check(at.lengths, "lengths", recurrent::lengths_spec(over));
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
  const BackPlaces at(*this);
  auto over = recurrent::sizes(name, *in[0].spec, *in[2].spec, kGates, along);
  over.lengths = recurrent::data<std::int32_t>(in, at.lengths);
  rows::with_float(dgates.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::lstm_backward(
        kernels::LstmBack<T>{over, in[0].as<T>(), in[1].as<T>(), in[2].as<T>(),
                             recurrent::data<T>(in, at.state), recurrent::data<T>(in, at.dh),
                             recurrent::data<T>(in, at.dlast), dgates.as<T>(), dstate.as<T>()},
        scratch);
  });
}

Needs LstmBackward::needs(int input) const {
  const BackPlaces at(*this);
  if (input == at.lengths) return Needs::nothing();
  Needs all = Needs::input(0) | Needs::input(1) | Needs::input(2);
  for (const int place : {at.state, at.dh, at.dlast, at.lengths})
    if (place >= 0) all = all | Needs::input(place);
  return all;
}

void LstmBackward::grad(Back& back) const {
  const BackPlaces at(*this);
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

Rows LstmBackward::rows(const Carried& batch, int) const {
  return recurrent::apart_but(batch, 0b100);
}

// ---- sequences ----

SegmentResult lstm_segment(const Tensor& x, const LstmWeights& weights, const Tensor& state,
                           const RecurrentOptions& options, std::int64_t time,
                           std::int64_t total) {
  recurrent::check_segments(LstmOp::name, {&x, 1});
  const Tensor lengths = recurrent::lengths_of(LstmOp::name, options.lengths, x);
  const Tensor gates_in = linear(x, weights.input, weights.bias);
  const LstmOp op{{options.reverse, static_cast<bool>(state), static_cast<bool>(lengths),
                   lengths ? time : 0, lengths ? total : 0}};
  const Tensor* in[4] = {&gates_in, &weights.hidden};
  std::size_t count = 2;
  for (const Tensor* optional : {&state, &lengths})
    if (*optional) in[count++] = optional;
  auto out = apply_all(op, std::span(in, count));
  return {std::move(out[0]), std::move(out[1])};
}

LstmSegments lstm(std::span<const Tensor> segments, const LstmWeights& weights,
                  const LstmState& initial, const RecurrentOptions& options) {
  recurrent::check_segments(LstmOp::name, segments);
  const RecurrentOptions each{options.reverse,
                              recurrent::lengths_of(LstmOp::name, options.lengths, segments[0])};
  const std::int64_t total = recurrent::total_steps(segments);
  LstmSegments result;
  const Tensor state = recurrent::each_segment(
                           segments, options.reverse,
                           initial.h ? concat({initial.h, initial.c}, 1) : Tensor(), result.outputs,
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
  return {r.outputs.size() == 1 ? r.outputs[0] : concat(r.outputs, 1), r.last};
}

}  // namespace ebb
