#include "ebb/ops/index.hpp"

#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/kernels/copy.hpp"
#include "ebb/kernels/index.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/layout.hpp"

namespace ebb {

using namespace ops;

namespace {

bool is_index(DType d) { return d == DType::i32 || d == DType::i64 || d == DType::u8; }

void check_indices(const char* op, const Spec& indices) {
  if (!is_index(indices.dtype))
    throw Error(
        fmt::format("{}: the indices are {}; expected i32, i64 or u8", op, to_string(indices)));
}

// Calls f with the indices in their own type, all of them in [0, size of the axis).
template <class F>
void with_indices(const char* op, In indices, std::int64_t size, const char* of, const Spec& x,
                  int axis, F&& f) {
  const auto checked = [&](auto zero) {
    using I = decltype(zero);
    const I* all = indices.as<I>();
    const auto count = static_cast<std::size_t>(indices.size());
    const std::int64_t bad = kernels::first_out_of_range(all, count, size);
    if (bad >= 0) {
      const std::string range =
          size == 0 ? "it has none" : fmt::format("expected 0 to {}", size - 1);
      const std::string place =
          of ? fmt::format("{} {}", of, size) : fmt::format("axis {} of {}", axis, to_string(x));
      throw Error(fmt::format("{}: index {} at position {} is out of range for {}; {}", op,
                              static_cast<std::int64_t>(all[bad]), bad, place, range));
    }
    f(all, count);
  };
  switch (indices.dtype()) {
    case DType::i32:
      return checked(std::int32_t{});
    case DType::u8:
      return checked(std::uint8_t{});
    default:
      return checked(std::int64_t{});
  }
}

// The accumulator's value, or zeros, to be added to.
void start(Ins in, bool accumulate, Out y) {
  if (!accumulate) {
    kernels::zero_bytes(y.data, y.spec->bytes());
  } else if (in[2].data != y.data) {
    kernels::copy_bytes(in[2].data, y.data, y.spec->bytes());
  }
}

void check_accumulator(const char* op, Specs in, bool accumulate, const Spec& y) {
  if (accumulate && in[2] != y)
    throw Error(
        fmt::format("{}: the accumulator is {}, expected {}", op, to_string(in[2]), to_string(y)));
}

// shape with `count` axes from `axis` on replaced by those of `by`.
Shape spliced(const char* op, const Shape& shape, int axis, int count, const Shape& by) {
  const int rank = shape.rank() - count + by.rank();
  if (rank > Shape::kMaxRank)
    throw Error(fmt::format("{}: the result of {} with {} has rank {}, above the largest, {}", op,
                            to_string(shape), to_string(by), rank, +Shape::kMaxRank));
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  std::size_t n = 0;
  for (int d = 0; d < axis; ++d) dims[n++] = shape[d];
  for (const std::int64_t d : by) dims[n++] = d;
  for (int d = axis + count; d < shape.rank(); ++d) dims[n++] = shape[d];
  return Shape(std::span(dims.data(), n));
}

Cost summed(const Spec& indices, const Spec& updates, const Spec& y) {
  return {
      static_cast<double>(updates.size()),
      static_cast<double>(indices.bytes() + y.bytes()) + 3.0 * static_cast<double>(updates.bytes()),
      Work::scatter};
}

}  // namespace

// ---- gather ----

Spec Gather::shape(const Spec& x, const Spec& indices) const {
  check_indices(name, indices);
  return {spliced(name, x.shape, axis, 1, indices.shape), x.dtype};
}
Cost Gather::cost(const Spec& x, const Spec& indices) const {
  return {
      0,
      static_cast<double>(indices.bytes()) + 2.0 * static_cast<double>(shape(x, indices).bytes()),
      Work::gather};
}

void Gather::run(In x, In indices, Out y, Scratch) const {
  const layout::Along a(x.shape(), axis);
  with_indices(
      name, indices, x.shape()[axis], nullptr, *x.spec, axis, [&](auto* all, std::size_t count) {
        kernels::gather(a.outer, a.size, a.inner * size_of(x.dtype()), x.data, all, count, y.data);
      });
}

BatchRule Gather::batch_rule(const BatchInputs& batch, int) const {
  return rule::per_example(batch, 0b10, axis == 0) | rule::per_example(batch, 0b01, axis > 0) |
         rule::linear(batch, 0b01);
}

void Gather::grad(Back& b) const {
  if (!b.wants(0) || (axis == 0 && b.give_sparse(0, b.in(1), b.d()))) return;
  b.give(0, scatter_add_along(b.in(1), b.d(), axis, b.in_spec(0).shape[axis], b.take(0)));
}

Tensor gather(const Tensor& x, const Tensor& indices, int axis) {
  return apply(Gather{axis_of("gather", axis, x.rank())}, x, indices);
}

Tensor embedding(const Tensor& weight, const Tensor& ids) {
  if (weight.rank() != 2)
    throw Error(fmt::format("embedding: the weight is {}; expected (rows, width)",
                            to_string(weight.spec())));
  return apply(Gather{0}, weight, ids);
}

// ---- scatter_add ----

Spec ScatterAdd::shape(Specs in) const {
  const Spec &indices = in[0], &updates = in[1];
  check_indices(name, indices);
  check_number(name, updates, true);
  bool fits = axis + indices.rank() <= updates.rank();
  for (int d = 0; fits && d < indices.rank(); ++d)
    fits = updates.shape[axis + d] == indices.shape[d];
  if (!fits)
    throw Error(fmt::format("scatter_add: updates {} do not have the indices {} at axis {}",
                            to_string(updates), to_string(indices), axis));
  const Spec y{spliced(name, updates.shape, axis, indices.rank(), {size}), updates.dtype};
  check_accumulator(name, in, accumulate, y);
  return y;
}
Cost ScatterAdd::cost(Specs in) const { return summed(in[0], in[1], shape(in)); }

std::size_t ScatterAdd::scratch(Specs in) const {
  const Spec y = shape(in);
  if (!is_half(y.dtype)) return 0;
  const layout::Along a(y.shape, axis);
  return kernels::scatter_add_half_scratch(a.size, a.inner);
}

void ScatterAdd::run(Ins in, Out y, Scratch scratch) const {
  const layout::Along a(y.shape(), axis);
  with_indices(name, in[0], size, nullptr, *y.spec, axis, [&](auto* all, std::size_t count) {
    start(in, accumulate, y);
    const auto sum_half = [&](auto zero) {
      using Half = decltype(zero);
      kernels::scatter_add_half(a.outer, a.size, a.inner, in[1].as<Half>(), all, count,
                                y.as<Half>(), scratch);
    };
    if (y.dtype() == DType::bf16) return sum_half(bf16{});
    if (y.dtype() == DType::f16) return sum_half(f16{});
    with_summable(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::scatter_add(a.outer, a.size, a.inner, in[1].as<T>(), all, count, y.as<T>());
    });
  });
}

std::optional<std::uint32_t> ScatterAdd::row_block_inputs(Specs in) const {
  if (axis != 0 || is_half(in[1].dtype)) return {};
  return overwrites(0);
}

void ScatterAdd::run_row_block(Ins in, Out rows, std::int64_t first, Scratch) const {
  const layout::Along a(rows.shape(), 0);
  with_indices(name, in[0], size, "a table of", *rows.spec, 0, [&](auto* all, std::size_t count) {
    start(in, accumulate, rows);
    with_summable(rows.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::scatter_add_some(static_cast<std::size_t>(first), a.size, a.inner, in[1].as<T>(),
                                all, count, rows.as<T>());
    });
  });
}

BatchRule ScatterAdd::batch_rule(const BatchInputs& batch, int) const {
  const std::uint32_t sum = overwrites(0);
  return rule::summed(batch, 0b011, sum, axis == 0) |
         rule::per_example(batch, 0b010 | sum, axis > 0) | rule::linear(batch, 0b010 | sum);
}

void ScatterAdd::grad(Back& b) const {
  if (b.wants(1)) b.give(1, gather(b.d(), b.in(0), axis));
  if (accumulate && b.wants(2)) b.give(2, b.d());
}

Tensor scatter_add_along(const Tensor& indices, const Tensor& updates, int axis, std::int64_t size,
                         Tensor into) {
  const Tensor* in[] = {&indices, &updates, &into};
  const bool add = static_cast<bool>(into);
  return apply_all(ScatterAdd{axis, size, add}, std::span(in, add ? 3 : 2), add ? 2 : -1);
}

Tensor scatter_add(Tensor base, const Tensor& indices, const Tensor& updates) {
  const std::int64_t rows = base.dim(0);
  return scatter_add_along(indices, updates, 0, rows, std::move(base));
}

// ---- take_along ----

Spec TakeAlong::shape(const Spec& x, const Spec& indices) const {
  check_indices(name, indices);
  if (!layout::agree_beside(x.shape, indices.shape, axis))
    throw Error(fmt::format("take_along: {} and the indices {} differ beside axis {}", to_string(x),
                            to_string(indices), axis));
  return {indices.shape, x.dtype};
}
Cost TakeAlong::cost(const Spec& x, const Spec& indices) const {
  return {
      0,
      static_cast<double>(indices.bytes()) + 2.0 * static_cast<double>(shape(x, indices).bytes()),
      Work::gather};
}

void TakeAlong::run(In x, In indices, Out y, Scratch) const {
  const layout::Along a(x.shape(), axis);
  const auto count = static_cast<std::size_t>(y.shape()[axis]);
  with_indices(name, indices, x.shape()[axis], nullptr, *x.spec, axis, [&](auto* all, std::size_t) {
    kernels::take_along(a.outer, a.size, a.inner, size_of(x.dtype()), x.data, all, count, y.data);
  });
}

void TakeAlong::grad(Back& b) const {
  if (!b.wants(0)) return;
  b.give(0, put_along_add(b.in(1), b.d(), axis, b.in_spec(0).shape[axis], b.take(0)));
}

Tensor take_along(const Tensor& x, const Tensor& indices, int axis) {
  return apply(TakeAlong{axis_of("take_along", axis, x.rank())}, x, indices);
}

Spec PutAlongAdd::shape(Specs in) const {
  check_indices(name, in[0]);
  check_number(name, in[1], true);
  if (in[0].shape != in[1].shape)
    throw Error(fmt::format("put_along_add: the indices {} and the updates {} differ in shape",
                            to_string(in[0]), to_string(in[1])));
  const Spec y = in[1].with_axis(axis, size);
  check_accumulator(name, in, accumulate, y);
  return y;
}
Cost PutAlongAdd::cost(Specs in) const { return summed(in[0], in[1], shape(in)); }

void PutAlongAdd::run(Ins in, Out y, Scratch) const {
  const layout::Along a(y.shape(), axis);
  const auto count = static_cast<std::size_t>(in[1].shape()[axis]);
  with_indices(name, in[0], size, nullptr, *y.spec, axis, [&](auto* all, std::size_t) {
    start(in, accumulate, y);
    with_summable(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::put_along_add(a.outer, a.size, a.inner, in[1].as<T>(), all, count, y.as<T>());
    });
  });
}

BatchRule PutAlongAdd::batch_rule(const BatchInputs& batch, int) const {
  const std::uint32_t sum = overwrites(0);
  return rule::summed(batch, 0b011, sum, axis == 0) |
         rule::per_example(batch, 0b011 | sum, axis > 0) | rule::linear(batch, 0b010 | sum);
}

void PutAlongAdd::grad(Back& b) const {
  if (b.wants(1)) b.give(1, take_along(b.d(), b.in(0), axis));
  if (accumulate && b.wants(2)) b.give(2, b.d());
}

Tensor put_along_add(const Tensor& indices, const Tensor& updates, int axis, std::int64_t size,
                     Tensor into) {
  const PutAlongAdd op{axis_of("put_along_add", axis, updates.rank()), size,
                       static_cast<bool>(into)};
  const Tensor* in[] = {&indices, &updates, &into};
  return apply_all(op, std::span(in, into ? 3 : 2), into ? 2 : -1);
}

// ---- one_hot ----

Spec OneHot::shape(const Spec& ids) const {
  check_indices(name, ids);
  if (depth < 0) throw Error(fmt::format("one_hot: the depth is {}; expected 0 or more", depth));
  return {spliced(name, ids.shape, ids.rank(), 0, {depth}), dtype};
}
Cost OneHot::cost(const Spec& ids) const {
  return {0, static_cast<double>(ids.bytes()) + static_cast<double>(shape(ids).bytes())};
}

void OneHot::run(In ids, Out y, Scratch) const {
  const layout::Element one(1, dtype);
  with_indices(name, ids, depth, "depth", *y.spec, 0, [&](auto* all, std::size_t count) {
    kernels::one_hot(all, count, static_cast<std::size_t>(depth), size_of(dtype), one.bytes,
                     y.data);
  });
}

Tensor one_hot(const Tensor& ids, std::int64_t depth, DType dtype) {
  return apply(OneHot{depth, dtype}, ids);
}

}  // namespace ebb
