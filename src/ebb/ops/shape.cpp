#include "ebb/ops/shape.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/kernels/copy.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/layout.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/tensor/constant.hpp"

namespace ebb {

using namespace ops;

namespace {

using kernels::Walk;
using layout::product;
using layout::Sizes;
using layout::steps_of;
using layout::to_shape;

Cost moved(const Spec& x, const Spec& y) {
  return {0, static_cast<double>(std::min(x.bytes(), y.bytes())) + static_cast<double>(y.bytes())};
}

}  // namespace

// ---- reshape ----

Spec Reshape::shape(const Spec& x) const {
  if (x.size() != to.size())
    throw Error(fmt::format("reshape: {} has {} elements, {} has {}", to_string(x), x.size(),
                            to_string(to), to.size()));
  return {to, x.dtype};
}
void Reshape::run(In x, Out y, Scratch) const {
  kernels::copy_bytes(x.data, y.data, x.spec->bytes());
}
void Reshape::grad(Back& b) const { b.give(0, reshape(b.d(), b.in_spec(0).shape)); }
AnyOp Reshape::for_examples(std::int64_t from, std::int64_t n) const {
  const auto resized = rule::resized(to, from, n);
  return resized ? any_op(Reshape{*resized}) : AnyOp();
}

Tensor reshape(const Tensor& x, std::span<const std::int64_t> dims) {
  Sizes sizes{};
  if (dims.size() > sizes.size())
    throw Error(
        fmt::format("reshape: rank {} is above the largest, {}", dims.size(), sizes.size()));
  int open = -1;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    sizes[i] = dims[i];
    if (dims[i] != -1) {
      if (__builtin_mul_overflow(known, dims[i], &known)) known = 0;
    } else if (open >= 0) {
      throw Error(
          fmt::format("reshape: axes {} and {} are both -1; one size can be left open", open, i));
    } else {
      open = static_cast<int>(i);
    }
  }
  if (open >= 0) {
    if (known <= 0 || x.size() % known != 0)
      throw Error(fmt::format("reshape: {} has {} elements, which axis {} cannot make up from {}",
                              to_string(x.spec()), x.size(), open, known));
    sizes[static_cast<std::size_t>(open)] = x.size() / known;
  }
  const Shape to = to_shape(sizes, static_cast<int>(dims.size()));
  return to == x.shape() ? x : apply(Reshape{to}, x);
}

Tensor squeeze(const Tensor& x, int axis) {
  axis = axis_of("squeeze", axis, x.rank());
  if (x.shape()[axis] != 1)
    throw Error(fmt::format("squeeze: axis {} of {} is {}, expected 1", axis, to_string(x.spec()),
                            x.shape()[axis]));
  std::vector<std::int64_t> dims(x.shape().begin(), x.shape().end());
  dims.erase(dims.begin() + axis);
  return reshape(x, dims);
}

Tensor squeeze(const Tensor& x) {
  std::vector<std::int64_t> dims;
  std::copy_if(x.shape().begin(), x.shape().end(), std::back_inserter(dims),
               [](std::int64_t d) { return d != 1; });
  return reshape(x, dims);
}

Tensor expand_dims(const Tensor& x, int axis) {
  axis = axis_of("expand_dims", axis, x.rank() + 1);
  std::vector<std::int64_t> dims(x.shape().begin(), x.shape().end());
  dims.insert(dims.begin() + axis, 1);
  return reshape(x, dims);
}

// ---- permute ----

Spec Permute::shape(const Spec& x) const {
  Sizes dims{};
  for (int i = 0; i < x.rank(); ++i)
    dims[static_cast<std::size_t>(i)] = x.shape[axes[static_cast<std::size_t>(i)]];
  return {to_shape(dims, x.rank()), x.dtype};
}
Cost Permute::cost(const Spec& x) const { return moved(x, x); }

Tensor Permute::view(const Tensor& x) const {
  int before = -1;
  for (int i = 0; i < x.rank(); ++i) {
    const int axis = axes[static_cast<std::size_t>(i)];
    if (x.shape()[axis] == 1) continue;
    if (axis < before) return {};
    before = axis;
  }
  return x.viewed(shape(x.spec()).shape);
}

void Permute::run(In x, Out y, Scratch) const {
  const Sizes from = steps_of(x.shape(), x.dtype()), to = steps_of(y.shape(), y.dtype());
  Walk walk;
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.spec->rank()); ++i)
    walk.add(y.shape()[static_cast<int>(i)], from[static_cast<std::size_t>(axes[i])], to[i]);
  kernels::copy(walk, size_of(x.dtype()), x.data, y.data);
}

void Permute::grad(Back& b) const {
  Permute back;
  for (int i = 0; i < b.in_spec(0).rank(); ++i)
    back.axes[static_cast<std::size_t>(axes[static_cast<std::size_t>(i)])] =
        static_cast<std::int8_t>(i);
  b.give(0, apply(back, b.d()));
}

Tensor permute(const Tensor& x, std::span<const int> axes) {
  if (static_cast<int>(axes.size()) != x.rank())
    throw Error(fmt::format("permute: {} axes were given for {}, expected {}", axes.size(),
                            to_string(x.spec()), x.rank()));
  Permute op;
  unsigned seen = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = axis_of("permute", axes[i], x.rank());
    if (seen >> axis & 1) throw Error(fmt::format("permute: axis {} is there twice", axis));
    seen |= 1u << axis;
    op.axes[i] = static_cast<std::int8_t>(axis);
  }
  return apply(op, x);
}

Tensor transpose(const Tensor& x) {
  const int rank = x.rank();
  if (rank < 2)
    throw Error(fmt::format("transpose: {} has fewer than two axes", to_string(x.spec())));
  Permute op;
  for (int i = 0; i < rank; ++i) op.axes[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(i);
  std::swap(op.axes[static_cast<std::size_t>(rank - 1)],
            op.axes[static_cast<std::size_t>(rank - 2)]);
  return apply(op, x);
}

// ---- pad, tile, flip, broadcast_to ----

Spec Pad::shape(const Spec& x) const {
  check_constant(name, value, x.dtype);
  Sizes dims{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.rank()); ++i) {
    if (before[i] < 0 || after[i] < 0)
      throw Error(fmt::format("pad: {} and {} around axis {} of {}; expected 0 or more", before[i],
                              after[i], i, to_string(x)));
    if (__builtin_add_overflow(before[i], x.shape[static_cast<int>(i)], &dims[i]) ||
        __builtin_add_overflow(dims[i], after[i], &dims[i]))
      throw Error(fmt::format("pad: {} and {} around axis {} of {} are too many", before[i],
                              after[i], i, to_string(x)));
  }
  return {to_shape(dims, x.rank()), x.dtype};
}
Cost Pad::cost(const Spec& x) const { return moved(x, shape(x)); }

void Pad::run(In x, Out y, Scratch) const {
  const Sizes from = steps_of(x.shape(), x.dtype()), to = steps_of(y.shape(), y.dtype());
  const std::size_t element = size_of(x.dtype());
  const auto rank = static_cast<std::size_t>(x.spec->rank());
  const layout::Element border(value, x.dtype());
  Walk inside;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    inside.add(x.shape()[static_cast<int>(i)], from[i], to[i]);
    offset += before[i] * to[i];
  }
  kernels::copy(inside, element, x.data, y.as<std::byte>() + offset);
  // Around it, for each axis: the slabs before and after, of the inside of the axes in front of it
  // and all of those behind it.
  std::int64_t front = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    Walk slab;
    for (std::size_t k = 0; k < rank; ++k)
      slab.add(k < i ? x.shape()[static_cast<int>(k)] : y.shape()[static_cast<int>(k)], 0, to[k]);
    const std::int64_t size = x.shape()[static_cast<int>(i)];
    slab.dim[i] = before[i];
    kernels::fill(slab, element, border.bytes, y.as<std::byte>() + front);
    slab.dim[i] = after[i];
    kernels::fill(slab, element, border.bytes,
                  y.as<std::byte>() + front + (before[i] + size) * to[i]);
    front += before[i] * to[i];
  }
}

void Pad::grad(Back& b) const {
  Tensor d = b.d();
  for (int i = 0; i < b.in_spec(0).rank(); ++i) {
    const std::int64_t begin = before[static_cast<std::size_t>(i)];
    d = slice(d, i, begin, begin + b.in_spec(0).shape[i]);
  }
  b.give(0, d);
}

Tensor pad(const Tensor& x, std::span<const Padding> axes, double value) {
  if (static_cast<int>(axes.size()) != x.rank())
    throw Error(fmt::format("pad: {} pairs were given for {}, expected {}", axes.size(),
                            to_string(x.spec()), x.rank()));
  Pad op;
  op.value = value;
  bool nothing = true;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    op.before[i] = axes[i].before;
    op.after[i] = axes[i].after;
    nothing = nothing && axes[i].before == 0 && axes[i].after == 0;
  }
  return nothing ? x : apply(op, x);
}

Spec Tile::shape(const Spec& x) const {
  Sizes dims{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.rank()); ++i) {
    if (repeats[i] < 0)
      throw Error(fmt::format("tile: axis {} of {} is repeated {} times; expected 0 or more", i,
                              to_string(x), repeats[i]));
    if (__builtin_mul_overflow(repeats[i], x.shape[static_cast<int>(i)], &dims[i]))
      throw Error(fmt::format("tile: axis {} of {} repeated {} times is too long", i, to_string(x),
                              repeats[i]));
  }
  return {to_shape(dims, x.rank()), x.dtype};
}
Cost Tile::cost(const Spec& x) const { return moved(x, shape(x)); }

void Tile::run(In x, Out y, Scratch) const {
  const Sizes from = steps_of(x.shape(), x.dtype()), to = steps_of(y.shape(), y.dtype());
  Walk walk;
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.spec->rank()); ++i) {
    const std::int64_t size = x.shape()[static_cast<int>(i)];
    walk.add(repeats[i], 0, size * to[i]);
    walk.add(size, from[i], to[i]);
  }
  kernels::copy(walk, size_of(x.dtype()), x.data, y.data);
}

void Tile::grad(Back& b) const {
  Tensor d = b.d();
  const Shape& x = b.in_spec(0).shape;
  for (int i = 0; i < x.rank(); ++i) {  // (front, repeats, rest), summed over the repeats
    const std::int64_t times = repeats[static_cast<std::size_t>(i)];
    if (times == 1) continue;
    const std::int64_t front = product(x, 0, i), rest = product(d.shape(), i + 1, x.rank()) * x[i];
    d = sum_to(reshape(d, {front, times, rest}), {front, 1, rest});
    Sizes dims{};
    for (int k = 0; k < x.rank(); ++k)
      dims[static_cast<std::size_t>(k)] = k <= i ? x[k] : b.out_spec().shape[k];
    d = reshape(d, to_shape(dims, x.rank()));
  }
  b.give(0, d);
}

Tensor tile(const Tensor& x, std::span<const std::int64_t> repeats) {
  if (static_cast<int>(repeats.size()) != x.rank())
    throw Error(fmt::format("tile: {} repeats were given for {}, expected {}", repeats.size(),
                            to_string(x.spec()), x.rank()));
  Tile op;
  std::copy(repeats.begin(), repeats.end(), op.repeats.begin());
  return apply(op, x);
}

Cost Flip::cost(const Spec& x) const { return moved(x, x); }

void Flip::run(In x, Out y, Scratch) const {
  const Sizes steps = steps_of(x.shape(), x.dtype());
  Walk walk;
  std::int64_t last = 0;
  for (int i = 0; i < x.spec->rank(); ++i) {
    const std::int64_t step = steps[static_cast<std::size_t>(i)];
    const bool back = axes >> i & 1;
    if (back) last += (x.shape()[i] - 1) * step;
    walk.add(x.shape()[i], back ? -step : step, step);
  }
  if (x.size()) kernels::copy(walk, size_of(x.dtype()), x.as<std::byte>() + last, y.data);
}

void Flip::grad(Back& b) const { b.give(0, apply(*this, b.d())); }

Tensor flip(const Tensor& x, std::span<const int> axes) {
  Flip op;
  for (const int axis : axes) {
    const unsigned bit = 1u << axis_of("flip", axis, x.rank());
    if (op.axes & bit) throw Error(fmt::format("flip: axis {} is there twice", axis));
    op.axes |= bit;
  }
  return op.axes ? apply(op, x) : x;
}

Spec BroadcastTo::shape(const Spec& x) const {
  bool fits = x.rank() <= to.rank();
  for (int back = 1; fits && back <= x.rank(); ++back) {
    const std::int64_t size = x.shape[x.rank() - back];
    fits = size == 1 || size == to[to.rank() - back];
  }
  if (!fits)
    throw Error(
        fmt::format("broadcast_to: {} does not broadcast to {}", to_string(x), to_string(to)));
  return {to, x.dtype};
}
Cost BroadcastTo::cost(const Spec& x) const { return moved(x, shape(x)); }

AnyOp BroadcastTo::for_examples(std::int64_t from, std::int64_t n) const {
  const auto resized = rule::resized(to, from, n);
  return resized ? any_op(BroadcastTo{*resized}) : AnyOp();
}

void BroadcastTo::run(In x, Out y, Scratch) const {
  const Sizes from = steps_of(x.shape(), x.dtype()), steps = steps_of(to, y.dtype());
  const int missing = to.rank() - x.spec->rank();
  Walk walk;
  for (int i = 0; i < to.rank(); ++i) {
    const bool moves = i >= missing && x.shape()[i - missing] != 1;
    walk.add(to[i], moves ? from[static_cast<std::size_t>(i - missing)] : 0,
             steps[static_cast<std::size_t>(i)]);
  }
  kernels::copy(walk, size_of(x.dtype()), x.data, y.data);
}

BatchRule BroadcastTo::batch_rule(const BatchInputs& batch, int) const {
  const Shape& x = batch.in[0].shape;
  return rule::per_example(batch, 0b1, x.rank() > 0 && x.rank() == to.rank() && x[0] == to[0]) |
         rule::per_example(batch, 0, to.rank() > 0 && (x.rank() < to.rank() || x[0] == 1)) |
         rule::linear(batch, 0b1);
}

void BroadcastTo::grad(Back& b) const { b.give(0, sum_to(b.d(), b.in_spec(0).shape, b.take(0))); }

Tensor broadcast_to(const Tensor& x, const Shape& to) {
  return to == x.shape() ? x : apply(BroadcastTo{to}, x);
}

}  // namespace ebb
