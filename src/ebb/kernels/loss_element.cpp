#include <algorithm>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/float_dispatch.hpp"
#include "ebb/kernels/grain.hpp"
#include "ebb/kernels/loss.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/loss_element.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/math-inl.hpp"
#include "ebb/kernels/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

template <class T, PairLoss kKind>
HWY_INLINE RowVec<T> loss_of(RowVec<T> x, RowVec<T> t, RowVec<T> delta) {
  const RowTag<T> d;
  if constexpr (kKind == PairLoss::binary_cross_entropy) {
    // max(x, 0) - x t is exact where the result is small; log(1 + e^-|x|) is what is left.
    const auto sure = hn::Sub(hn::Max(x, hn::Zero(d)), hn::Mul(x, t));
    return hn::Add(sure, softplus(d, hn::Neg(hn::Abs(x))));
  } else {
    const auto away = hn::Sub(x, t);
    if constexpr (kKind == PairLoss::squared) return hn::Mul(away, away);
    const auto size = hn::Abs(away);
    if constexpr (kKind == PairLoss::absolute) return size;
    const auto half = hn::Set(d, T(0.5));
    const auto near = hn::Mul(hn::Mul(half, away), away);
    const auto far = hn::Mul(delta, hn::NegMulAdd(half, delta, size));
    return hn::IfThenElse(hn::Gt(size, delta), far, near);
  }
}

template <class T, PairLoss kKind>
HWY_INLINE RowVec<T> derivative_of(RowVec<T> x, RowVec<T> t, RowVec<T> delta) {
  const RowTag<T> d;
  if constexpr (kKind == PairLoss::binary_cross_entropy) {
    return hn::Sub(sigmoid(d, x), t);
  } else {
    const auto away = hn::Sub(x, t);
    if constexpr (kKind == PairLoss::squared) return hn::Add(away, away);
    if constexpr (kKind == PairLoss::absolute) {
      const auto sign = hn::CopySign(hn::Set(d, T(1)), away);
      // 0 and NaN are their own signs.
      const auto signed_ = hn::Or(hn::Lt(away, hn::Zero(d)), hn::Gt(away, hn::Zero(d)));
      return hn::IfThenElse(signed_, sign, away);
    }
    return hn::Min(delta, hn::Max(hn::Neg(delta), away));  // in this order a NaN stays
  }
}

template <class T, PairLoss kKind>
void loss_rows(const T* x, const T* t, std::size_t rows, std::size_t n, T delta, T* losses) {
  const auto vdelta = hn::Set(RowTag<T>(), delta);
  if (n == 1) {
    each_vector<T>(rows, [&](std::size_t i, auto amount) EBB_LAMBDA {
      store<T>(loss_of<T, kKind>(load(x + i, amount), load(t + i, amount), vdelta), losses + i,
               amount);
    });
    return;
  }
  for (std::size_t row = 0; row < rows; ++row, x += n, t += n) {
    losses[row] = row_sum<T>(n, [&](auto acc, std::size_t i, auto amount) EBB_LAMBDA {
      return hn::Add(acc, loss_of<T, kKind>(load(x + i, amount), load(t + i, amount), vdelta));
    });
  }
}

template <class T, PairLoss kKind>
void loss_gradients(const T* x, const T* t, std::size_t size, T delta, T upstream, T* dx) {
  const auto vdelta = hn::Set(RowTag<T>(), delta), up = hn::Set(RowTag<T>(), upstream);
  each_vector<T>(size, [&](std::size_t i, auto amount) EBB_LAMBDA {
    const auto g = derivative_of<T, kKind>(load(x + i, amount), load(t + i, amount), vdelta);
    store<T>(hn::Mul(g, up), dx + i, amount);
  });
}

template <class F>
HWY_INLINE void with_kind(PairLoss kind, F&& f) {
  switch (kind) {
    case PairLoss::binary_cross_entropy:
      return f.template operator()<PairLoss::binary_cross_entropy>();
    case PairLoss::squared:
      return f.template operator()<PairLoss::squared>();
    case PairLoss::absolute:
      return f.template operator()<PairLoss::absolute>();
    case PairLoss::huber:
      return f.template operator()<PairLoss::huber>();
  }
}

template <class T>
void any_loss_rows(const ElementLoss& loss, const T* x, const T* t, std::size_t rows, std::size_t n,
                   T* losses) {
  with_kind(loss.kind, [&]<PairLoss kKind>() EBB_LAMBDA {
    loss_rows<T, kKind>(x, t, rows, n, static_cast<T>(loss.delta), losses);
  });
}

template <class T>
void any_loss_gradients(const ElementLoss& loss, const T* x, const T* t, std::size_t size,
                        T upstream, T* dx) {
  with_kind(loss.kind, [&]<PairLoss kKind>() EBB_LAMBDA {
    loss_gradients<T, kKind>(x, t, size, static_cast<T>(loss.delta), upstream, dx);
  });
}

EBB_FLOAT_TARGETS(element_loss, any_loss_rows);
EBB_FLOAT_TARGETS(element_gradient, any_loss_gradients);

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

EBB_FLOAT_EXPORT(element_loss);
EBB_FLOAT_EXPORT(element_gradient);

template <class T>
std::size_t element_cost(const ElementLoss& loss) {
  if (loss.kind != PairLoss::binary_cross_entropy) return 1;
  return sizeof(T) == 8 ? 32 : 4;
}

}  // namespace

template <class T>
void element_loss(const ElementLoss& loss, const T* x, const T* t, std::size_t rows, std::size_t n,
                  T* sum, std::span<std::byte> scratch) {
  auto* losses = reinterpret_cast<T*>(scratch.data());
  pool::parallel_for(rows, grain_for(n * element_cost<T>(loss)),
                     [&](std::size_t begin, std::size_t end) {
                       EBB_FLOAT_DISPATCH(T, element_loss)
                       (loss, x + begin * n, t + begin * n, end - begin, n, losses + begin);
                     });
  for (std::size_t row = 0; row < rows; ++row) *sum += losses[row];
}

template <class T>
void element_loss_backward(const ElementLoss& loss, const T* x, const T* t, std::size_t size,
                           T upstream, T* dx) {
  pool::parallel_for(size, grain_for(element_cost<T>(loss)),
                     [&](std::size_t begin, std::size_t end) {
                       EBB_FLOAT_DISPATCH(T, element_gradient)
                       (loss, x + begin, t + begin, end - begin, upstream, dx + begin);
                     });
}

#define EBB_ELEMENT(T)                                                                             \
  template void element_loss(const ElementLoss&, const T*, const T*, std::size_t, std::size_t, T*, \
                             std::span<std::byte>);                                                \
  template void element_loss_backward(const ElementLoss&, const T*, const T*, std::size_t, T, T*);
EBB_ELEMENT(float)
EBB_ELEMENT(double)
#undef EBB_ELEMENT

}  // namespace ebb::kernels
#endif
