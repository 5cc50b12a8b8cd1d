#include "ebb/ops/softmax.hpp"

#include <fmt/core.h>

#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/kernels/softmax.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/last_axis.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"

namespace ebb {

using namespace ops;

namespace {

Spec rows_spec(const char* op, const Spec& x) {
  check_float(op, x);
  if (x.rank() == 0) throw Error(fmt::format("{}: {} has no axis", op, to_string(x)));
  return x;
}

Spec pair_spec(const char* op, const Spec& y, const Spec& dy) {
  if (y != dy) throw Error(fmt::format("{}: {} and {} differ", op, to_string(y), to_string(dy)));
  return rows_spec(op, y);
}

// op over any axis, by one over the last.
template <class Op>
Tensor over_axis(const Op& op, const Tensor& x, int axis) {
  rows_spec(Op::name, x.spec());
  const int rank = x.rank(), front = axis_of(Op::name, axis, rank);
  if (front == rank - 1) return apply(op, x);
  int order[Shape::kMaxRank];
  for (int d = 0; d < rank; ++d) order[d] = d;
  std::swap(order[front], order[rank - 1]);  // its own inverse
  const std::span<const int> swapped(order, static_cast<std::size_t>(rank));
  return permute(apply(op, permute(x, swapped)), swapped);
}

}  // namespace

template <bool kLog>
Spec SoftmaxOf<kLog>::shape(const Spec& x) const {
  return rows_spec(name, x);
}

template <bool kLog>
Cost SoftmaxOf<kLog>::cost(const Spec& x) const {
  return reduction_cost(20, x, {&x, &x});
}

template <bool kLog>
void SoftmaxOf<kLog>::run(In x, Out y, Scratch) const {
  const LastAxis r(x.shape());
  with_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = kLog ? kernels::log_softmax<T> : kernels::softmax<T>;
    kernel(x.as<T>(), y.as<T>(), r.count, r.size);
  });
}

template <bool kLog>
void SoftmaxOf<kLog>::grad(Back& b) const {
  if (b.wants(0)) b.give(0, apply(SoftmaxOfBackward<kLog>{}, b.out(), b.d()));
}

template <bool kLog>
Spec SoftmaxOfBackward<kLog>::shape(const Spec& y, const Spec& dy) const {
  return pair_spec(name, y, dy);
}

template <bool kLog>
Cost SoftmaxOfBackward<kLog>::cost(const Spec& y, const Spec& dy) const {
  return reduction_cost(kLog ? 20 : 4, y, {&y, &dy, &y});
}

template <bool kLog>
void SoftmaxOfBackward<kLog>::run(In y, In dy, Out dx, Scratch) const {
  const LastAxis r(y.shape());
  with_float(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = kLog ? kernels::log_softmax_backward<T> : kernels::softmax_backward<T>;
    kernel(y.as<T>(), dy.as<T>(), dx.as<T>(), r.count, r.size);
  });
}

template <bool kLog>
void SoftmaxOfBackward<kLog>::grad(Back& b) const {
  const Tensor& y = b.in(0);
  const Tensor& a = b.d();
  if constexpr (kLog) {
    const Tensor p = exp(y);
    if (b.wants(0)) b.give(0, -(a * p * sum(b.in(1), {-1}, true)));
    if (b.wants(1)) b.give(1, a - sum(a * p, {-1}, true));
  } else {
    if (b.wants(0)) {
      const Tensor& dy = b.in(1);
      b.give(0, a * (dy - sum(y * dy, {-1}, true)) - dy * sum(a * y, {-1}, true));
    }
    if (b.wants(1)) b.give(1, softmax_backward(y, a));
  }
}

Tensor softmax(const Tensor& x, int axis) { return over_axis(Softmax{}, x, axis); }
Tensor log_softmax(const Tensor& x, int axis) { return over_axis(LogSoftmax{}, x, axis); }
Tensor ops::softmax_backward(const Tensor& y, const Tensor& dy) {
  return apply(SoftmaxBackward{}, y, dy);
}
Tensor ops::log_softmax_backward(const Tensor& y, const Tensor& dy) {
  return apply(LogSoftmaxBackward{}, y, dy);
}

template struct ops::SoftmaxOf<false>;
template struct ops::SoftmaxOf<true>;

}  // namespace ebb
