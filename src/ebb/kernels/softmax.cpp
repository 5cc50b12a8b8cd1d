#include "ebb/kernels/softmax.hpp"

#include <algorithm>
#include <type_traits>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/float_dispatch.hpp"
#include "ebb/kernels/grain.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/softmax.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

constexpr std::size_t kLongestWaiting = 8192;  // bytes of a row whose exponentials fit on the stack
constexpr std::size_t kShortRow = 1024;        // bytes
constexpr std::size_t kShortRows = 16;         // rows of that kind taken together

// As walk_two, of three stages, in wide steps.
template <class T, class First, class Second, class Third>
HWY_INLINE void walk_three(std::size_t n, bool reads, First& first, bool sums, Second& second,
                           bool writes, Third& third) {
  if (reads && sums && writes) return walk_wide<T>(n, first, second, third);
  if (writes) walk_wide<T>(n, third);
  if (sums) walk_wide<T>(n, second);
  if (reads) walk_wide<T>(n, first);
}

// Three rows are under way at a time: the maximum of one, the exponentials of the one before it,
// the result of the one before that. So memory is read and written evenly while the arithmetic goes
// on.
// The exponentials wait for their sum on the stack; those of long rows, by turns, in the last two
// rows of y. Those two stay in the core's own cache, however large y is, until their own results
// come to stand there.
template <class T, class Out, bool kLong>
void softmax_rows(const T* x, T* y, std::size_t rows, std::size_t n) {
  constexpr std::size_t kMost = kLong ? 1 : kLongestWaiting / sizeof(T);
  constexpr std::size_t kSkew = 1088 / sizeof(T);  // so that no two rows share all their low bits
  HWY_ALIGN T waiting[2][kMost + kSkew];
  const auto between = [&](std::size_t row) {
    return kLong ? y + (rows - 1 - (rows - 1 - row) % 2) * n : waiting[row % 2];
  };
  T max = 0, factor = 0;
  for (std::size_t t = 0; t < rows + 2; ++t) {
    const bool reads = t < rows, sums = t >= 1 && t <= rows, writes = t >= 2;
    const std::size_t summed = sums ? t - 1 : 0, written = writes ? t - 2 : 0;
    RowMax<T> first(x + (reads ? t : 0) * n);
    RowExpSum<T, true> second(x + summed * n, between(summed), max);
    const T* from = between(written);
    T* to = y + written * n;
    const auto vfactor = hn::Set(RowTag<T>(), factor);
    const auto third = [&](std::size_t i, std::size_t, auto amount) EBB_LAMBDA {
      store<T>(hn::Mul(load(from + i, amount), vfactor), to + i, stored<Out>(amount));
    };
    walk_three<T>(n, reads, first, sums, second, writes, third);
    factor = T(1) / second.sum.total();
    max = first.total();
  }
}
template <class T, class Out>
void softmax_rows(const T* x, const T*, T* y, std::size_t rows, std::size_t n) {
  if (n * sizeof(T) <= kLongestWaiting) return softmax_rows<T, Out, false>(x, y, rows, n);
  softmax_rows<T, Out, true>(x, y, rows, n);
}

// Short rows, some at a time: one logarithm serves them all.
template <class T, class Out>
void log_softmax_short(const T* x, T* y, std::size_t rows, std::size_t n) {
  const RowTag<T> d;
  T max[kShortRows], log_sum[kShortRows];
  for (std::size_t begin = 0; begin < rows; begin += kShortRows) {
    const std::size_t count = std::min(kShortRows, rows - begin);
    const T* from = x + begin * n;
    const auto row_at = [&](std::size_t row) EBB_LAMBDA { return from + row * n; };
    log_sums(row_at, count, n, max, log_sum);
    for (std::size_t row = 0; row < count; ++row) {
      const T* in = from + row * n;
      T* to = y + (begin + row) * n;
      const auto vmax = hn::Set(d, max[row]), vlog_sum = hn::Set(d, log_sum[row]);
      const std::size_t next = count * n * sizeof(T);
      each_vector<T>(n, [&](std::size_t i, auto amount) EBB_LAMBDA {
        if (i * sizeof(T) % 128 == 0) fetch_after(in + i, next);
        const auto v = hn::Sub(hn::Sub(load(in + i, amount), vmax), vlog_sum);
        store<T>(v, to + i, stored<Out>(amount));
      });
    }
  }
}

template <class T, class Out>
void log_softmax_rows(const T* x, const T*, T* y, std::size_t rows, std::size_t n) {
  if (n * sizeof(T) <= kShortRow) return log_softmax_short<T, Out>(x, y, rows, n);
  const RowTag<T> d;
  T max = 0, last_max = 0, log_sum = 0;
  for (std::size_t t = 0; t < rows + 2; ++t) {
    const bool reads = t < rows, sums = t >= 1 && t <= rows, writes = t >= 2;
    RowMax<T> first(x + (reads ? t : 0) * n);
    RowExpSum<T, false> second(x + (sums ? t - 1 : 0) * n, nullptr, max);
    const T* from = x + (writes ? t - 2 : 0) * n;
    T* to = y + (writes ? t - 2 : 0) * n;
    const auto vmax = hn::Set(d, last_max), vlog_sum = hn::Set(d, log_sum);
    const auto third = [&](std::size_t i, std::size_t, auto amount) EBB_LAMBDA {
      const auto v = hn::Sub(hn::Sub(load(from + i, amount), vmax), vlog_sum);
      store<T>(v, to + i, stored<Out>(amount));
    };
    walk_three<T>(n, reads, first, sums, second, writes, third);
    log_sum = log_of(second.sum.total());
    last_max = max;
    max = first.total();
  }
}

// Two rows under way: the sum of one, over add(sum so far, place, amount), and the result of the one
// before it, result(place, its sum, amount).
template <class T, class Out, class Add, class Result>
HWY_INLINE void sum_and_write(T* out, std::size_t rows, std::size_t n, Add&& add, Result&& result) {
  T total = 0;
  for (std::size_t t = 0; t < rows + 1; ++t) {
    const bool sums = t < rows, writes = t >= 1;
    const std::size_t at = (sums ? t : 0) * n, back = (writes ? t - 1 : 0) * n;
    RowSum<T> sum;
    const auto first = [&](std::size_t i, std::size_t k, auto amount)
                           EBB_LAMBDA { sum.set(k, add(sum.lanes[k], at + i, amount), amount); };
    const auto vtotal = hn::Set(RowTag<T>(), total);
    const auto second = [&](std::size_t i, std::size_t, auto amount) EBB_LAMBDA {
      store<T>(result(back + i, vtotal, amount), out + back + i, stored<Out>(amount));
    };
    walk_two<T>(n, sums, first, writes, second);
    total = sum.total();
  }
}

template <class T, class Out>
void softmax_backward_rows(const T* y, const T* dy, T* dx, std::size_t rows, std::size_t n) {
  sum_and_write<T, Out>(
      dx, rows, n,
      [&](auto sum, std::size_t i, auto amount)
          EBB_LAMBDA { return hn::MulAdd(load(y + i, amount), load(dy + i, amount), sum); },
      [&](std::size_t i, auto dot, auto amount)
          EBB_LAMBDA { return hn::Mul(load(y + i, amount), hn::Sub(load(dy + i, amount), dot)); });
}

template <class T, class Out>
void log_softmax_backward_rows(const T* y, const T* dy, T* dx, std::size_t rows, std::size_t n) {
  sum_and_write<T, Out>(
      dx, rows, n,
      [&](auto sum, std::size_t i, auto amount)
          EBB_LAMBDA { return hn::Add(sum, load(dy + i, amount)); },
      [&](std::size_t i, auto total, auto amount) EBB_LAMBDA {
        return hn::NegMulAdd(exp_below<T>(load(y + i, amount)), total, load(dy + i, amount));
      });
}

// The same with outputs of a size that is written past the caches, or not.
#define EBB_SOFTMAX_TARGETS(name)                                                                 \
  template <class T>                                                                              \
  void name##_any(const T* a, const T* b, T* out, std::size_t rows, std::size_t n, bool stream) { \
    if (!stream) return name##_rows<T, Whole>(a, b, out, rows, n);                                \
    name##_rows<T, Streamed>(a, b, out, rows, n);                                                 \
    hwy::FlushStream();                                                                           \
  }                                                                                               \
  EBB_FLOAT_TARGETS(name, name##_any)
EBB_SOFTMAX_TARGETS(softmax);
EBB_SOFTMAX_TARGETS(log_softmax);
EBB_SOFTMAX_TARGETS(softmax_backward);
EBB_SOFTMAX_TARGETS(log_softmax_backward);
#undef EBB_SOFTMAX_TARGETS

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

constexpr std::size_t kLongPart = std::size_t{1} << 18;  // elements

template <class T>
using Rows = void (*)(const T*, const T*, T*, std::size_t, std::size_t, bool);

// Rows of a and b (b may be null) to rows of out.
template <class T>
void each_rows(Rows<T> body, const T* a, const T* b, T* out, std::size_t rows, std::size_t n,
               std::size_t cost) {
  const bool stream = a != out && b != out && worth_streaming(out, n * sizeof(T), rows);
  // Rows under way fill and drain at the ends of a part: of large arrays, parts are long.
  const std::size_t long_part =
      stream ? std::max(kLongPart / n, std::min<std::size_t>(64, rows / 8)) : 0;
  const std::size_t grain = std::max(grain_for(n * cost), long_part);
  pool::parallel_for(rows, grain, [&](std::size_t begin, std::size_t end) {
    const T* b_begin = b == nullptr ? nullptr : b + begin * n;
    body(a + begin * n, b_begin, out + begin * n, end - begin, n, stream);
  });
}

EBB_FLOAT_EXPORT(softmax);
EBB_FLOAT_EXPORT(log_softmax);
EBB_FLOAT_EXPORT(softmax_backward);
EBB_FLOAT_EXPORT(log_softmax_backward);

}  // namespace

template <class T>
void softmax(const T* x, T* y, std::size_t rows, std::size_t n) {
  each_rows<T>(EBB_FLOAT_DISPATCH(T, softmax), x, nullptr, y, rows, n, sizeof(T) == 8 ? 16 : 4);
}
template <class T>
void log_softmax(const T* x, T* y, std::size_t rows, std::size_t n) {
  each_rows<T>(EBB_FLOAT_DISPATCH(T, log_softmax), x, nullptr, y, rows, n, sizeof(T) == 8 ? 16 : 4);
}
template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, std::size_t rows, std::size_t n) {
  each_rows<T>(EBB_FLOAT_DISPATCH(T, softmax_backward), y, dy, dx, rows, n, 2);
}
template <class T>
void log_softmax_backward(const T* y, const T* dy, T* dx, std::size_t rows, std::size_t n) {
  const std::size_t cost = sizeof(T) == 8 ? 16 : 3;
  each_rows<T>(EBB_FLOAT_DISPATCH(T, log_softmax_backward), y, dy, dx, rows, n, cost);
}

#define EBB_SOFTMAX_FOR(T)                                                          \
  template void softmax(const T*, T*, std::size_t, std::size_t);                    \
  template void log_softmax(const T*, T*, std::size_t, std::size_t);                \
  template void softmax_backward(const T*, const T*, T*, std::size_t, std::size_t); \
  template void log_softmax_backward(const T*, const T*, T*, std::size_t, std::size_t)
EBB_SOFTMAX_FOR(float);
EBB_SOFTMAX_FOR(double);
#undef EBB_SOFTMAX_FOR

}  // namespace ebb::kernels
#endif
