#include <algorithm>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/grain.hpp"
#include "ebb/kernels/loss.hpp"

#ifndef EBB_KERNELS_LOSS_CROSS_ENTROPY_ONCE_
#define EBB_KERNELS_LOSS_CROSS_ENTROPY_ONCE_
namespace ebb::kernels {
namespace {
constexpr std::size_t kRowsAtOnce = 32;
}
}  // namespace ebb::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/loss_cross_entropy.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

// The loss of each row, whose target is 1 - smoothing at the label and smoothing / n everywhere.
template <class T>
void sparse_losses(const T* const* rows, const std::size_t* labels, std::size_t count,
                   std::size_t n, T smoothing, T* losses) {
  T max[kRowsAtOnce], log_sum[kRowsAtOnce];
  log_sums([&](std::size_t row) EBB_LAMBDA { return rows[row]; }, count, n, max, log_sum);
  for (std::size_t row = 0; row < count; ++row) {
    const T* x = rows[row];
    losses[row] = log_sum[row] - (x[labels[row]] - max[row]);
    if (smoothing == 0) continue;
    const auto vmax = hn::Set(RowTag<T>(), max[row]);
    const T below = row_sum<T>(n, [&](auto acc, std::size_t i, auto amount) EBB_LAMBDA {
      return hn::Add(acc, hn::Sub(load(x + i, amount), vmax));
    });
    losses[row] =
        (1 - smoothing) * losses[row] + smoothing * (log_sum[row] - below / static_cast<T>(n));
  }
}

template <class T>
void sparse_gradient(const T* x, T* dx, std::size_t n, std::size_t label, T smoothing, T upstream) {
  const RowTag<T> d;
  const T max = row_max(x, n);
  RowExpSum<T, true> exponentials(x, dx, max);
  walk_wide<T>(n, exponentials);
  const T sum = exponentials.sum.total();
  const auto factor = hn::Set(d, upstream / sum);
  const auto spread = hn::Set(d, upstream * (smoothing / static_cast<T>(n)));
  each_vector<T>(n, [&](std::size_t i, auto amount) EBB_LAMBDA {
    store<T>(hn::MulSub(load(dx + i, amount), factor, spread), dx + i, amount);
  });
  dx[label] -= upstream * (1 - smoothing);
}

template <class T>
T soft_loss(const T* x, const T* t, std::size_t n) {
  const RowTag<T> d;
  const T max = row_max(x, n);
  const T sum = row_exp_sum(x, n, max);
  const auto log_sum = hn::Set(d, log_of(sum)), vmax = hn::Set(d, max);
  return row_sum<T>(n, [&](auto acc, std::size_t i, auto amount) EBB_LAMBDA {
    const auto target = load(t + i, amount);
    const auto surprise = hn::Sub(log_sum, hn::Sub(load(x + i, amount), vmax));
    const auto none = hn::Eq(target, hn::Zero(d));
    return hn::MulAdd(target, hn::IfThenZeroElse(none, surprise), acc);
  });
}

template <class T>
void soft_gradient(const T* x, const T* t, T* dx, std::size_t n, T upstream) {
  const RowTag<T> d;
  const T max = row_max(x, n);
  const T mass = row_sum<T>(n, [&](auto acc, std::size_t i, auto amount)
                                   EBB_LAMBDA { return hn::Add(acc, load(t + i, amount)); });
  const T sum = row_exp_sum(x, n, max);
  const auto factor = hn::Set(d, mass / sum), vmax = hn::Set(d, max);
  const auto up = hn::Set(d, upstream);
  each_vector<T>(n, [&](std::size_t i, auto amount) EBB_LAMBDA {
    const auto e = exp_below<T>(hn::Sub(load(x + i, amount), vmax));
    store<T>(hn::Mul(up, hn::MulSub(e, factor, load(t + i, amount))), dx + i, amount);
  });
}

#define EBB_LOSS_TARGETS(T, suffix)                                                               \
  void sparse_losses_##suffix(const T* const* rows, const std::size_t* labels, std::size_t count, \
                              std::size_t n, T smoothing, T* losses) {                            \
    sparse_losses(rows, labels, count, n, smoothing, losses);                                     \
  }                                                                                               \
  void sparse_gradient_##suffix(const T* x, T* dx, std::size_t n, std::size_t label, T smoothing, \
                                T upstream) {                                                     \
    sparse_gradient(x, dx, n, label, smoothing, upstream);                                        \
  }                                                                                               \
  T soft_loss_##suffix(const T* x, const T* t, std::size_t n) { return soft_loss(x, t, n); }      \
  void soft_gradient_##suffix(const T* x, const T* t, T* dx, std::size_t n, T upstream) {         \
    soft_gradient(x, t, dx, n, upstream);                                                         \
  }
EBB_LOSS_TARGETS(float, f32)
EBB_LOSS_TARGETS(double, f64)
#undef EBB_LOSS_TARGETS

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

// The row functions of one element type, looked up once per call.
template <class T>
struct RowLosses {
  void (*sparse_losses)(const T* const*, const std::size_t*, std::size_t, std::size_t, T, T*);
  void (*sparse_gradient)(const T*, T*, std::size_t, std::size_t, T, T);
  T (*soft_loss)(const T*, const T*, std::size_t);
  void (*soft_gradient)(const T*, const T*, T*, std::size_t, T);
};

template <class T>
RowLosses<T> row_losses();

#define EBB_LOSS_DISPATCH(T, suffix)                        \
  HWY_EXPORT(sparse_losses_##suffix);                       \
  HWY_EXPORT(sparse_gradient_##suffix);                     \
  HWY_EXPORT(soft_loss_##suffix);                           \
  HWY_EXPORT(soft_gradient_##suffix);                       \
  template <>                                               \
  RowLosses<T> row_losses() {                               \
    return {HWY_DYNAMIC_DISPATCH(sparse_losses_##suffix),   \
            HWY_DYNAMIC_DISPATCH(sparse_gradient_##suffix), \
            HWY_DYNAMIC_DISPATCH(soft_loss_##suffix),       \
            HWY_DYNAMIC_DISPATCH(soft_gradient_##suffix)};  \
  }
EBB_LOSS_DISPATCH(float, f32)
EBB_LOSS_DISPATCH(double, f64)
#undef EBB_LOSS_DISPATCH

// Work for one row, in units of grain_for: exponentials are dear, those of f64 more so.
template <class T>
std::size_t row_cost(std::size_t classes) {
  return 32 + classes * (sizeof(T) == 8 ? 16 : 4);
}

}  // namespace

template <class Label>
std::ptrdiff_t first_bad_label(const Label* labels, std::size_t rows, std::size_t classes,
                               std::int64_t ignore_index) {
  for (std::size_t row = 0; row < rows; ++row) {
    const auto label = static_cast<std::int64_t>(labels[row]);
    if (label == ignore_index) continue;
    if (label < 0 || static_cast<std::uint64_t>(label) >= classes) {
      return static_cast<std::ptrdiff_t>(row);
    }
  }
  return kLabelsInRange;
}

template <class T, class Label>
void sparse_cross_entropy(const T* logits, const Label* labels, std::size_t rows,
                          std::size_t classes, const SparseTargets& targets, T* sum,
                          std::int64_t* count, std::span<std::byte> scratch) {
  auto* losses = reinterpret_cast<T*>(scratch.data());
  const auto row_losses_of = row_losses<T>().sparse_losses;
  const T smoothing = static_cast<T>(targets.smoothing);
  // Rows that count, some at a time.
  const auto part = [&](std::size_t begin, std::size_t end) {
    const T* row_at[kRowsAtOnce];
    std::size_t place[kRowsAtOnce], label[kRowsAtOnce], count_here = 0;
    T loss[kRowsAtOnce];
    for (std::size_t row = begin; row < end; ++row) {
      if (labels[row] != targets.ignore_index) {
        row_at[count_here] = logits + row * classes;
        label[count_here] = static_cast<std::size_t>(labels[row]);
        place[count_here++] = row;
      }
      if (count_here == kRowsAtOnce || (row + 1 == end && count_here > 0)) {
        row_losses_of(row_at, label, count_here, classes, smoothing, loss);
        for (std::size_t i = 0; i < count_here; ++i) losses[place[i]] = loss[i];
        count_here = 0;
      }
    }
  };
  const std::size_t grain = std::max(grain_for(row_cost<T>(classes)), kRowsAtOnce);
  pool::parallel_for(rows, grain, part);
  for (std::size_t row = 0; row < rows; ++row) {
    if (labels[row] == targets.ignore_index) continue;
    *sum += losses[row];
    ++*count;
  }
}

template <class T, class Label>
void sparse_cross_entropy_backward(const T* logits, const Label* labels, std::size_t rows,
                                   std::size_t classes, const SparseTargets& targets, T upstream,
                                   T* dlogits) {
  const auto row_gradient = row_losses<T>().sparse_gradient;
  const T smoothing = static_cast<T>(targets.smoothing);
  pool::parallel_for(rows, grain_for(row_cost<T>(classes)),
                     [&](std::size_t begin, std::size_t end) {
                       for (std::size_t row = begin; row < end; ++row) {
                         T* out = dlogits + row * classes;
                         if (labels[row] == targets.ignore_index) {
                           std::fill_n(out, classes, T(0));
                         } else {
                           row_gradient(logits + row * classes, out, classes,
                                        static_cast<std::size_t>(labels[row]), smoothing, upstream);
                         }
                       }
                     });
}

template <class T>
void cross_entropy(const T* logits, const T* targets, std::size_t rows, std::size_t classes, T* sum,
                   std::span<std::byte> scratch) {
  auto* losses = reinterpret_cast<T*>(scratch.data());
  const auto row_loss = row_losses<T>().soft_loss;
  pool::parallel_for(
      rows, grain_for(row_cost<T>(classes)), [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row) {
          losses[row] = row_loss(logits + row * classes, targets + row * classes, classes);
        }
      });
  for (std::size_t row = 0; row < rows; ++row) *sum += losses[row];
}

template <class T>
void cross_entropy_backward(const T* logits, const T* targets, std::size_t rows,
                            std::size_t classes, T upstream, T* dlogits) {
  const auto row_gradient = row_losses<T>().soft_gradient;
  pool::parallel_for(rows, grain_for(row_cost<T>(classes)),
                     [&](std::size_t begin, std::size_t end) {
                       for (std::size_t row = begin; row < end; ++row) {
                         const std::size_t at = row * classes;
                         row_gradient(logits + at, targets + at, dlogits + at, classes, upstream);
                       }
                     });
}

template std::ptrdiff_t first_bad_label(const std::int32_t*, std::size_t, std::size_t,
                                        std::int64_t);
template std::ptrdiff_t first_bad_label(const std::int64_t*, std::size_t, std::size_t,
                                        std::int64_t);
#define EBB_SPARSE(T, Label)                                                                    \
  template void sparse_cross_entropy(const T*, const Label*, std::size_t, std::size_t,          \
                                     const SparseTargets&, T*, std::int64_t*,                   \
                                     std::span<std::byte>);                                     \
  template void sparse_cross_entropy_backward(const T*, const Label*, std::size_t, std::size_t, \
                                              const SparseTargets&, T, T*);
EBB_SPARSE(float, std::int32_t)
EBB_SPARSE(float, std::int64_t)
EBB_SPARSE(double, std::int32_t)
EBB_SPARSE(double, std::int64_t)
#undef EBB_SPARSE
#define EBB_SOFT(T)                                                             \
  template void cross_entropy(const T*, const T*, std::size_t, std::size_t, T*, \
                              std::span<std::byte>);                            \
  template void cross_entropy_backward(const T*, const T*, std::size_t, std::size_t, T, T*);
EBB_SOFT(float)
EBB_SOFT(double)
#undef EBB_SOFT

}  // namespace ebb::kernels
#endif
