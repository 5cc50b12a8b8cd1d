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

using recurrent::BackPlaces;
using recurrent::ForwardPlaces;
using recurrent::kGru;
using recurrent::kGruBack;

// ---- forward ----

std::array<Spec, 4> Gru::shape(Specs in) const {
  const auto out = recurrent::forward_shape(kGru, in, along);
  recurrent::check_is(name, "bias of new", in[2], {{in[1].shape[1]}, in[0].dtype});
  return out;
}
Cost Gru::cost(Specs in) const { return recurrent::cost(kGru, in, along, shape(in)); }
std::size_t Gru::scratch(Specs in) const { return recurrent::scratch(kGru, in, along); }

void Gru::run(Ins in, Out h, Out last, Out gates, Out hidden_n, Scratch scratch) const {
  const ForwardPlaces at(kGru, along);
  const auto over = recurrent::sizes(kGru, in, along, at.lengths);
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
  const ForwardPlaces at(kGru, along);
  if (input == at.lengths) return Needs::nothing();
  return at.given() | Needs::input(1) | Needs::output(0) | Needs::output(2) | Needs::output(3);
}

void Gru::grad(Back& back) const {
  const ForwardPlaces at(kGru, along);
  const recurrent::GivenBack given = recurrent::given_back(back, at);
  const Tensor &h = back.out(0), &gates = back.out(2), &hidden_n = back.out(3);
  const Tensor& weight = back.in(1);
  std::array<Tensor, 3> d;
  if (back.has(2) || back.has(3)) {  // a second order: something asks about the kept values
    recurrent::GruWayBack way{given, gates, hidden_n, h, weight, along};
    if (back.has(2)) way.to_gates = back.d(2);
    if (back.has(3)) way.to_hidden_n = back.d(3);
    d = recurrent::walk_back(way).gradients();
  } else {
    d = recurrent::call_back<GruBackward>(along, {&gates, &hidden_n, &h, &weight}, given);
  }
  if (back.wants(1))
    back.give(
        1, recurrent::weight_grad(back.take(1), d[0], h, d[1], given.state, given.lengths, along));
  if (back.wants(2)) back.give(2, sum_to(d[1], back.in_spec(2).shape, back.take(2)));
  if (along.state && back.wants(at.state)) back.give(at.state, std::move(d[2]));
  if (back.wants(0)) back.give(0, std::move(d[0]));
}

BatchRule Gru::batch_rule(const BatchInputs& batch, int) const {
  return recurrent::apart_but(batch, 0b110);
}

// ---- backward ----

std::array<Spec, 3> GruBackward::shape(Specs in) const {
  const auto [sequence, state] = recurrent::back_specs(kGruBack, in, {kGruBack, *this}, along);
  recurrent::check_is(name, "hidden part of new", in[1], sequence);
  recurrent::check_is(name, "output", in[2], sequence);
  return {in[0], sequence, state};
}
Cost GruBackward::cost(Specs in) const { return recurrent::cost(kGruBack, in, along, shape(in)); }
std::size_t GruBackward::scratch(Specs in) const { return recurrent::scratch(kGruBack, in, along); }

void GruBackward::run(Ins in, Out dgates, Out dhidden_n, Out dstate, Scratch scratch) const {
  const BackPlaces at(kGruBack, *this);
  const auto over = recurrent::sizes(kGruBack, in, along, at.lengths);
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

Needs GruBackward::needs(int input) const { return BackPlaces(kGruBack, *this).needs(input); }

void GruBackward::grad(Back& back) const {
  const BackPlaces at(kGruBack, *this);
  const auto d = [&](int i) { return back.has(i) ? back.d(i) : Tensor(); };
  const recurrent::GruWayBack way{
      recurrent::given_back(back, at), back.in(0), back.in(1), back.in(2), back.in(3), along};
  const auto second = recurrent::second_order(way, d(0), d(1), d(2));
  const std::pair<int, const Tensor&> gradients[] = {
      {0, second.gates},        {1, second.hidden_n}, {2, second.h},           {3, second.weight},
      {at.state, second.state}, {at.dh, second.dh},   {at.dlast, second.dlast}};
  for (const auto& [place, gradient] : gradients) recurrent::give_wanted(back, place, gradient);
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
  GruSegments result;
  result.last = recurrent::run_segments(Gru::name, segments, weights, initial, options,
                                        result.outputs, gru_segment);
  return result;
}

GruResult gru(const Tensor& x, const GruWeights& weights, const Tensor& initial,
              const RecurrentOptions& options) {
  GruSegments r = gru(time_segments(x), weights, initial, options);
  return {recurrent::joined(r.outputs), r.last};
}

}  // namespace ebb
