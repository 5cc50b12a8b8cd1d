#include "ebb/ops/slice.hpp"

#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/kernels/copy.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/layout.hpp"
#include "ebb/ops/shape.hpp"

namespace ebb {

using namespace ops;

namespace {

using kernels::Walk;
using layout::product;

Cost moved(const Spec& x, const Spec& y) {
  return {0, static_cast<double>(std::min(x.bytes(), y.bytes())) + static_cast<double>(y.bytes())};
}

// The walk over the elements of a slice: from the whole array to the slice, or turned round.
Walk slice_walk(const Shape& whole, const Shape& part, const Slice& at, std::size_t element,
                bool from_whole) {
  const std::int64_t inner =
      product(whole, at.axis + 1, whole.rank()) * static_cast<std::int64_t>(element);
  Walk walk;
  const auto add = [&](std::int64_t size, std::int64_t in_whole, std::int64_t in_part) {
    walk.add(size, from_whole ? in_whole : in_part, from_whole ? in_part : in_whole);
  };
  const std::int64_t count = part[at.axis];
  add(product(whole, 0, at.axis), whole[at.axis] * inner, count * inner);
  add(count, at.step * inner, inner);
  add(inner / static_cast<std::int64_t>(element), static_cast<std::int64_t>(element),
      static_cast<std::int64_t>(element));
  return walk;
}

std::int64_t slice_offset(const Shape& whole, const Slice& at) {  // elements
  return at.begin * product(whole, at.axis + 1, whole.rank());
}

std::string range_of(const Slice& s) {
  return s.step == 1 ? fmt::format("{}:{}", s.begin, s.end)
                     : fmt::format("{}:{}:{}", s.begin, s.end, s.step);
}

}  // namespace

// ---- concat, stack, split ----

Spec Concat::shape(Specs in) const {
  std::int64_t size = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].dtype != in[0].dtype)
      throw Error(fmt::format("concat: {} and {} differ in type; cast one", to_string(in[0]),
                              to_string(in[i])));
    if (!layout::agree_beside(in[i].shape, in[0].shape, axis))
      throw Error(fmt::format("concat: {} and {} (part {}) differ beside axis {}", to_string(in[0]),
                              to_string(in[i]), i, axis));
    size += in[i].shape[axis];
  }
  return in[0].with_axis(axis, size);
}
Cost Concat::cost(Specs in) const {
  const Spec y = shape(in);
  return moved(y, y);
}

void Concat::run(Ins in, Out y, Scratch) const {
  const layout::Sizes steps = layout::steps_of(y.shape(), y.dtype());
  const std::int64_t outer = product(y.shape(), 0, axis);
  const std::int64_t row = y.shape()[axis] * steps[static_cast<std::size_t>(axis)];
  const auto element = static_cast<std::int64_t>(size_of(y.dtype()));
  auto* to = y.as<std::byte>();
  for (const In& x : in) {
    const std::int64_t run = x.shape()[axis] * steps[static_cast<std::size_t>(axis)];
    Walk walk;
    walk.add(outer, run, row);
    walk.add(run / element, element, element);
    kernels::copy(walk, static_cast<std::size_t>(element), x.data, to);
    to += run;
  }
}

void Concat::grad(Back& b) const {
  std::int64_t begin = 0;
  for (int i = 0; i < b.inputs(); ++i) {
    const std::int64_t end = begin + b.in_spec(i).shape[axis];
    if (b.wants(i)) b.give(i, slice(b.d(), axis, begin, end));
    begin = end;
  }
}

Tensor concat(std::span<const Tensor> parts, int axis) {
  if (parts.empty()) throw Error("concat: no tensors were given, expected one or more");
  std::vector<const Tensor*> in;
  for (const Tensor& t : parts) in.push_back(&t);
  return apply_all(Concat{axis_of("concat", axis, parts[0].rank())}, in);
}

Tensor stack(std::span<const Tensor> parts, int axis) {
  if (parts.empty()) throw Error("stack: no tensors were given, expected one or more");
  axis = axis_of("stack", axis, parts[0].rank() + 1);
  std::vector<Tensor> rows;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].spec() != parts[0].spec())
      throw Error(fmt::format("stack: {} and {} (part {}) differ", to_string(parts[0].spec()),
                              to_string(parts[i].spec()), i));
    rows.push_back(expand_dims(parts[i], axis));
  }
  return concat(rows, axis);
}

std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, int axis) {
  axis = axis_of("split", axis, x.rank());
  std::int64_t sum = 0;
  for (const std::int64_t n : sizes) {
    if (n < 0) throw Error(fmt::format("split: a part of size {} was asked for", n));
    sum += n;
  }
  if (sum != x.shape()[axis])
    throw Error(fmt::format("split: the parts of axis {} of {} add up to {}, expected {}", axis,
                            to_string(x.spec()), sum, x.shape()[axis]));
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t n : sizes) {
    parts.push_back(slice(x, axis, begin, begin + n));
    begin += n;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, int parts, int axis) {
  axis = axis_of("split", axis, x.rank());
  const std::int64_t size = x.shape()[axis];
  if (parts < 1 || size % parts != 0)
    throw Error(fmt::format("split: axis {} of {} cannot be cut into {} equal parts", axis,
                            to_string(x.spec()), parts));
  return split(x, std::vector<std::int64_t>(static_cast<std::size_t>(parts), size / parts), axis);
}

// ---- slice ----

Spec Slice::shape(const Spec& x) const {
  if (begin < 0 || end < begin || end > x.shape[axis] || step < 1)
    throw Error(fmt::format("slice: {} is out of range for axis {} of {}; expected 0 to {}",
                            range_of(*this), axis, to_string(x), x.shape[axis]));
  return x.with_axis(axis, (end - begin + step - 1) / step);
}
Cost Slice::cost(const Spec& x) const { return moved(x, shape(x)); }

Tensor Slice::view(const Tensor& x) const {
  if (product(x.shape(), 0, axis) != 1 || (step != 1 && end - begin > 1)) return {};
  const Shape to = shape(x.spec()).shape;
  if (axis == 0) return x.rows(begin, end);
  const Shape flat{x.shape()[axis], product(x.shape(), axis + 1, x.rank())};
  return x.viewed(flat).rows(begin, end).viewed(to);
}

void Slice::run(In x, Out y, Scratch) const {
  const std::size_t element = size_of(x.dtype());
  kernels::copy(
      slice_walk(x.shape(), y.shape(), *this, element, true), element,
      x.as<std::byte>() + slice_offset(x.shape(), *this) * static_cast<std::int64_t>(element),
      y.data);
}

// What is there already is added to where it lies: the parts of a split cost what one whole costs.
void Slice::grad(Back& b) const {
  b.give(0, unslice(b.d(), *this, b.in_spec(0).shape[axis], b.take(0)));
}

Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
  axis = axis_of("slice", axis, x.rank());
  const std::int64_t size = x.shape()[axis];
  Slice op{axis, begin, end == kEnd ? size : end, step};
  if (op.begin < 0) op.begin += size;
  if (op.end < 0) op.end += size;
  if (op.begin == 0 && op.end == size && step == 1) return x;
  return apply(op, x);
}

Tensor ops::first_rows(const Tensor& table, std::int64_t rows) {
  return apply(Slice{0, 0, rows, 1}, table);
}

Spec Unslice::shape(Specs in) const {
  const Spec y = in[0].with_axis(at.axis, size);
  const Spec part = at.shape(y);
  if (part != in[0])
    throw Error(fmt::format("unslice: {} is not the slice {} of {}, which is {}", to_string(in[0]),
                            range_of(at), to_string(y), to_string(part)));
  check_number(name, in[0], true);
  if (accumulate && in[1] != y)
    throw Error(
        fmt::format("unslice: the accumulator is {}, expected {}", to_string(in[1]), to_string(y)));
  return y;
}
Cost Unslice::cost(Specs in) const {
  return {static_cast<double>(in[0].size()),
          static_cast<double>(shape(in).bytes()) + 3.0 * static_cast<double>(in[0].bytes())};
}

void Unslice::run(Ins in, Out y, Scratch) const {
  const In& x = in[0];
  const std::size_t element = size_of(x.dtype());
  const Walk walk = slice_walk(y.shape(), x.shape(), at, element, false);
  const std::int64_t offset = slice_offset(y.shape(), at);
  if (!accumulate) {
    kernels::zero_bytes(y.data, y.spec->bytes());
    kernels::copy(walk, element, x.data,
                  y.as<std::byte>() + offset * static_cast<std::int64_t>(element));
    return;
  }
  if (in[1].data != y.data) kernels::copy_bytes(in[1].data, y.data, y.spec->bytes());
  with_summable(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::accumulate(walk, x.as<T>(), y.as<T>() + offset);
  });
}

void Unslice::grad(Back& b) const {
  if (b.wants(0)) b.give(0, slice(b.d(), at.axis, at.begin, at.end, at.step));
  if (accumulate && b.wants(1)) b.give(1, b.d());
}

Tensor ops::unslice(const Tensor& x, const Slice& at, std::int64_t size, Tensor into) {
  const Tensor* in[] = {&x, &into};
  const bool add = static_cast<bool>(into);
  return apply_all(Unslice{at, size, add}, std::span(in, add ? 2 : 1), add ? 1 : -1);
}

}  // namespace ebb
