// What the recurrent ops share: their optional inputs, and the sizes of a call. For their files.
#pragma once

#include <initializer_list>
#include <utility>

#include "ebb/kernels/recurrent.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/recurrent.hpp"

namespace ebb::ops::recurrent {

// Optional inputs in the order they follow the fixed ones: gives each its place, or -1.
class Places {
 public:
  explicit Places(int fixed) : next_(fixed) {}
  int take(bool given) { return given ? next_++ : -1; }
  int count() const { return next_; }

 private:
  int next_;
};

// What lstm and gru and their ways back differ in.
struct Kind {
  const char* op;
  int fixed, weight;   // inputs that are always given, the first of them gates; the weight's place
  std::int64_t gates;  // gates · hidden
  std::int64_t state_parts;  // state (batch, state_parts · hidden)
  double flops;              // of a unit, beside the product
};

inline constexpr Kind kLstm{Lstm::name, 2, 1, 4, 2, 80};
inline constexpr Kind kLstmBack{LstmBackward::name, 3, 2, 4, 2, 40};
inline constexpr Kind kGru{Gru::name, 3, 1, 3, 1, 60};
inline constexpr Kind kGruBack{GruBackward::name, 4, 3, 3, 1, 25};

// The optional inputs of lstm and gru, and of their ways back.
struct ForwardPlaces {
  int state, lengths, count;
  ForwardPlaces(const Kind& kind, const Along& along) {
    Places places(kind.fixed);
    state = places.take(along.state);
    lengths = places.take(along.lengths);
    count = places.count();
  }
  Needs given() const;  // all of them
};
struct BackPlaces {
  int fixed, state, dh, dlast, lengths, count;
  template <class Backward>
  BackPlaces(const Kind& kind, const Backward& op) : fixed(kind.fixed) {
    Places places(fixed);
    state = places.take(op.along.state);
    dh = places.take(op.dh);
    dlast = places.take(op.dlast);
    lengths = places.take(op.along.lengths);
    count = places.count();
  }
  Needs needs(int input) const;  // all inputs
};

// What a way back may be given besides: empty where it is not.
struct GivenBack {
  Tensor state, dh, dlast, lengths;
};
GivenBack given_back(Back& back, const ForwardPlaces& at);  // from a call of lstm or gru
GivenBack given_back(Back& back, const BackPlaces& at);     // of a call of its way back

// The call of a way back with its fixed inputs and those.
template <class Backward>
auto call_back(const Along& along, std::initializer_list<const Tensor*> fixed,
               const GivenBack& given) {
  std::array<const Tensor*, 8> in;
  std::size_t count = 0;
  for (const Tensor* tensor : fixed) in[count++] = tensor;
  for (const Tensor* optional : {&given.state, &given.dh, &given.dlast, &given.lengths})
    if (*optional) in[count++] = optional;
  return apply_all(Backward{along, static_cast<bool>(given.dh), static_cast<bool>(given.dlast)},
                   std::span(in.data(), count));
}

// Gives the input at this place its gradient, where there is such an input and it is wanted.
void give_wanted(Back& back, int place, const Tensor& gradient);

template <class T>
const T* data(Ins in, int place) {
  return place < 0 ? nullptr : in[static_cast<std::size_t>(place)].template as<T>();
}

// Throws, naming the op, unless as many inputs are given as expected.
void check_count(const char* op, Specs in, int expected);
// Throws, naming the op and the input, unless it is the expected spec.
void check_is(const char* op, const char* what, const Spec& given, const Spec& expected);

// Sizes of a call from its gates (batch, steps, gates · hidden) and weight (gates · hidden,
// hidden); throws where they do not go together.
kernels::Recurrence sizes(const char* op, const Spec& gates, const Spec& weight,
                          std::int64_t gate_count, const Along& along);
kernels::Recurrence sizes(const Kind& kind, Specs in, const Along& along);
// The same of a call that runs, with its lengths, which are at `lengths` or nowhere (-1).
kernels::Recurrence sizes(const Kind& kind, Ins in, const Along& along, int lengths);
// Throws, naming the op, where a length is below 0 or above the steps of the sequence.
void check_lengths(const char* op, const kernels::Recurrence& over, const Along& along);
Spec lengths_spec(const kernels::Recurrence& over);
Spec sequence_spec(const kernels::Recurrence& over, DType dtype);  // (batch, steps, hidden)
Spec state_spec(const kernels::Recurrence& over, DType dtype, std::int64_t parts);

// The results of lstm and gru: h, the last state, gates, and what else is kept. Throws where an input
// that both take is not what it should be.
std::array<Spec, 4> forward_shape(const Kind& kind, Specs in, const Along& along);
// What the ways back are given and give: a sequence as h, and a state. Throws as above.
struct BackSpecs {
  Spec sequence, state;
};
BackSpecs back_specs(const Kind& kind, Specs in, const BackPlaces& at, const Along& along);

Cost cost(const Kind& kind, Specs in, const Along& along, std::span<const Spec> out);
std::size_t scratch(const Kind& kind, Specs in, const Along& along);

// All inputs but these carry the batch, and so do the results.
inline BatchRule apart_but(const BatchInputs& batch, std::uint32_t shared) {
  const std::uint32_t all = (1u << batch.in.size()) - 1;
  return rule::per_example(batch, all & ~shared);
}

// As RecurrentWeightGrad, for an op's grad: state and lengths may be empty.
Tensor weight_grad(Tensor so_far, const Tensor& d, const Tensor& h, const Tensor& rest,
                   const Tensor& state, const Tensor& lengths, const Along& along);

// lengths as the ops take them: i32 (batch), or empty.
Tensor lengths_of(const char* op, const Tensor& lengths, const Tensor& x);

std::int64_t total_steps(std::span<const Tensor> segments);

// run(x, state, time) for each segment in the order of the direction: outputs in the order of time,
// and the last state.
template <class Run>
SegmentResult each_segment(std::span<const Tensor> segments, bool reverse, Tensor state,
                           std::vector<Tensor>& outputs, Run&& run) {
  std::int64_t time = reverse ? total_steps(segments) : 0;
  outputs.resize(segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::size_t s = reverse ? segments.size() - 1 - i : i;
    if (reverse) time -= segments[s].dim(1);
    SegmentResult r = run(segments[s], state, time);
    if (!reverse) time += segments[s].dim(1);
    outputs[s] = std::move(r.output);
    state = std::move(r.state);
  }
  return {{}, std::move(state)};
}

// One segment by the op with its fixed inputs; state and lengths, as the op takes them, may be empty.
template <class Op>
SegmentResult run_segment(std::initializer_list<const Tensor*> fixed, const Tensor& state,
                          const Tensor& lengths, bool reverse, std::int64_t time,
                          std::int64_t total) {
  const Op op{{reverse, static_cast<bool>(state), static_cast<bool>(lengths), lengths ? time : 0,
               lengths ? total : 0}};
  std::array<const Tensor*, 5> in;
  std::size_t count = 0;
  for (const Tensor* given : fixed) in[count++] = given;
  for (const Tensor* optional : {&state, &lengths})
    if (*optional) in[count++] = optional;
  auto out = apply_all(op, std::span(in.data(), count));
  return {std::move(out[0]), std::move(out[1])};
}

Tensor joined(const std::vector<Tensor>& segments);  // one after the other in time

// Throws, naming the op, unless there are segments of (batch, time, in).
void check_segments(const char* op, std::span<const Tensor> segments);

// segment(x, weights, state, options, time, total) for all of them, as each_segment has it; gives the
// last state.
template <class Weights, class Segment>
Tensor run_segments(const char* op, std::span<const Tensor> segments, const Weights& weights,
                    const Tensor& initial, const RecurrentOptions& options,
                    std::vector<Tensor>& outputs, Segment&& segment) {
  check_segments(op, segments);
  const RecurrentOptions each{options.reverse, lengths_of(op, options.lengths, segments[0])};
  const std::int64_t total = total_steps(segments);
  return each_segment(segments, options.reverse, initial, outputs,
                      [&](const Tensor& x, const Tensor& state, std::int64_t time) {
                        return segment(x, weights, state, each, time, total);
                      })
      .state;
}

}  // namespace ebb::ops::recurrent
