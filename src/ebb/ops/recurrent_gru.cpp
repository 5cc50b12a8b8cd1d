#include <utility>

#include "ebb/kernels/recurrent.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/recurrent.hpp"
#include "ebb/ops/recurrent_gru_second.hpp"
#include "ebb/ops/recurrent_shapes.hpp"
#include "ebb/ops/reduce.hpp"

namespace ebb {

using namespace ops;

namespace {

constexpr std::int64_t kGates = 3;

using recurrent::BackPlaces;
using recurrent::ForwardPlaces;

ForwardPlaces places(const Gru& op) { return {3, op.along}; }
BackPlaces places(const GruBackward& op) { return {4, op}; }

}  // namespace

// ---- forward ----

std::array<Spec, 4> Gru::shape(Specs in) const {
  const ForwardPlaces at = places(*this);
  recurrent::check_count(name, in, at.count);
  const auto over = recurrent::sizes(name, in[0], in[1], kGates, along);
  const auto out = recurrent::forward_shape(name, in, at, over, 1);
  recurrent::check_is(name, "bias of new", in[2], {{in[1].shape[1]}, in[0].dtype});
  return out;
}

Cost Gru::cost(Specs in) const {
  return recurrent::cost(recurrent::sizes(name, in[0], in[1], kGates, along), kGates, 60, in,
                         shape(in));
}

std::size_t Gru::scratch(Specs in) const {
  return kernels::recurrent_scratch(recurrent::sizes(name, in[0], in[1], kGates, along), kGates,
                                    size_of(in[0].dtype));
}

void Gru::run(Ins in, Out h, Out last, Out gates, Out hidden_n, Scratch scratch) const {
  const ForwardPlaces at = places(*this);
  auto over = recurrent::sizes(name, *in[0].spec, *in[1].spec, kGates, along);
  over.lengths = recurrent::data<std::int32_t>(in, at.lengths);
  recurrent::check_lengths(name, over, along);
  with_float(h.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::gru(kernels::Gru<T>{over, in[0].as<T>(), in[1].as<T>(), in[2].as<T>(),
                                 recurrent::data<T>(in, at.state), h.as<T>(), last.as<T>(),
                                 gates.as<T>(), hidden_n.as<T>()},
                 scratch);
  });
}

Needs Gru::needs(int input) const {
  const ForwardPlaces at = places(*this);
  if (input == at.lengths) return Needs::nothing();
  Needs all = Needs::input(1) | Needs::output(0) | Needs::output(2) | Needs::output(3);
  if (along.state) all = all | Needs::input(at.state);
  return along.lengths ? all | Needs::input(at.lengths) : all;
}

void Gru::grad(Back& back) const {
  const ForwardPlaces at = places(*this);
  const Tensor none;
  const Tensor& state = along.state ? back.in(at.state) : none;
  const Tensor& lengths = along.lengths ? back.in(at.lengths) : none;
  const Tensor dh = back.has(0) ? back.d(0) : none, dlast = back.has(1) ? back.d(1) : none;
  const Tensor &h = back.out(0), &gates = back.out(2), &hidden_n = back.out(3);
  const Tensor& weight = back.in(1);
  std::array<Tensor, 3> d;
  if (back.has(2) || back.has(3)) {  // a second order: something asks about the kept values
    recurrent::GruWayBack way{gates, hidden_n, h, weight, state, dh, dlast, lengths, along};
    if (back.has(2)) way.to_gates = back.d(2);
    if (back.has(3)) way.to_hidden_n = back.d(3);
    d = recurrent::walk_back(way).gradients();
  } else {
    const Tensor* in[8] = {&gates, &hidden_n, &h, &weight};
    std::size_t count = 4;
    for (const Tensor* optional : {&state, &dh, &dlast, &lengths})
      if (*optional) in[count++] = optional;
    const GruBackward op{along, static_cast<bool>(dh), static_cast<bool>(dlast)};
    d = apply_all(op, std::span(in, count));
  }
  if (back.wants(1))
    back.give(1, recurrent::weight_grad(back.take(1), d[0], h, d[1], state, lengths, along));
  if (back.wants(2)) back.give(2, sum_to(d[1], back.in_spec(2).shape, back.take(2)));
  if (along.state && back.wants(at.state)) back.give(at.state, std::move(d[2]));
  if (back.wants(0)) back.give(0, std::move(d[0]));
}

BatchRule Gru::batch_rule(const BatchInputs& batch, int) const {
  return recurrent::apart_but(batch, 0b110);
}

// ---- backward ----

std::array<Spec, 3> GruBackward::shape(Specs in) const {
  const BackPlaces at = places(*this);
  recurrent::check_count(name, in, at.count);
  const auto over = recurrent::sizes(name, in[0], in[3], kGates, along);
  const Spec state = recurrent::state_spec(over, in[0].dtype, 1);
  const Spec sequence = recurrent::sequence_spec(over, in[0].dtype);
  recurrent::check_is(name, "hidden part of new", in[1], sequence);
  recurrent::check_is(name, "output", in[2], sequence);
  recurrent::check_back(name, in, at, over, 1);
  return {in[0], sequence, state};
}

Cost GruBackward::cost(Specs in) const {
  return recurrent::cost(recurrent::sizes(name, in[0], in[3], kGates, along), kGates, 25, in,
                         shape(in));
}

std::size_t GruBackward::scratch(Specs in) const {
  return kernels::recurrent_scratch(recurrent::sizes(name, in[0], in[3], kGates, along), kGates,
                                    size_of(in[0].dtype));
}

void GruBackward::run(Ins in, Out dgates, Out dhidden_n, Out dstate, Scratch scratch) const {
  const BackPlaces at = places(*this);
  auto over = recurrent::sizes(name, *in[0].spec, *in[3].spec, kGates, along);
  over.lengths = recurrent::data<std::int32_t>(in, at.lengths);
  with_float(dgates.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::gru_backward(
        kernels::GruBack<T>{over, in[0].as<T>(), in[1].as<T>(), in[2].as<T>(), in[3].as<T>(),
                            recurrent::data<T>(in, at.state), recurrent::data<T>(in, at.dh),
                            recurrent::data<T>(in, at.dlast), dgates.as<T>(), dhidden_n.as<T>(),
                            dstate.as<T>()},
        scratch);
  });
}

Needs GruBackward::needs(int input) const { return places(*this).needs(input); }

void GruBackward::grad(Back& back) const {
  const BackPlaces at = places(*this);
  const auto in = [&](int place) { return place < 0 ? Tensor() : back.in(place); };
  const auto d = [&](int i) { return back.has(i) ? back.d(i) : Tensor(); };
  const recurrent::GruWayBack way{back.in(0),   back.in(1),     back.in(2),
                                  back.in(3),   in(at.state),   in(at.dh),
                                  in(at.dlast), in(at.lengths), along};
  const auto second = recurrent::second_order(way, d(0), d(1), d(2));
  const auto give = [&](int place, const Tensor& gradient) {
    if (place >= 0 && back.wants(place)) back.give(place, gradient);
  };
  give(0, second.gates);
  give(1, second.hidden_n);
  give(2, second.h);
  give(3, second.weight);
  give(at.state, second.state);
  give(at.dh, second.dh);
  give(at.dlast, second.dlast);
}

BatchRule GruBackward::batch_rule(const BatchInputs& batch, int) const {
  return recurrent::apart_but(batch, 0b1000);
}

// ---- sequences ----

SegmentResult gru_segment(const Tensor& x, const GruWeights& weights, const Tensor& state,
                          const RecurrentOptions& options, std::int64_t time, std::int64_t total) {
  recurrent::check_segments(Gru::name, {&x, 1});
  const Tensor lengths = recurrent::lengths_of(Gru::name, options.lengths, x);
  const Tensor bias_n = weights.bias_hidden
                            ? weights.bias_hidden
                            : Tensor::zeros(Shape{weights.hidden.dim(-1)}, weights.hidden.dtype());
  const Tensor gates_in = linear(x, weights.input, weights.bias);
  return recurrent::run_segment<Gru>({&gates_in, &weights.hidden, &bias_n}, state, lengths,
                                     options.reverse, time, total);
}

GruSegments gru(std::span<const Tensor> segments, const GruWeights& weights, const Tensor& initial,
                const RecurrentOptions& options) {
  recurrent::check_segments(Gru::name, segments);
  const RecurrentOptions each{options.reverse,
                              recurrent::lengths_of(Gru::name, options.lengths, segments[0])};
  const std::int64_t total = recurrent::total_steps(segments);
  GruSegments result;
  result.last =
      recurrent::each_segment(segments, options.reverse, initial, result.outputs,
                              [&](const Tensor& x, const Tensor& from, std::int64_t time) {
                                return gru_segment(x, weights, from, each, time, total);
                              })
          .state;
  return result;
}

GruResult gru(const Tensor& x, const GruWeights& weights, const Tensor& initial,
              const RecurrentOptions& options) {
  GruSegments r = gru(time_segments(x), weights, initial, options);
  return {recurrent::joined(r.outputs), r.last};
}

}  // namespace ebb
