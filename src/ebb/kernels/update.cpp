#include "ebb/kernels/update.hpp"

#include <algorithm>
#include <cmath>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/float_dispatch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/update.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/update-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

template <class T>
void sgd_part(std::span<const Update<T>> tensors, std::size_t begin, std::size_t end,
              const SgdRule& rule, GradientUse use) {
  const Gradient<T> gradient(use, rule.weight_decay);
  const auto lr = constant<T>(rule.lr), momentum = constant<T>(rule.momentum);
  const auto fresh = constant<T>(1 - rule.dampening);
  if (rule.momentum == 0) {
    each_element(tensors, begin, end,
                 [&](const Update<T>& t, std::size_t i, auto amount) EBB_LAMBDA {
                   const auto p = load(t.param + i, amount);
                   const auto g = gradient(load(t.grad + i, amount), p);
                   store<T>(hn::NegMulAdd(lr, g, p), t.param + i, amount);
                 });
    return;
  }
  each_element(tensors, begin, end, [&](const Update<T>& t, std::size_t i, auto amount) EBB_LAMBDA {
    const auto p = load(t.param + i, amount);
    const auto g = gradient(load(t.grad + i, amount), p);
    auto b = g;
    if (!rule.first) b = hn::MulAdd(momentum, load(t.state[0] + i, amount), hn::Mul(fresh, g));
    store<T>(b, t.state[0] + i, amount);
    const auto move = rule.nesterov ? hn::MulAdd(momentum, b, g) : b;
    store<T>(hn::NegMulAdd(lr, move, p), t.param + i, amount);
  });
}

template <class T>
void adam_part(std::span<const Update<T>> tensors, std::size_t begin, std::size_t end,
               const AdamRule& rule, GradientUse use) {
  const Gradient<T> gradient(use, rule.decoupled ? 0 : rule.weight_decay);
  const auto shrink = constant<T>(rule.decoupled ? 1 - rule.lr * rule.weight_decay : 1);
  const auto fresh1 = constant<T>(1 - rule.beta1);
  const auto beta2 = constant<T>(rule.beta2), fresh2 = constant<T>(1 - rule.beta2);
  const auto root = constant<T>(1 / std::sqrt(rule.correction2)), eps = constant<T>(rule.eps);
  const auto rate = constant<T>(rule.lr / rule.correction1);
  each_element(tensors, begin, end, [&](const Update<T>& t, std::size_t i, auto amount) EBB_LAMBDA {
    const auto p = load(t.param + i, amount);
    const auto g = gradient(load(t.grad + i, amount), p);
    const auto m_old = load(t.state[0] + i, amount);
    const auto m = hn::MulAdd(fresh1, hn::Sub(g, m_old), m_old);
    const auto v = hn::MulAdd(beta2, load(t.state[1] + i, amount), hn::Mul(hn::Mul(fresh2, g), g));
    store<T>(m, t.state[0] + i, amount);
    store<T>(v, t.state[1] + i, amount);
    const auto move = hn::Div(m, hn::MulAdd(hn::Sqrt(v), root, eps));
    store<T>(hn::NegMulAdd(rate, move, hn::Mul(p, shrink)), t.param + i, amount);
  });
}

template <class T>
void rmsprop_part(std::span<const Update<T>> tensors, std::size_t begin, std::size_t end,
                  const RmspropRule& rule, GradientUse use) {
  const Gradient<T> gradient(use, rule.weight_decay);
  const auto lr = constant<T>(rule.lr), eps = constant<T>(rule.eps);
  const auto alpha = constant<T>(rule.alpha), fresh = constant<T>(1 - rule.alpha);
  const auto momentum = constant<T>(rule.momentum);
  each_element(tensors, begin, end, [&](const Update<T>& t, std::size_t i, auto amount) EBB_LAMBDA {
    const auto p = load(t.param + i, amount);
    const auto g = gradient(load(t.grad + i, amount), p);
    const auto v = hn::MulAdd(alpha, load(t.state[0] + i, amount), hn::Mul(hn::Mul(fresh, g), g));
    store<T>(v, t.state[0] + i, amount);
    auto move = hn::Div(g, hn::Add(hn::Sqrt(v), eps));
    if (rule.momentum != 0) {
      move = hn::MulAdd(momentum, load(t.state[1] + i, amount), move);
      store<T>(move, t.state[1] + i, amount);
    }
    store<T>(hn::NegMulAdd(lr, move, p), t.param + i, amount);
  });
}

template <class T>
void adagrad_part(std::span<const Update<T>> tensors, std::size_t begin, std::size_t end,
                  const AdagradRule& rule, GradientUse use) {
  const Gradient<T> gradient(use, rule.weight_decay);
  const auto lr = constant<T>(rule.lr), eps = constant<T>(rule.eps);
  each_element(tensors, begin, end, [&](const Update<T>& t, std::size_t i, auto amount) EBB_LAMBDA {
    const auto p = load(t.param + i, amount);
    const auto g = gradient(load(t.grad + i, amount), p);
    const auto s = hn::MulAdd(g, g, load(t.state[0] + i, amount));
    store<T>(s, t.state[0] + i, amount);
    const auto move = hn::Div(g, hn::Add(hn::Sqrt(s), eps));
    store<T>(hn::NegMulAdd(lr, move, p), t.param + i, amount);
  });
}

template <class T>
void lion_part(std::span<const Update<T>> tensors, std::size_t begin, std::size_t end,
               const LionRule& rule, GradientUse use) {
  const Gradient<T> gradient(use, 0);
  const auto shrink = constant<T>(1 - rule.lr * rule.weight_decay), lr = constant<T>(rule.lr);
  const auto fresh1 = constant<T>(1 - rule.beta1), fresh2 = constant<T>(1 - rule.beta2);
  const auto zero = constant<T>(0);
  each_element(tensors, begin, end, [&](const Update<T>& t, std::size_t i, auto amount) EBB_LAMBDA {
    const auto p = load(t.param + i, amount);
    const auto g = gradient(load(t.grad + i, amount));
    const auto m = load(t.state[0] + i, amount);
    const auto far = hn::Sub(g, m);
    store<T>(hn::MulAdd(fresh2, far, m), t.state[0] + i, amount);
    // Its sign; what has none (0, NaN) goes through as it is.
    const auto c = hn::MulAdd(fresh1, far, m);
    const auto unit = hn::CopySignToAbs(constant<T>(1), c);
    const auto move = hn::IfThenElse(hn::Or(hn::Lt(c, zero), hn::Gt(c, zero)), unit, c);
    store<T>(hn::NegMulAdd(lr, move, hn::Mul(p, shrink)), t.param + i, amount);
  });
}

template <class T>
void ema_part(std::span<const Update<T>> tensors, std::size_t begin, std::size_t end,
              const EmaRule& rule, GradientUse) {
  const auto fresh = constant<T>(1 - rule.decay);
  each_element(tensors, begin, end, [&](const Update<T>& t, std::size_t i, auto amount) EBB_LAMBDA {
    const auto e = load(t.param + i, amount);
    const auto far = hn::Sub(load(t.grad + i, amount), e);
    store<T>(hn::MulAdd(fresh, far, e), t.param + i, amount);
  });
}

template <class T>
HWY_INLINE RowVec<double> as_f64(const T* p, auto amount) {
  if constexpr (sizeof(T) == 8) {
    return load(p, amount);
  } else {
    const hn::Rebind<float, RowTag<double>> d;
    if constexpr (std::is_same_v<decltype(amount), Whole>) {
      return hn::PromoteTo(RowTag<double>(), hn::LoadU(d, p));
    } else {
      return hn::PromoteTo(RowTag<double>(), load_part(d, p, amount));
    }
  }
}

template <class T>
double squares_piece(const T* x, std::size_t n) {
  return row_sum<double>(n, [&](auto acc, std::size_t i, auto amount) EBB_LAMBDA {
    const auto v = as_f64(x + i, amount);
    return hn::MulAdd(v, v, acc);
  });
}

EBB_FLOAT_TARGETS(sgd, sgd_part);
EBB_FLOAT_TARGETS(adam, adam_part);
EBB_FLOAT_TARGETS(rmsprop, rmsprop_part);
EBB_FLOAT_TARGETS(adagrad, adagrad_part);
EBB_FLOAT_TARGETS(lion, lion_part);
EBB_FLOAT_TARGETS(ema, ema_part);
EBB_FLOAT_TARGETS(squares, squares_piece);

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

std::size_t pieces(std::size_t size) { return ceil_div(size, kSquaresPiece); }

template <class T>
std::size_t all_pieces(std::span<const Update<T>> tensors) {
  std::size_t total = 0;
  for (const auto& tensor : tensors) total += pieces(tensor.size);
  return total;
}

template <class T, class Piece>
double squares_all(Piece piece_sum, std::span<const Update<T>> tensors,
                   std::span<std::byte> scratch) {
  auto* sums = reinterpret_cast<double*>(scratch.data());
  pool::parallel_for(all_pieces(tensors), 2, [&](std::size_t begin, std::size_t end) {
    std::size_t first = 0;
    for (const auto& tensor : tensors) {
      const std::size_t last = first + pieces(tensor.size);
      for (std::size_t i = std::max(begin, first); i < std::min(end, last); ++i) {
        const std::size_t at = (i - first) * kSquaresPiece;
        sums[i] = piece_sum(tensor.grad + at, std::min(kSquaresPiece, tensor.size - at));
      }
      first = last;
    }
  });
  double total = 0;
  for (std::size_t i = 0; i < all_pieces(tensors); ++i) total += sums[i];
  return total;
}

// The part of a rule: elements [begin, end) of all tensors.
#define EBB_UPDATE(name, Rule)                                                      \
  EBB_FLOAT_EXPORT(name);                                                           \
  template <class T>                                                                \
  void part(std::span<const Update<T>> tensors, std::size_t begin, std::size_t end, \
            const Rule& rule, GradientUse use) {                                    \
    EBB_FLOAT_DISPATCH(T, name)(tensors, begin, end, rule, use);                    \
  }
EBB_UPDATE(sgd, SgdRule)
EBB_UPDATE(adam, AdamRule)
EBB_UPDATE(rmsprop, RmspropRule)
EBB_UPDATE(adagrad, AdagradRule)
EBB_UPDATE(lion, LionRule)
EBB_UPDATE(ema, EmaRule)
#undef EBB_UPDATE

EBB_FLOAT_EXPORT(squares);

}  // namespace

// One fork for the whole model, cut by elements, not by tensors.
template <class T, class Rule>
void update(std::span<const Update<T>> tensors, const Rule& rule, GradientUse use) {
  std::size_t total = 0;
  for (const auto& tensor : tensors) total += tensor.size;
  pool::parallel_for(total, 32768, [&](std::size_t begin, std::size_t end) {
    part(tensors, begin, end, rule, use);
  });
}

#define EBB_UPDATE_BY(Rule)                                                       \
  template void update(std::span<const Update<float>>, const Rule&, GradientUse); \
  template void update(std::span<const Update<double>>, const Rule&, GradientUse)
EBB_UPDATE_BY(SgdRule);
EBB_UPDATE_BY(AdamRule);
EBB_UPDATE_BY(LazyAdamRule);
EBB_UPDATE_BY(RmspropRule);
EBB_UPDATE_BY(AdagradRule);
EBB_UPDATE_BY(LionRule);
EBB_UPDATE_BY(EmaRule);
#undef EBB_UPDATE_BY

std::size_t sum_of_squares_scratch(std::span<const Update<float>> tensors) {
  return all_pieces(tensors) * sizeof(double);
}
std::size_t sum_of_squares_scratch(std::span<const Update<double>> tensors) {
  return all_pieces(tensors) * sizeof(double);
}
double sum_of_squares(std::span<const Update<float>> tensors, std::span<std::byte> scratch) {
  return squares_all(HWY_DYNAMIC_DISPATCH(squares_f32), tensors, scratch);
}
double sum_of_squares(std::span<const Update<double>> tensors, std::span<std::byte> scratch) {
  return squares_all(HWY_DYNAMIC_DISPATCH(squares_f64), tensors, scratch);
}

}  // namespace ebb::kernels
#endif
