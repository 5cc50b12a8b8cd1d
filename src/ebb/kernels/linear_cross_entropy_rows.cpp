#include "ebb/kernels/linear_cross_entropy_rows.hpp"

#include <algorithm>
#include <cmath>

#include "ebb/kernels/float_dispatch.hpp"
#include "ebb/kernels/linear_cross_entropy.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/linear_cross_entropy_rows.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

template <class T>
T exp_of(T x) {
  return hn::GetLane(exp_below<T>(hn::Set(RowTag<T>(), x)));
}

template <class T>
void add_block(const T* x, std::size_t n, bool totals, LinearRow<T>& row) {
  if (totals) {
    row.total += row_sum<T>(n, [&](auto acc, std::size_t i, auto amount)
                                   EBB_LAMBDA { return hn::Add(acc, load(x + i, amount)); });
  }
  const T max = row_max(x, n);
  const bool nothing = max == -std::numeric_limits<T>::infinity();
  const T sum = row_exp_sum(x, n, nothing ? T(0) : max);
  if (nothing && !std::isnan(sum)) return;  // every class of the block is -inf
  if (max > row.max) {
    row.sum = row.sum * exp_of(row.max - max) + sum;
    row.max = max;
  } else {
    row.sum += sum * exp_of(max - row.max);
  }
}

template <class T>
void add_classes(const T* x, std::size_t n, bool totals, LinearRow<T>& row) {
  for (std::size_t i = 0; i < n; i += kLinearBlock) {
    add_block(x + i, std::min(kLinearBlock, n - i), totals, row);
  }
}

template <class T>
T loss_of(const LinearRow<T>& row, std::size_t classes, T smoothing) {
  const T log_sum = log_of(row.sum);
  const T loss = log_sum - (row.at_label - row.max);
  if (smoothing == 0) return loss;
  const T mean = row.total / static_cast<T>(classes);
  return (1 - smoothing) * loss + smoothing * (log_sum - (mean - row.max));
}

// In steps of 32 classes, several exponentials side by side.
template <class T>
struct ToGradient {
  T* x;
  RowVec<T> max, factor, spread;

  template <class Amount>
  HWY_INLINE void operator()(std::size_t i, std::size_t, Amount amount) {
    const auto e = exp_below<T>(hn::Sub(load(x + i, amount), max));
    store<T>(hn::MulSub(e, factor, spread), x + i, amount);
  }
  HWY_INLINE void wide(std::size_t first) {
    const auto use = [&](std::size_t i, std::size_t, RowVec<T> e)
                         EBB_LAMBDA { store<T>(hn::MulSub(e, factor, spread), x + i, Whole()); };
    wide_exponentials<T, false>(x, first, max, use);
  }
};

template <class T>
void gradient_of(T* x, std::size_t n, const LinearRow<T>& row, T upstream, T spread) {
  const RowTag<T> d;
  ToGradient<T> stage{x, hn::Set(d, row.max), hn::Set(d, upstream / row.sum), hn::Set(d, spread)};
  walk_wide<T>(n, stage);
}

EBB_FLOAT_TARGETS(add, add_classes);
EBB_FLOAT_TARGETS(loss, loss_of);
EBB_FLOAT_TARGETS(gradient, gradient_of);

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

// Highway chooses at the first call through its table; a pointer taken from the table before that
// would choose again at each call.
void choose_target() {
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized()) chosen.Update(hwy::SupportedTargets());
}

}  // namespace

EBB_FLOAT_EXPORT(add);
EBB_FLOAT_EXPORT(loss);
EBB_FLOAT_EXPORT(gradient);

template <class T>
LinearRowFunctions<T> linear_row_functions() {
  choose_target();
  return {EBB_FLOAT_DISPATCH(T, add), EBB_FLOAT_DISPATCH(T, loss), EBB_FLOAT_DISPATCH(T, gradient)};
}
template LinearRowFunctions<float> linear_row_functions();
template LinearRowFunctions<double> linear_row_functions();

}  // namespace ebb::kernels
#endif
