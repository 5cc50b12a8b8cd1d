// Losses of pairs of elements, and what all losses share. Cross-entropies: loss_cross_entropy.cpp.
#include "ebb/ops/loss.hpp"

#include <fmt/core.h>

#include <ostream>

#include "ebb/base/error.hpp"
#include "ebb/kernels/loss.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/last_axis.hpp"
#include "ebb/ops/layout.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/unary.hpp"

namespace ebb {

using namespace ops;

namespace {

// Rows in the sense of the sum's order: the first axis, whatever the others are.
struct Leading {
  std::size_t rows = 1, size = 1;
  explicit Leading(const Shape& shape) {
    if (shape.rank() == 0) return;
    rows = static_cast<std::size_t>(shape[0]);
    size = static_cast<std::size_t>(layout::product(shape, 1, shape.rank()));
  }
};

void check_pair(const char* op, const Spec& x, const Spec& t) {
  check_float(op, x);
  if (x.shape != t.shape)
    throw Error(fmt::format("{}: the prediction is {} and the target {}; expected one shape", op,
                            to_string(x), to_string(t)));
  check_same_type(op, x, t);
}

Tensor wide(const Tensor& x) { return is_half(x.dtype()) ? cast(x, DType::f32) : x; }

}  // namespace

Tensor Loss::mean() const { return sum / cast(count, sum.dtype()); }

double Loss::item() const {
  check("loss");
  return sum.item() / count.item();
}

void Loss::check(const char* who) const {
  if (!sum || !count)
    throw Error(fmt::format("{}: the loss has no {}; give it a sum and a count", who,
                            sum ? "count" : "sum"));
  if (sum.rank() > 0 || !is_float(sum.dtype()))
    throw Error(
        fmt::format("{}: the loss's sum is {}, expected a floating scalar; sum() it up, or "
                    "take loss_of()",
                    who, to_string(sum.spec())));
  if (count.spec() != Spec{{}, DType::i64})
    throw Error(
        fmt::format("{}: the loss's count is {}, expected i64(), such as "
                    "Tensor::scalar(rows, DType::i64)",
                    who, to_string(count.spec())));
}

Loss operator+(const Loss& a, const Loss& b) {
  a.check("loss + loss");
  b.check("loss + loss");
  const bool known = !a.count.symbol() && !b.count.symbol();
  if (known && a.count.item() != b.count.item())
    throw Error(
        fmt::format("loss + loss: they are over {} and {}, so that no sum and count has the sum of "
                    "their means; "
                    "add losses of one count",
                    a.count.item(), b.count.item()));
  return {a.sum + b.sum, a.count};
}
Loss operator*(const Loss& loss, double factor) {
  loss.check("loss * factor");
  return {loss.sum * factor, loss.count};
}
Loss operator*(double factor, const Loss& loss) { return loss * factor; }

std::ostream& operator<<(std::ostream& out, const Loss& loss) {
  if (!loss.sum || !loss.count) return out << "no loss";
  if (loss.sum.symbol() || loss.count.symbol()) return out << "a loss that is not known yet";
  return out << fmt::format("{} (a sum of {} over {})", loss.item(), loss.sum.item(),
                            loss.count.item());
}

Loss loss_of(const Tensor& losses) {
  check_float("loss_of", losses.spec());
  return {sum_to(wide(losses), Shape()),
          Tensor::scalar(static_cast<double>(losses.size()), DType::i64)};
}

void ops::check_so_far(const char* op, Specs in, std::size_t others, bool accumulate) {
  const std::size_t expected = others + accumulate;
  if (in.size() != expected)
    throw Error(fmt::format("{}: {} inputs were given, expected {}", op, in.size(), expected));
}

void ops::check_so_far(const char* op, const Spec& so_far, DType sum) {
  if (so_far != Spec{{}, sum})
    throw Error(fmt::format("{}: the sum so far is {}, expected a scalar of {}", op,
                            to_string(so_far), ebb::name(sum)));
}

template <math::PairLoss kKind>
std::array<Spec, 2> PairLoss<kKind>::shape(Specs in) const {
  check_so_far(name, in, 2, accumulate);
  const Spec& x = in[0];
  check_pair(name, x, in[1]);
  if (accumulate) check_so_far(name, in[2], x.dtype);
  if (kKind == math::PairLoss::huber && !(delta > 0))
    throw Error(fmt::format("huber: delta is {}, expected above 0", delta));
  return {Spec{{}, x.dtype}, Spec{{}, DType::i64}};
}

template <math::PairLoss kKind>
Cost PairLoss<kKind>::cost(Specs in) const {
  return reduction_cost(kKind == math::PairLoss::binary_cross_entropy ? 30 : 3, in[0],
                        {&in[0], &in[1]});
}

template <math::PairLoss kKind>
std::size_t PairLoss<kKind>::scratch(Specs in) const {
  return Leading(in[0].shape).rows * size_of(in[0].dtype);
}

template <math::PairLoss kKind>
void PairLoss<kKind>::run(Ins in, Out sum, Out count, Scratch scratch) const {
  const In &x = in[0], &t = in[1];
  const Leading l(x.shape());
  with_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    *sum.as<T>() = accumulate ? *in[2].as<T>() : T(0);
    kernels::element_loss({kKind, delta}, x.as<T>(), t.as<T>(), l.rows, l.size, sum.as<T>(),
                          scratch);
  });
  *count.as<std::int64_t>() = x.size();
}

template <math::PairLoss kKind>
AnyOp PairLoss<kKind>::accumulating(Specs, int output) const {
  return output == 0 && !accumulate ? any_op(PairLoss{{true}, delta}) : AnyOp();
}

template <math::PairLoss kKind>
Needs PairLoss<kKind>::needs(int input) const {
  if (input > 1) return Needs::nothing();
  const bool linear =
      kKind == math::PairLoss::binary_cross_entropy && input == 1;  // in its targets
  return linear ? Needs::input(0) : Needs::input(0) | Needs::input(1);
}

template <math::PairLoss kKind>
void PairLoss<kKind>::grad(Back& b) const {
  if (accumulate && b.wants(2)) b.give(2, b.d(0));
  if constexpr (kKind == math::PairLoss::binary_cross_entropy) {
    if (b.wants(0)) b.give(0, apply(PairLossBackward<kKind>{delta}, b.in(0), b.in(1), b.d(0)));
    if (b.wants(1)) b.give(1, -(b.in(0) * b.d(0)));
  } else {
    if (!b.wants(0) && !b.wants(1)) return;
    const Tensor dx = apply(PairLossBackward<kKind>{delta}, b.in(0), b.in(1), b.d(0));
    if (b.wants(0)) b.give(0, dx);
    if (b.wants(1)) b.give(1, -dx);
  }
}

template <math::PairLoss kKind>
Spec PairLossBackward<kKind>::shape(const Spec& x, const Spec& t, const Spec& dsum) const {
  check_pair(name, x, t);
  if (dsum != Spec{{}, x.dtype})
    throw Error(fmt::format("{}: the sum's gradient is {}, expected a scalar of {}", name,
                            to_string(dsum), ebb::name(x.dtype)));
  return x;
}

template <math::PairLoss kKind>
Cost PairLossBackward<kKind>::cost(const Spec& x, const Spec& t, const Spec&) const {
  return reduction_cost(kKind == math::PairLoss::binary_cross_entropy ? 30 : 3, x, {&x, &t, &x});
}

template <math::PairLoss kKind>
void PairLossBackward<kKind>::run(In x, In t, In dsum, Out dx, Scratch) const {
  with_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::element_loss_backward({kKind, delta}, x.as<T>(), t.as<T>(),
                                   static_cast<std::size_t>(x.size()), *dsum.as<T>(), dx.as<T>());
  });
}

// dx = dsum * f'(x, t): the second derivative is f'' in x and, but for one, -f'' in t.
template <math::PairLoss kKind>
void PairLossBackward<kKind>::grad(Back& b) const {
  const Tensor &x = b.in(0), &t = b.in(1), &dsum = b.in(2), &a = b.d();
  const auto zeros = [&] { return Tensor::zeros(x.shape(), x.dtype()); };
  if (b.wants(2)) {
    const Tensor one = Tensor::ones({}, x.dtype());
    b.give(2, sum(a * apply(PairLossBackward{delta}, x, t, one)));
  }
  if (!b.wants(0) && !b.wants(1)) return;
  const Tensor scaled = a * dsum;
  if constexpr (kKind == math::PairLoss::binary_cross_entropy) {
    if (b.wants(1)) b.give(1, -scaled);
    if (!b.wants(0)) return;
    const Tensor p = sigmoid(x);
    b.give(0, scaled * p * (1.0 - p));
  } else {
    Tensor curved;
    if constexpr (kKind == math::PairLoss::squared) curved = scaled * 2.0;
    if constexpr (kKind == math::PairLoss::absolute) curved = zeros();
    if constexpr (kKind == math::PairLoss::huber) {
      const Tensor limit = Tensor::scalar(delta, x.dtype());
      curved = where(less_equal(abs(x - t), limit), scaled, zeros());
    }
    if (b.wants(0)) b.give(0, curved);
    if (b.wants(1)) b.give(1, -curved);
  }
}

namespace {

template <math::PairLoss kKind>
Loss pair_loss(const Tensor& x, const Tensor& t, double delta = 1) {
  auto [sum, count] = apply(PairLoss<kKind>{{}, delta}, wide(x), wide(t));
  return {std::move(sum), std::move(count)};
}

}  // namespace

Loss binary_cross_entropy(const Tensor& logits, const Tensor& targets) {
  return pair_loss<math::PairLoss::binary_cross_entropy>(logits, targets);
}
Loss mse(const Tensor& prediction, const Tensor& target) {
  return pair_loss<math::PairLoss::squared>(prediction, target);
}
Loss mae(const Tensor& prediction, const Tensor& target) {
  return pair_loss<math::PairLoss::absolute>(prediction, target);
}
Loss huber(const Tensor& prediction, const Tensor& target, double delta) {
  return pair_loss<math::PairLoss::huber>(prediction, target, delta);
}

template struct ops::PairLossBackward<math::PairLoss::binary_cross_entropy>;
template struct ops::PairLossBackward<math::PairLoss::squared>;
template struct ops::PairLossBackward<math::PairLoss::absolute>;
template struct ops::PairLossBackward<math::PairLoss::huber>;

}  // namespace ebb
