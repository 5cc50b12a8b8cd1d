#include "ebb/ops/recurrent.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/recurrent_second.hpp"
#include "ebb/ops/recurrent_shapes.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/slice.hpp"
#include "ebb/ops/stop_gradient.hpp"

namespace ebb {

using namespace ops;

namespace ops::recurrent {

void check_count(const char* op, Specs in, int expected) {
  if (in.size() != static_cast<std::size_t>(expected))
    throw Error(fmt::format("{}: {} inputs were given, expected {}", op, in.size(), expected));
}

void check_is(const char* op, const char* what, const Spec& given, const Spec& expected) {
  if (given != expected)
    throw Error(fmt::format("{}: the {} is {}, expected {}", op, what, to_string(given),
                            to_string(expected)));
}

kernels::Recurrence sizes(const char* op, const Spec& gates, const Spec& weight,
                          std::int64_t gate_count, const Along& along) {
  check_float(op, gates);
  check_same_type(op, gates, weight);
  const bool fit = gates.rank() == 3 && weight.rank() == 2 && weight.shape[1] > 0 &&
                   weight.shape[0] == gate_count * weight.shape[1] &&
                   gates.shape[2] == weight.shape[0];
  if (!fit)
    throw Error(
        fmt::format("{}: gates {} and weight {} do not fit: expected (batch, time, {} "
                    "hidden) and ({} hidden, hidden)",
                    op, to_string(gates), to_string(weight), gate_count, gate_count));
  if (gates.shape[1] < 1) throw Error(fmt::format("{}: {} has no steps", op, to_string(gates)));
  return {.batch = static_cast<std::size_t>(gates.shape[0]),
          .steps = static_cast<std::size_t>(gates.shape[1]),
          .hidden = static_cast<std::size_t>(weight.shape[1]),
          .reverse = along.reverse,
          .lengths = nullptr,
          .offset = along.offset};
}

kernels::Recurrence sizes(const Kind& kind, Specs in, const Along& along) {
  return sizes(kind.op, in[0], in[static_cast<std::size_t>(kind.weight)], kind.gates, along);
}

kernels::Recurrence sizes(const Kind& kind, Ins in, const Along& along, int lengths) {
  kernels::Recurrence over = sizes(
      kind.op, *in[0].spec, *in[static_cast<std::size_t>(kind.weight)].spec, kind.gates, along);
  over.lengths = data<std::int32_t>(in, lengths);
  return over;
}

void check_lengths(const char* op, const kernels::Recurrence& over, const Along& along) {
  if (over.lengths == nullptr) return;
  for (std::size_t i = 0; i < over.batch; ++i) {
    const std::int64_t length = over.lengths[i];
    if (length < 0 || (along.total > 0 && length > along.total))
      throw Error(fmt::format(
          "{}: length {} at position {} is out of range; expected {}", op, length, i,
          along.total > 0 ? fmt::format("0 to {}", along.total) : std::string("0 or more")));
  }
}

std::int64_t total_steps(std::span<const Tensor> segments) {
  std::int64_t steps = 0;
  for (const Tensor& x : segments) steps += x.dim(1);
  return steps;
}

Spec lengths_spec(const kernels::Recurrence& over) {
  return {{static_cast<std::int64_t>(over.batch)}, DType::i32};
}
Spec sequence_spec(const kernels::Recurrence& over, DType dtype) {
  return {{static_cast<std::int64_t>(over.batch), static_cast<std::int64_t>(over.steps),
           static_cast<std::int64_t>(over.hidden)},
          dtype};
}
Spec state_spec(const kernels::Recurrence& over, DType dtype, std::int64_t parts) {
  return {{static_cast<std::int64_t>(over.batch), parts * static_cast<std::int64_t>(over.hidden)},
          dtype};
}

std::array<Spec, 4> forward_shape(const Kind& kind, Specs in, const Along& along) {
  const ForwardPlaces at(kind, along);
  check_count(kind.op, in, at.count);
  const kernels::Recurrence over = sizes(kind, in, along);
  const DType dtype = in[0].dtype;
  const Spec state = state_spec(over, dtype, kind.state_parts);
  const Spec sequence = sequence_spec(over, dtype);
  if (at.state >= 0) check_is(kind.op, "state", in[static_cast<std::size_t>(at.state)], state);
  if (at.lengths >= 0)
    check_is(kind.op, "lengths", in[static_cast<std::size_t>(at.lengths)], lengths_spec(over));
  return {sequence, state, in[0], sequence};
}

BackSpecs back_specs(const Kind& kind, Specs in, const BackPlaces& at, const Along& along) {
  check_count(kind.op, in, at.count);
  const kernels::Recurrence over = sizes(kind, in, along);
  const DType dtype = in[0].dtype;
  const BackSpecs specs{sequence_spec(over, dtype), state_spec(over, dtype, kind.state_parts)};
  const auto check = [&](int place, const char* what, const Spec& expected) {
    if (place >= 0) check_is(kind.op, what, in[static_cast<std::size_t>(place)], expected);
  };
  check(at.state, "state", specs.state);
  check(at.dh, "gradient of h", specs.sequence);
  check(at.dlast, "gradient of the last state", specs.state);
  check(at.lengths, "lengths", lengths_spec(over));
  return specs;
}

Needs ForwardPlaces::given() const {
  Needs all;
  if (state >= 0) all = all | Needs::input(state);
  if (lengths >= 0) all = all | Needs::input(lengths);
  return all;
}

Needs BackPlaces::needs(int input) const {
  if (input == lengths) return Needs::nothing();
  Needs all;
  for (int place = 0; place < fixed; ++place) all = all | Needs::input(place);
  for (const int place : {state, dh, dlast, lengths})
    if (place >= 0) all = all | Needs::input(place);
  return all;
}

Tensor joined(const std::vector<Tensor>& segments) {
  return segments.size() == 1 ? segments[0] : concat(segments, 1);
}

namespace {

Tensor in_or_none(const Back& back, int place) { return place < 0 ? Tensor() : back.in(place); }

}  // namespace

GivenBack given_back(Back& back, const ForwardPlaces& at) {
  const auto d = [&](int i) { return back.has(i) ? back.d(i) : Tensor(); };
  return {in_or_none(back, at.state), d(0), d(1), in_or_none(back, at.lengths)};
}

GivenBack given_back(Back& back, const BackPlaces& at) {
  const auto in = [&](int place) { return in_or_none(back, place); };
  return {in(at.state), in(at.dh), in(at.dlast), in(at.lengths)};
}

void give_wanted(Back& back, int place, const Tensor& gradient) {
  if (place >= 0 && back.wants(place)) back.give(place, gradient);
}

Cost cost(const Kind& kind, Specs in, const Along& along, std::span<const Spec> out) {
  const kernels::Recurrence over = sizes(kind, in, along);
  const double units = static_cast<double>(over.batch * over.steps * over.hidden);
  const double products = 2 * static_cast<double>(kind.gates) * static_cast<double>(over.hidden);
  Cost c{units * (products + kind.flops), 0, Work::cell};
  for (const Spec& s : in) c.bytes += static_cast<double>(s.bytes());
  for (const Spec& s : out) c.bytes += static_cast<double>(s.bytes());
  return c;
}

std::size_t scratch(const Kind& kind, Specs in, const Along& along) {
  return kernels::recurrent_scratch(sizes(kind, in, along), static_cast<std::size_t>(kind.gates),
                                    size_of(in[0].dtype));
}

Tensor weight_grad(Tensor so_far, const Tensor& d, const Tensor& h, const Tensor& rest,
                   const Tensor& state, const Tensor& lengths, const Along& along) {
  const Tensor* in[6] = {&d, &h};
  std::size_t count = 2;
  for (const Tensor* optional : {&rest, &state, &lengths, const_cast<const Tensor*>(&so_far)})
    if (*optional) in[count++] = optional;
  const RecurrentWeightGrad op{along, static_cast<bool>(rest), static_cast<bool>(so_far)};
  return apply_all(op, std::span(in, count), so_far ? static_cast<int>(count) - 1 : -1);
}

Tensor lengths_of(const char* op, const Tensor& lengths, const Tensor& x) {
  if (!lengths) return {};
  if (lengths.rank() != 1 || lengths.dim(0) != x.dim(0) ||
      (lengths.dtype() != DType::i32 && lengths.dtype() != DType::i64))
    throw Error(fmt::format("{}: lengths are {}, expected i32 or i64 ({})", op,
                            to_string(lengths.spec()), x.dim(0)));
  return cast(lengths, DType::i32);
}

void check_segments(const char* op, std::span<const Tensor> segments) {
  if (segments.empty()) throw Error(fmt::format("{}: no segments were given", op));
  for (const Tensor& x : segments)
    if (x.rank() != 3)
      throw Error(fmt::format("{}: x is {}, expected (batch, time, in)", op, to_string(x.spec())));
}

}  // namespace ops::recurrent

// ---- the recurrent weight's gradient ----

namespace {

struct SumPlaces {
  int rest, state, lengths, so_far, count;
  explicit SumPlaces(const RecurrentWeightGrad& op) {
    recurrent::Places places(2);
    rest = places.take(op.rest);
    state = places.take(op.along.state);
    lengths = places.take(op.along.lengths);
    so_far = places.take(op.accumulate);
    count = places.count();
  }
};

template <class T>
kernels::RecurrentWeightGrad<T> sum_of(const RecurrentWeightGrad& op, Specs in) {
  const SumPlaces at(op);
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const Shape &d = in[0].shape, &h = in[1].shape;
  kernels::RecurrentWeightGrad<T> call{};
  call.over = {size(h[0]), size(h[1]), size(h[2]), op.along.reverse, nullptr, op.along.offset};
  call.d_stride = call.d_columns = size(d[2]);
  if (op.rest) {
    call.rest_columns = size(in[size(at.rest)].shape[2]);
    call.d_columns -= call.rest_columns;
  }
  if (op.along.state) call.state_stride = size(in[size(at.state)].shape[1]);
  return call;
}

// (batch, steps, 1): 1 at the last step in time that a row takes part in, which in reverse is its
// first.
Tensor first_steps(const Tensor& lengths, const Along& along, std::int64_t steps, DType dtype) {
  const recurrent::Taking taking(lengths, along, dtype);
  std::vector<Tensor> marks;
  for (std::int64_t t = 0; t < steps; ++t)
    marks.push_back(t + 1 < steps ? taking.part(t) - taking.part(t + 1) : taking.part(t));
  return stack(marks, 1);
}

}  // namespace

Spec RecurrentWeightGrad::shape(Specs in) const {
  const SumPlaces at(*this);
  recurrent::check_count(name, in, at.count);
  const Spec &d = in[0], &h = in[1];
  const auto beside = [&](const Spec& x) {
    return x.rank() == 3 && x.shape[0] == h.shape[0] && x.shape[1] == h.shape[1] &&
           x.dtype == h.dtype;
  };
  check_float(name, h);
  if (h.rank() != 3 || !beside(d) || h.shape[1] < 1)
    throw Error(
        fmt::format("{}: {} and {} do not fit: expected (batch, time, n) and (batch, time, "
                    "hidden)",
                    name, to_string(d), to_string(h)));
  if (rest) {
    const Spec& r = in[static_cast<std::size_t>(at.rest)];
    if (!beside(r) || r.shape[2] > d.shape[2])
      throw Error(fmt::format("{}: the rest is {}, beside {}", name, to_string(r), to_string(d)));
  }
  if (along.state) {
    const Spec& s = in[static_cast<std::size_t>(at.state)];
    if (s.rank() != 2 || s.shape[0] != h.shape[0] || s.shape[1] < h.shape[2] || s.dtype != h.dtype)
      throw Error(fmt::format("{}: the state is {}, beside {}", name, to_string(s), to_string(h)));
  }
  if (along.lengths)
    recurrent::check_is(name, "lengths", in[static_cast<std::size_t>(at.lengths)],
                        {{h.shape[0]}, DType::i32});
  const Spec dweight{{d.shape[2], h.shape[2]}, h.dtype};
  if (accumulate)
    recurrent::check_is(name, "accumulator", in[static_cast<std::size_t>(at.so_far)], dweight);
  return dweight;
}

Cost RecurrentWeightGrad::cost(Specs in) const {
  const Spec out = shape(in);
  Cost c{2 * static_cast<double>(in[0].size()) * static_cast<double>(in[1].shape[2]),
         static_cast<double>(out.bytes()), Work::cell};
  for (const Spec& s : in) c.bytes += static_cast<double>(s.bytes());
  return c;
}

std::size_t RecurrentWeightGrad::scratch(Specs in) const {
  std::size_t bytes = 0;
  with_float(in[0].dtype, [&](auto zero) {
    bytes = kernels::recurrent_weight_grad_scratch(sum_of<decltype(zero)>(*this, in));
  });
  return bytes;
}

void RecurrentWeightGrad::run(Ins in, Out dweight, Scratch scratch) const {
  const SumPlaces at(*this);
  const void* from = at.so_far < 0 ? nullptr : in[static_cast<std::size_t>(at.so_far)].data;
  if (from == nullptr) {
    std::memset(dweight.data, 0, dweight.spec->bytes());
  } else if (from != dweight.data) {
    std::memcpy(dweight.data, from, dweight.spec->bytes());
  }
  Spec specs[6];
  for (std::size_t i = 0; i < in.size(); ++i) specs[i] = *in[i].spec;
  with_float(dweight.dtype(), [&](auto zero) {
    using T = decltype(zero);
    auto call = sum_of<T>(*this, {specs, in.size()});
    call.over.lengths = recurrent::data<std::int32_t>(in, at.lengths);
    call.d = in[0].as<T>();
    call.h = in[1].as<T>();
    call.d_rest = recurrent::data<T>(in, at.rest);
    call.state = recurrent::data<T>(in, at.state);
    call.dweight = dweight.as<T>();
    kernels::recurrent_weight_grad(call, scratch);
  });
}

Needs RecurrentWeightGrad::needs(int input) const {
  const SumPlaces at(*this);
  if (input == at.so_far || input == at.lengths) return Needs::nothing();
  Needs all = Needs::input(0) | Needs::input(1);
  for (const int place : {at.rest, at.state, at.lengths})
    if (place >= 0) all = all | Needs::input(place);
  return all;
}

BatchRule RecurrentWeightGrad::batch_rule(const BatchInputs& batch, int) const {
  const std::uint32_t all = (1u << batch.in.size()) - 1, sum = overwrites(0);
  return rule::summed(batch, all & ~sum, sum);
}

std::uint32_t RecurrentWeightGrad::overwrites(int) const {
  return accumulate ? 1u << SumPlaces(*this).so_far : 0;
}

// Bilinear in d and h: with Z what flows in, d gets (h before) · Zᵀ, and h before gets d · Z.
void RecurrentWeightGrad::grad(Back& back) const {
  const SumPlaces at(*this);
  if (accumulate && back.wants(at.so_far)) back.give(at.so_far, back.d());
  const auto wants = [&](int place) { return place >= 0 && back.wants(place); };
  if (!wants(0) && !wants(1) && !wants(at.rest) && !wants(at.state)) return;
  const Tensor &h = back.in(1), &z = back.d();
  const std::int64_t batch = h.dim(0), steps = h.dim(1), hidden = h.dim(2);
  const std::int64_t columns = back.in_spec(0).shape[2];
  const std::int64_t own = rest ? columns - back.in_spec(at.rest).shape[2] : columns;
  // In reverse, a row that ends early starts at its own end: there, and not at the end of them all,
  // h before is the state.
  const bool ends = along.reverse && along.lengths;
  const Tensor starts = ends ? first_steps(back.in(at.lengths), along, steps, h.dtype()) : Tensor();
  if (wants(0) || wants(at.rest)) {
    const Tensor none = Tensor::zeros(Shape{batch, 1, hidden}, h.dtype());
    const Tensor first =
        along.state ? expand_dims(slice(back.in(at.state), 1, 0, hidden), 1) : none;
    Tensor before = along.reverse ? concat({slice(h, 1, 1), ends ? none : first}, 1)
                                  : concat({first, slice(h, 1, 0, steps - 1)}, 1);
    if (ends) before = before * (1 - starts) + first * starts;
    const Tensor dd = matmul(before, z, {false, true});
    if (wants(0)) back.give(0, rest ? unslice(slice(dd, 2, 0, own), {2, 0, own, 1}, columns) : dd);
    if (wants(at.rest)) back.give(at.rest, slice(dd, 2, own));
  }
  if (!wants(1) && !wants(at.state)) return;
  const Tensor d = rest ? concat({slice(back.in(0), 2, 0, own), back.in(at.rest)}, 2) : back.in(0);
  const Tensor dbefore = matmul(d, z);  // (batch, steps, hidden)
  if (wants(1)) {
    const Tensor from_h = ends ? dbefore * (1 - starts) : dbefore;
    const Slice at_steps{1, along.reverse ? 1 : 0, along.reverse ? steps : steps - 1, 1};
    const Tensor shifted = along.reverse ? slice(from_h, 1, 0, steps - 1) : slice(from_h, 1, 1);
    back.give(1, unslice(shifted, at_steps, steps));
  }
  if (wants(at.state)) {
    const std::int64_t first = along.reverse ? steps - 1 : 0;
    const Tensor dstate =
        ends ? sum(dbefore * starts, {1}) : squeeze(slice(dbefore, 1, first, first + 1), 1);
    back.give(at.state, unslice(dstate, Slice{1, 0, hidden, 1}, back.in_spec(at.state).shape[1]));
  }
}

// ---- sequences ----

namespace {

// Up to kWhole steps nothing is cut: what a short sequence keeps is small. For each of its steps a
// segment keeps about six times what a state takes, so the least memory is near sqrt(steps / 3)
// steps a segment; less where states are dropped too, as they are in the longest ones. Each segment
// packs the weight once more, so that sequences which need it less are cut into longer ones.
constexpr std::int64_t kWhole = 64, kLong = 512;
std::int64_t segment_steps(std::int64_t steps) {
  if (steps <= kLong) return 32;
  std::int64_t length = 10;
  while (10 * length * length < steps) ++length;
  return length;
}

}  // namespace

std::vector<Tensor> time_segments(const Tensor& x) {
  if (x.rank() < 2 || x.dim(1) <= kWhole) return {x};
  std::vector<Tensor> segments;
  const std::int64_t steps = segment_steps(x.dim(1));
  for (std::int64_t t = 0; t < x.dim(1); t += steps)
    segments.push_back(slice(x, 1, t, std::min(t + steps, x.dim(1))));
  return segments;
}

LstmState stop_gradient(const LstmState& state) {
  const auto cut = [](const Tensor& x) { return x ? stop_gradient(x) : x; };
  return {cut(state.h), cut(state.c)};
}

Tensor joined(const LstmState& state) {
  if (!state.h && !state.c) return {};
  if (!state.h || !state.c)
    throw Error(fmt::format("{}: the initial state has {}; give both or neither", Lstm::name,
                            state.h ? "h but no c" : "c but no h"));
  return concat({state.h, state.c}, 1);
}

}  // namespace ebb
