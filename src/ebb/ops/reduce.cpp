#include "ebb/ops/reduce.hpp"

#include <fmt/core.h>

#include <cstring>
#include <utility>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/kernels/reduce.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"

namespace ebb {

using namespace ops;

Axes::Axes(std::span<const int> axes) : count_(static_cast<int>(axes.size())) {
  for (std::size_t i = 0; i < axes.size() && i < axes_.size(); ++i) axes_[i] = axes[i];
}

std::uint32_t Axes::mask(const char* op, int rank) const {
  if (count_ == 0) return (1u << rank) - 1;
  if (count_ > rank)
    throw Error(fmt::format("{}: {} axes were given for rank {}", op, count_, rank));
  std::uint32_t mask = 0;
  for (int i = 0; i < count_; ++i) {
    const int axis = axis_of(op, axes_[static_cast<std::size_t>(i)], rank);
    if (mask >> axis & 1u) throw Error(fmt::format("{}: axis {} is named twice", op, axis));
    mask |= 1u << axis;
  }
  return mask;
}

namespace {

constexpr bool takes_integers(math::Reduce f) {
  return f == math::Reduce::sum || f == math::Reduce::max || f == math::Reduce::min ||
         f == math::Reduce::prod;
}

Shape reduced_shape(const Shape& x, std::uint32_t axes, bool keepdims) {
  std::int64_t dims[Shape::kMaxRank];
  std::size_t rank = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool reduced = (axes >> axis & 1u) != 0;
    if (!reduced || keepdims) dims[rank++] = reduced ? 1 : x[axis];
  }
  return Shape(std::span<const std::int64_t>(dims, rank));
}

std::int64_t reduced_count(const Shape& x, std::uint32_t axes) {
  std::int64_t n = 1;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axes >> axis & 1u) n *= x[axis];
  return n;
}

// Of (rows, n), n > 1: for each element the product of the others of its row. In halves, without
// a division: so it holds at zeros too, and so do its derivatives.
Tensor products_of_others(const Tensor& x) {
  const std::int64_t n = x.shape()[1], half = (n + 1) / 2;
  const Tensor even = n % 2 == 0 ? x : pad(x, {{0, 0}, {0, 1}}, 1);
  const Tensor left = slice(even, 1, 0, half), right = slice(even, 1, half, 2 * half);
  if (half == 1) return concat({right, left}, 1);
  const Tensor beyond = products_of_others(left * right);
  return slice(concat({beyond * right, beyond * left}, 1), 1, 0, n);
}

// The same of the elements along some axes.
Tensor products_of_others(const Tensor& x, std::uint32_t axes) {
  std::vector<int> order, back(static_cast<std::size_t>(x.rank()));
  std::vector<std::int64_t> dims;
  for (const bool reduced : {false, true})
    for (int axis = 0; axis < x.rank(); ++axis)
      if ((axes >> axis & 1u) == reduced) {
        back[static_cast<std::size_t>(axis)] = static_cast<int>(order.size());
        order.push_back(axis);
        dims.push_back(x.shape()[axis]);
      }
  const std::int64_t count = reduced_count(x.shape(), axes), rows = x.size() / count;
  const Tensor others = products_of_others(reshape(permute(x, order), {rows, count}));
  return permute(reshape(others, std::span<const std::int64_t>(dims)), back);
}

// Whether `to` broadcasts to `from`; the axes of `from` it is repeated along.
bool repeated_axes(const Shape& from, const Shape& to, std::uint32_t& axes) {
  const int extra = from.rank() - to.rank();
  if (extra < 0) return false;
  axes = (1u << extra) - 1;
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (to[axis] == from[axis + extra]) continue;
    if (to[axis] != 1) return false;
    axes |= 1u << (axis + extra);
  }
  return true;
}

}  // namespace

template <math::Reduce kFunction>
Spec Reduce<kFunction>::shape(const Spec& x) const {
  check_number(name, x, takes_integers(kFunction));
  const Shape y = reduced_shape(x.shape, axes, keepdims);
  if ((kFunction == math::Reduce::max || kFunction == math::Reduce::min) && y.size() > 0 &&
      reduced_count(x.shape, axes) == 0)
    throw Error(fmt::format("{}: {} has no elements to choose from", name, to_string(x)));
  return {y, x.dtype};
}

template <math::Reduce kFunction>
Cost Reduce<kFunction>::cost(const Spec& x) const {
  const double each = kFunction == math::Reduce::logsumexp ? 30
                      : kFunction == math::Reduce::var     ? 4
                                                           : 1;
  return {each * static_cast<double>(x.size()), static_cast<double>(x.bytes() + shape(x).bytes()),
          Work::reduction};
}

template <math::Reduce kFunction>
void Reduce<kFunction>::run(In x, Out y, Scratch) const {
  const kernels::Reduction r = kernels::reduction(x.shape().dims(), axes);
  with_number<takes_integers(kFunction)>(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::reduce(kFunction, r, x.as<T>(), y.as<T>(), {.correction = correction});
  });
}

template <math::Reduce kFunction>
void Reduce<kFunction>::grad(Back& back) const {
  if (!back.wants(0)) return;
  const Shape& shape = back.in_spec(0).shape;
  const Shape kept = reduced_shape(shape, axes, true);  // broadcasts to the input's
  const Tensor d = reshape(back.d(), kept);
  const auto x = [&]() -> const Tensor& { return back.in(0); };
  const auto same = [&](const Tensor& t) {  // the same reduction, with all its axes
    return apply(Reduce<math::Reduce::sum>{axes, true}, t);
  };
  const auto count = static_cast<double>(reduced_count(shape, axes));
  switch (kFunction) {
    case math::Reduce::sum:
      return back.give(0, broadcast_to(d, shape));
    case math::Reduce::mean:
      return back.give(0, broadcast_to(d / count, shape));
    case math::Reduce::max:
    case math::Reduce::min: {
      const Tensor chosen = cast(equal(x(), reshape(back.out(), kept)), d.dtype());
      return back.give(0, chosen * (d / same(chosen)));
    }
    case math::Reduce::logsumexp:
      return back.give(0, d * exp(x() - reshape(back.out(), kept)));
    case math::Reduce::var: {
      const double divisor = count > correction ? count - correction : 0;
      const Tensor centre = apply(Reduce<math::Reduce::mean>{axes, true}, x());
      return back.give(0, d * (2 / divisor) * (x() - centre));
    }
    case math::Reduce::prod:
      return back.give(0, count > 1 ? d * products_of_others(x(), axes) : broadcast_to(d, shape));
  }
}

// As a SumTo, where that says the same: not of a vector, which it sums in the order of rows.
template <math::Reduce kFunction>
AnyOp Reduce<kFunction>::accumulating(Specs in, int) const {
  const Shape& x = in[0].shape;
  std::uint32_t sums = 0;
  const Shape to = reduced_shape(x, axes, keepdims);
  if (kFunction != math::Reduce::sum || x.rank() < 2 || !repeated_axes(x, to, sums) || sums != axes)
    return {};
  return any_op(SumTo{to, true});
}

AnyOp SumTo::for_examples(std::int64_t from, std::int64_t n) const {
  const auto resized = rule::resized(to, from, n);
  return resized ? any_op(SumTo{*resized, accumulate}) : AnyOp();
}

AnyOp SumTo::accumulating(Specs, int) const {
  return accumulate ? AnyOp() : any_op(SumTo{to, true});
}

Spec SumTo::shape(Specs in) const {
  const std::size_t expected = accumulate ? 2 : 1;
  if (in.size() != expected)
    throw Error(fmt::format("sum_to: {} inputs were given, expected {}", in.size(), expected));
  check_number(name, in[0], true);
  std::uint32_t axes = 0;
  if (!repeated_axes(in[0].shape, to, axes)) {
    throw Error(
        fmt::format("sum_to: {} does not broadcast to {}", to_string(to), to_string(in[0])));
  }
  const Spec y{to, in[0].dtype};
  if (accumulate && in[1] != y) {
    throw Error(fmt::format("sum_to: the sum is {}, but it is added to {}", to_string(y),
                            to_string(in[1])));
  }
  return y;
}

Cost SumTo::cost(Specs in) const {
  double bytes = static_cast<double>(Spec{to, in[0].dtype}.bytes());
  for (const Spec& x : in) bytes += static_cast<double>(x.bytes());
  return {static_cast<double>(in[0].size()), bytes, Work::reduction};
}

void SumTo::run(Ins in, Out y, Scratch) const {
  if (accumulate && in[1].data != y.data) std::memcpy(y.data, in[1].data, y.spec->bytes());
  std::uint32_t axes = 0;
  repeated_axes(in[0].shape(), to, axes);
  // The elements of a vector are rows too, whose sum is one chain: as a matrix of one column.
  const std::int64_t column[] = {in[0].size(), 1};
  const kernels::Reduction r = in[0].shape().rank() == 1
                                   ? kernels::reduction(column, axes)
                                   : kernels::reduction(in[0].shape().dims(), axes);
  with_number<true>(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::reduce(math::Reduce::sum, r, in[0].as<T>(), y.as<T>(), {.accumulate = accumulate});
  });
}

// A sum over the only row of a part is one too.
BatchRule SumTo::batch_rule(const BatchInputs& batch, int) const {
  const Shape& x = batch.in[0].shape;
  const std::uint32_t sum = overwrites(0);
  const bool kept = x.rank() > 0 && x.rank() == to.rank() && x[0] == to[0];
  return rule::per_example(batch, 0b01 | sum, kept) |
         rule::summed(batch, 0b01, sum, x.rank() > 0 && (!kept || x[0] == 1)) |
         rule::linear(batch, 0b01 | sum);
}

void SumTo::grad(Back& back) const {
  if (back.wants(0)) back.give(0, broadcast_to(back.d(), back.in_spec(0).shape));
  if (accumulate && back.wants(1)) back.give(1, back.d());
}

Spec Argmax::shape(const Spec& x) const {
  check_number(name, x, true);
  const std::uint32_t axes = 1u << axis;
  const Shape y = reduced_shape(x.shape, axes, keepdims);
  if (y.size() > 0 && x.shape[axis] == 0)
    throw Error(fmt::format("argmax: {} has no elements to choose from", to_string(x)));
  return {y, DType::i64};
}
Cost Argmax::cost(const Spec& x) const {
  return {static_cast<double>(x.size()), static_cast<double>(x.bytes() + shape(x).bytes()),
          Work::reduction};
}
void Argmax::run(In x, Out y, Scratch) const {
  const kernels::Reduction r = kernels::reduction(x.shape().dims(), 1u << axis);
  with_number<true>(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::argmax(r, x.as<T>(), y.as<std::int64_t>());
  });
}

Spec Cumsum::shape(const Spec& x) const {
  check_number(name, x, true);
  return x;
}
Cost Cumsum::cost(const Spec& x) const {
  return {static_cast<double>(x.size()), 2.0 * static_cast<double>(x.bytes())};
}
void Cumsum::run(In x, Out y, Scratch) const {
  std::size_t outer = 1, inner = 1;
  for (int a = 0; a < x.shape().rank(); ++a)
    if (a != axis) (a < axis ? outer : inner) *= static_cast<std::size_t>(x.shape()[a]);
  const auto n = static_cast<std::size_t>(x.shape()[axis]);
  with_number<true>(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::cumsum(x.as<T>(), y.as<T>(), outer, n, inner, reverse);
  });
}
void Cumsum::grad(Back& back) const {
  if (back.wants(0)) back.give(0, apply(Cumsum{axis, !reverse}, back.d()));
}

#define EBB_REDUCE(function)                                                                   \
  Tensor function(const Tensor& x, const Axes& axes, bool keepdims) {                          \
    return apply(Reduce<math::Reduce::function>{axes.mask(#function, x.rank()), keepdims}, x); \
  }
EBB_REDUCE(sum)
EBB_REDUCE(mean)
EBB_REDUCE(max)
EBB_REDUCE(min)
EBB_REDUCE(prod)
EBB_REDUCE(logsumexp)
#undef EBB_REDUCE

Tensor var(const Tensor& x, const Axes& axes, VarOptions options) {
  return apply(
      Reduce<math::Reduce::var>{axes.mask("var", x.rank()), options.keepdims, options.correction},
      x);
}

Tensor argmax(const Tensor& x, int axis, bool keepdims) {
  return apply(Argmax{axis_of("argmax", axis, x.rank()), keepdims}, x);
}

Tensor cumsum(const Tensor& x, int axis, bool reverse) {
  return apply(Cumsum{axis_of("cumsum", axis, x.rank()), reverse}, x);
}

Tensor sum_to(const Tensor& x, const Shape& to, Tensor into) {
  if (!into) {
    if (x.shape() == to) return x;
    const Tensor* in[] = {&x};
    return apply_all(SumTo{to, false}, in);
  }
  const Tensor* in[] = {&x, &into};
  return apply_all(SumTo{to, true}, in, 1);
}

}  // namespace ebb
