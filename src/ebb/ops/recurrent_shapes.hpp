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

// Those of lstm and gru after `fixed` others, and of their ways back.
struct ForwardPlaces {
  int state, lengths, count;
  ForwardPlaces(int fixed, const Along& along) {
    Places places(fixed);
    state = places.take(along.state);
    lengths = places.take(along.lengths);
    count = places.count();
  }
};
struct BackPlaces {
  int fixed, state, dh, dlast, lengths, count;
  template <class Backward>
  BackPlaces(int after, const Backward& op) : fixed(after) {
    Places places(fixed);
    state = places.take(op.along.state);
    dh = places.take(op.dh);
    dlast = places.take(op.dlast);
    lengths = places.take(op.along.lengths);
    count = places.count();
  }
  Needs needs(int input) const;  // all of them
};

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
// Throws, naming the op, where a length is below 0 or above the steps of the sequence.
void check_lengths(const char* op, const kernels::Recurrence& over, const Along& along);
Spec lengths_spec(const kernels::Recurrence& over);
Spec sequence_spec(const kernels::Recurrence& over, DType dtype);  // (batch, steps, hidden)
Spec state_spec(const kernels::Recurrence& over, DType dtype, std::int64_t parts);

// The results of lstm and gru: h, the last state, gates, and what else is kept. Throws where an input
// that both take is not what it should be.
std::array<Spec, 4> forward_shape(const char* op, Specs in, const ForwardPlaces& at,
                                  const kernels::Recurrence& over, std::int64_t state_parts);
// The same check for the optional inputs of a way back.
void check_back(const char* op, Specs in, const BackPlaces& at, const kernels::Recurrence& over,
                std::int64_t state_parts);

Cost cost(const kernels::Recurrence& over, double gates, double flops_per_unit, Specs in,
          std::span<const Spec> out);

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

}  // namespace ebb::ops::recurrent
