// What the recurrent ops share: their optional inputs, and the sizes of a call. For their files.
#pragma once

#include <utility>

#include "ebb/kernels/recurrent.hpp"
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

Cost cost(const kernels::Recurrence& over, double gates, double flops_per_unit, Specs in,
          std::span<const Spec> out);

// All inputs but these carry the batch, and so do the results.
inline Rows apart_but(const Carried& batch, std::uint32_t shared) {
  const std::uint32_t all = (1u << batch.in.size()) - 1;
  return rule::apart(batch, all & ~shared);
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

// Throws, naming the op, unless there are segments of (batch, time, in).
void check_segments(const char* op, std::span<const Tensor> segments);

}  // namespace ebb::ops::recurrent
