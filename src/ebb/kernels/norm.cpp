#include "ebb/kernels/norm.hpp"

#include <algorithm>
#include <cmath>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/grain.hpp"
#include "ebb/kernels/norm_arrays.hpp"
#include "ebb/kernels/turns.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/norm.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

// Sum of a row.
template <class T>
struct Level {
  const T* x;
  RowSum<T> sum;
  HWY_INLINE explicit Level(const T* row) : x(row) {}
  template <class Amount>
  HWY_INLINE void operator()(std::size_t i, std::size_t k, Amount amount) {
    fetch_after(x + i, k, amount);
    sum.set(k, hn::Add(sum.lanes[k], load(x + i, amount)), amount);
  }
};

// Sum of squared distances from the mean (from zero, where not centered).
template <class T, bool kCentered>
struct Spread {
  const T* x;
  RowVec<T> mean;
  RowSum<T> sum;
  HWY_INLINE Spread(const T* row, T m) : x(row), mean(hn::Set(RowTag<T>(), m)) {}
  template <class Amount>
  HWY_INLINE void operator()(std::size_t i, std::size_t k, Amount amount) {
    if constexpr (!kCentered) fetch_after(x + i, k, amount);  // the first to read it
    auto v = load(x + i, amount);
    if constexpr (kCentered) v = hn::Sub(v, mean);
    sum.set(k, hn::MulAdd(v, v, sum.lanes[k]), amount);
  }
};

template <class T>
HWY_INLINE T rstd_of(const RowSum<T>& spread, T count, T eps) {
  return T(1) / std::sqrt(spread.total() / count + eps);
}

// As walk_two, of three stages; the first is layer_norm's alone.
template <class T, bool kCentered, class First, class Second, class Third>
HWY_INLINE void walk_three(std::size_t n, bool reads, First& first, bool spreads, Second& second,
                           bool writes, Third& third) {
  if (reads && spreads && writes) {
    if constexpr (kCentered) return walk<T>(n, first, second, third);
    return walk<T>(n, second, third);
  }
  if (writes) walk<T>(n, third);
  if (spreads) walk<T>(n, second);
  if (reads && kCentered) walk<T>(n, first);
}

// Three rows are under way at a time: the mean of one, the spread of the one before it, the result
// of the one before that. Chains of additions leave gaps; so stages of different rows fill them,
// and memory is read and written evenly. rms_norm has no first stage.
template <class T, bool kCentered, class Out>
void forward_rows(const NormArrays<T>& a, std::size_t begin, std::size_t end) {
  const RowTag<T> d;
  const std::size_t n = a.n;
  const T* weight = a.weight;
  const T* bias = a.bias;
  const T count = static_cast<T>(n);
  T mean = 0;
  RowStats<T> ready = {0, 0};
  for (std::size_t t = begin; t < end + 2; ++t) {
    const bool reads = t < end, spreads = t >= begin + 1 && t <= end, writes = t >= begin + 2;
    const std::size_t spread_row = spreads ? t - 1 : begin, row = writes ? t - 2 : begin;
    Level<T> first(a.x + (reads ? t : begin) * n);
    Spread<T, kCentered> second(a.x + spread_row * n, mean);
    const T* x = a.x + row * n;
    T* y = a.out + row * n;
    const auto vmean = hn::Set(d, ready.mean), rstd = hn::Set(d, ready.rstd);
    const auto third = [&](std::size_t i, std::size_t, auto amount) EBB_LAMBDA {
      auto v = load(x + i, amount);
      if constexpr (kCentered) {
        v = hn::MulAdd(hn::Mul(hn::Sub(v, vmean), rstd), load(weight + i, amount),
                       load(bias + i, amount));
      } else {
        v = hn::Mul(hn::Mul(v, rstd), load(weight + i, amount));
      }
      store<T>(v, y + i, stored<Out>(amount));
    };
    walk_three<T, kCentered>(n, reads, first, spreads, second, writes, third);
    ready = {mean, rstd_of(second.sum, count, a.eps)};
    mean = kCentered ? first.sum.total() / count : T(0);
  }
}

// What a row's gradient needs beside its mean: the spread, and sums of g = dy * weight and of
// g * (x - mean).
template <class T, bool kCentered>
struct GradientSums {
  const T* x;
  const T* dy;
  const T* weight;
  RowVec<T> mean;
  RowSum<T> spread, level, along;
  HWY_INLINE GradientSums(const T* x_row, const T* dy_row, const T* w, T m)
      : x(x_row), dy(dy_row), weight(w), mean(hn::Set(RowTag<T>(), m)) {}
  template <class Amount>
  HWY_INLINE void operator()(std::size_t i, std::size_t k, Amount amount) {
    fetch_after(dy + i, k, amount);
    if constexpr (!kCentered) fetch_after(x + i, k, amount);
    auto v = load(x + i, amount);
    if constexpr (kCentered) v = hn::Sub(v, mean);
    const auto g = hn::Mul(load(dy + i, amount), load(weight + i, amount));
    spread.set(k, hn::MulAdd(v, v, spread.lanes[k]), amount);
    along.set(k, hn::MulAdd(g, v, along.lanes[k]), amount);
    if constexpr (kCentered) level.set(k, hn::Add(level.lanes[k], g), amount);
  }
};

// Stages as above: the mean of one row, the sums of the one before it, the result of the one before
// that.
template <class T, bool kCentered, class Out>
void backward_rows(const NormArrays<T>& a, std::size_t begin, std::size_t end, RowStats<T>* stats) {
  const RowTag<T> d;
  const std::size_t n = a.n, rows = end - begin;
  const T* weight = a.weight;
  const T count = static_cast<T>(n);
  T mean = 0, level = 0, slope = 0;
  for (std::size_t t = 0; t < rows + 2; ++t) {
    const bool reads = t < rows, sums = t >= 1 && t <= rows, writes = t >= 2;
    const std::size_t sum_row = begin + (sums ? t - 1 : 0), row = begin + (writes ? t - 2 : 0);
    Level<T> first(a.x + (begin + (reads ? t : 0)) * n);
    GradientSums<T, kCentered> second(a.x + sum_row * n, a.dy + sum_row * n, weight, mean);
    const RowStats<T> ready = writes ? stats[t - 2] : RowStats<T>{0, 0};
    const auto vmean = hn::Set(d, ready.mean), rstd = hn::Set(d, ready.rstd);
    const auto vlevel = hn::Set(d, level), vslope = hn::Set(d, slope);
    const T* x = a.x + row * n;
    const T* dy = a.dy + row * n;
    T* dx = a.out + row * n;
    const auto third = [&](std::size_t i, std::size_t, auto amount) EBB_LAMBDA {
      auto v = load(x + i, amount);
      if constexpr (kCentered) v = hn::Sub(v, vmean);
      auto g = hn::Mul(load(dy + i, amount), load(weight + i, amount));
      if constexpr (kCentered) g = hn::Sub(g, vlevel);  // rounded as in the sum: 0 where n is 1
      store<T>(hn::Mul(rstd, hn::NegMulAdd(v, vslope, g)), dx + i, stored<Out>(amount));
    };
    walk_three<T, kCentered>(n, reads, first, sums, second, writes, third);
    if (sums) {
      const T r = rstd_of(second.spread, count, a.eps);
      stats[t - 1] = {mean, r};
      level = second.level.total() / count;
      slope = r * (r * second.along.total() / count);
    }
    mean = kCentered ? first.sum.total() / count : T(0);
  }
}

// The statistics alone, where only dweight and dbias are wanted.
template <class T, bool kCentered>
void row_stats(const NormArrays<T>& a, std::size_t begin, std::size_t end, RowStats<T>* stats) {
  const std::size_t n = a.n, rows = end - begin;
  const T count = static_cast<T>(n);
  T mean = 0;
  for (std::size_t t = 0; t < rows + 1; ++t) {
    const bool reads = kCentered && t < rows, spreads = t >= 1;
    Level<T> first(a.x + (begin + (reads ? t : 0)) * n);
    Spread<T, kCentered> second(a.x + (begin + (spreads ? t - 1 : 0)) * n, mean);
    walk_two<T>(n, reads, first, spreads, second);
    if (spreads) stats[t - 1] = {mean, rstd_of(second.sum, count, a.eps)};
    mean = kCentered ? first.sum.total() / count : T(0);
  }
}

// Adds kRows rows to dweight and dbias, in order.
template <class T, bool kCentered, std::size_t kRows>
HWY_INLINE void add_rows(const NormArrays<T>& a, std::size_t row, const RowStats<T>* stats) {
  const RowTag<T> d;
  const T* x = a.x + row * a.n;
  const T* dy = a.dy + row * a.n;
  RowVec<T> mean[kRows], rstd[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    mean[r] = hn::Set(d, stats[r].mean);
    rstd[r] = hn::Set(d, stats[r].rstd);
  }
  each_vector<T>(a.n, [&](std::size_t i, auto amount) EBB_LAMBDA {
    auto weight_sum = hn::Zero(d), bias_sum = hn::Zero(d);
    if (a.dweight != nullptr) weight_sum = load(a.dweight + i, amount);
    if (a.dbias != nullptr) bias_sum = load(a.dbias + i, amount);
    for (std::size_t r = 0; r < kRows; ++r) {
      auto v = load(x + r * a.n + i, amount);
      if constexpr (kCentered) v = hn::Sub(v, mean[r]);
      const auto g = load(dy + r * a.n + i, amount);
      weight_sum = hn::MulAdd(g, hn::Mul(v, rstd[r]), weight_sum);
      bias_sum = hn::Add(bias_sum, g);
    }
    if (a.dweight != nullptr) store<T>(weight_sum, a.dweight + i, amount);
    if (a.dbias != nullptr) store<T>(bias_sum, a.dbias + i, amount);
  });
}

template <class T, bool kCentered>
void add_columns(const NormArrays<T>& a, std::size_t begin, std::size_t end,
                 const RowStats<T>* stats) {
  constexpr std::size_t kRows = 4;
  std::size_t row = begin;
  for (; row + kRows <= end; row += kRows) {
    add_rows<T, kCentered, kRows>(a, row, stats + (row - begin));
  }
  for (; row < end; ++row) add_rows<T, kCentered, 1>(a, row, stats + (row - begin));
}

template <class T, bool kCentered>
void forward_rows(const NormArrays<T>& a, std::size_t begin, std::size_t end) {
  if (!a.stream) return forward_rows<T, kCentered, Whole>(a, begin, end);
  forward_rows<T, kCentered, Streamed>(a, begin, end);
  hwy::FlushStream();
}

template <class T, bool kCentered>
void backward_rows(const NormArrays<T>& a, std::size_t begin, std::size_t end, RowStats<T>* stats) {
  if (a.out == nullptr) return row_stats<T, kCentered>(a, begin, end, stats);
  if (!a.stream) return backward_rows<T, kCentered, Whole>(a, begin, end, stats);
  backward_rows<T, kCentered, Streamed>(a, begin, end, stats);
  hwy::FlushStream();
}

#define EBB_NORM_TARGETS(T, suffix)                                                            \
  void norm_forward_##suffix(const NormArrays<T>& a, std::size_t begin, std::size_t end) {     \
    a.centered ? forward_rows<T, true>(a, begin, end) : forward_rows<T, false>(a, begin, end); \
  }                                                                                            \
  void norm_backward_##suffix(const NormArrays<T>& a, std::size_t begin, std::size_t end,      \
                              RowStats<T>* stats) {                                            \
    a.centered ? backward_rows<T, true>(a, begin, end, stats)                                  \
               : backward_rows<T, false>(a, begin, end, stats);                                \
  }                                                                                            \
  void norm_columns_##suffix(const NormArrays<T>& a, std::size_t begin, std::size_t end,       \
                             const RowStats<T>* stats) {                                       \
    a.centered ? add_columns<T, true>(a, begin, end, stats)                                    \
               : add_columns<T, false>(a, begin, end, stats);                                  \
  }

EBB_NORM_TARGETS(float, f32)
EBB_NORM_TARGETS(double, f64)
#undef EBB_NORM_TARGETS

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

HWY_EXPORT(norm_forward_f32);
HWY_EXPORT(norm_forward_f64);
HWY_EXPORT(norm_backward_f32);
HWY_EXPORT(norm_backward_f64);
HWY_EXPORT(norm_columns_f32);
HWY_EXPORT(norm_columns_f64);

void forward_part(const NormArrays<float>& a, std::size_t begin, std::size_t end) {
  HWY_DYNAMIC_DISPATCH(norm_forward_f32)(a, begin, end);
}
void forward_part(const NormArrays<double>& a, std::size_t begin, std::size_t end) {
  HWY_DYNAMIC_DISPATCH(norm_forward_f64)(a, begin, end);
}
void backward_part(const NormArrays<float>& a, std::size_t begin, std::size_t end,
                   RowStats<float>* stats) {
  HWY_DYNAMIC_DISPATCH(norm_backward_f32)(a, begin, end, stats);
}
void backward_part(const NormArrays<double>& a, std::size_t begin, std::size_t end,
                   RowStats<double>* stats) {
  HWY_DYNAMIC_DISPATCH(norm_backward_f64)(a, begin, end, stats);
}
void column_part(const NormArrays<float>& a, std::size_t begin, std::size_t end,
                 const RowStats<float>* stats) {
  HWY_DYNAMIC_DISPATCH(norm_columns_f32)(a, begin, end, stats);
}
void column_part(const NormArrays<double>& a, std::size_t begin, std::size_t end,
                 const RowStats<double>* stats) {
  HWY_DYNAMIC_DISPATCH(norm_columns_f64)(a, begin, end, stats);
}

template <class T>
void norm_forward(NormArrays<T> a, std::size_t rows) {
  a.stream = a.x != a.out && worth_streaming(a.out, a.n * sizeof(T), rows);
  // Rows under way fill and drain at the ends of a part: of large arrays, parts are long.
  const std::size_t grain =
      std::max<std::size_t>(grain_for(a.n * 2), a.stream ? (1 << 18) / a.n : 0);
  pool::parallel_for(rows, grain,
                     [&](std::size_t begin, std::size_t end) { forward_part(a, begin, end); });
}

template <class T>
void norm_backward(NormArrays<T> a, std::size_t rows) {
  // Enough rows that handing the sums from core to core costs little, few enough that x and dy are
  // still in the core's own cache (or, of long rows, in the shared one) when its turn comes.
  constexpr std::size_t kPartBytes = std::size_t{256} << 10, kFewRows = 16;
  const std::size_t row_bytes = std::max<std::size_t>(1, 2 * a.n * sizeof(T));
  const std::size_t part_rows = std::clamp(kPartBytes / row_bytes, kFewRows, kMostRows);
  a.stream = a.out != nullptr && a.dy != a.out && worth_streaming(a.out, a.n * sizeof(T), rows);
  Turns turns;
  pool::parallel_for(rows, part_rows, [&](std::size_t first, std::size_t last) {
    for (std::size_t begin = first; begin < last; begin += part_rows) {
      const std::size_t end = std::min(last, begin + part_rows);
      RowStats<T> stats[kMostRows];
      backward_part(a, begin, end, stats);
      turns.wait(begin);
      if (a.dweight != nullptr || a.dbias != nullptr) column_part(a, begin, end, stats);
      turns.done(end);
    }
  });
}

template <class T>
NormArrays<T> arrays_of(const T* x, const T* weight, T* out, std::size_t n, double eps,
                        bool centered) {
  return {.x = x,
          .weight = weight,
          .out = out,
          .n = n,
          .eps = static_cast<T>(eps),
          .centered = centered};
}

}  // namespace

template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, T* y, std::size_t rows, std::size_t n,
                double eps) {
  NormArrays<T> a = arrays_of(x, weight, y, n, eps, true);
  a.bias = bias;
  norm_forward(a, rows);
}

template <class T>
void rms_norm(const T* x, const T* weight, T* y, std::size_t rows, std::size_t n, double eps) {
  norm_forward(arrays_of(x, weight, y, n, eps, false), rows);
}

template <class T>
void layer_norm_backward(const T* x, const T* weight, const T* dy, T* dx, T* dweight, T* dbias,
                         std::size_t rows, std::size_t n, double eps) {
  NormArrays<T> a = arrays_of(x, weight, dx, n, eps, true);
  a.dy = dy, a.dweight = dweight, a.dbias = dbias;
  norm_backward(a, rows);
}

template <class T>
void rms_norm_backward(const T* x, const T* weight, const T* dy, T* dx, T* dweight,
                       std::size_t rows, std::size_t n, double eps) {
  NormArrays<T> a = arrays_of(x, weight, dx, n, eps, false);
  a.dy = dy, a.dweight = dweight;
  norm_backward(a, rows);
}

#define EBB_NORM(T)                                                                               \
  template void layer_norm(const T*, const T*, const T*, T*, std::size_t, std::size_t, double);   \
  template void rms_norm(const T*, const T*, T*, std::size_t, std::size_t, double);               \
  template void layer_norm_backward(const T*, const T*, const T*, T*, T*, T*, std::size_t,        \
                                    std::size_t, double);                                         \
  template void rms_norm_backward(const T*, const T*, const T*, T*, T*, std::size_t, std::size_t, \
                                  double);
EBB_NORM(float)
EBB_NORM(double)
#undef EBB_NORM

}  // namespace ebb::kernels
#endif
