// Per-target pieces for kernels that walk rows: whole and partial vectors, and sums in the
// canonical order.
//
// Canonical order of a sum along a row: element i belongs to virtual lane i % 16; each lane is one
// sequential chain; then lane l += lane l + 8, then + 4, + 2, + 1. The vector width shows nowhere.

#if defined(EBB_KERNELS_ROWS_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_ROWS_INL_HPP_
#undef EBB_KERNELS_ROWS_INL_HPP_
#else
#define EBB_KERNELS_ROWS_INL_HPP_
#endif

#include <cstddef>
#include <cstdint>

#include "ebb/kernels/lambda-inl.hpp"
#include "ebb/kernels/partial-inl.hpp"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kVirtualLanes = 16;

template <class T>
using RowTag = hn::CappedTag<T, kVirtualLanes>;
template <class T>
using RowVec = hn::Vec<RowTag<T>>;
template <class T>
inline constexpr std::size_t kRowLanes = hn::MaxLanes(RowTag<T>());

// How many elements of a vector are meant: all (known to the compiler) or the first n.
struct Whole {};
// All, stored past the caches: for outputs too large to stay in them. Needs aligned addresses.
struct Streamed {};

template <class T>
HWY_INLINE RowVec<T> load(const T* p, Whole) {
  return hn::LoadU(RowTag<T>(), p);
}
template <class T>
HWY_INLINE RowVec<T> load(const T* p, Streamed) {
  return hn::LoadU(RowTag<T>(), p);
}
// Elements from n on are zero.
template <class T>
HWY_INLINE RowVec<T> load(const T* p, std::size_t n) {
  return load_part(RowTag<T>(), p, n);
}

template <class T>
HWY_INLINE void store(RowVec<T> v, T* p, Whole) {
  hn::StoreU(v, RowTag<T>(), p);
}
template <class T>
HWY_INLINE void store(RowVec<T> v, T* p, Streamed) {
  hn::Stream(v, RowTag<T>(), p);
}
template <class T>
HWY_INLINE void store(RowVec<T> v, T* p, std::size_t n) {
  store_part(v, RowTag<T>(), p, n);
}

// Asks for what comes some way after p, where p is the first of a line: rows follow one another,
// and one core gets more from memory when told so early. Past the end of an array it does nothing.
inline constexpr std::size_t kAhead = 2048;  // bytes
inline constexpr std::size_t kSoon = 1024;   // where the array is also written, or several are read
template <class T>
HWY_INLINE void fetch_after(const T* p, std::size_t bytes = kAhead) {
  hwy::Prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(p) + bytes));
}
// The same, for the k-th vector of a block of 16: once per line.
template <class T>
HWY_INLINE void fetch_after(const T* p, std::size_t k, Whole) {
  if (k * kRowLanes<T> * sizeof(T) % 64 == 0) fetch_after(p);
}
template <class T>
HWY_INLINE void fetch_after(const T*, std::size_t, std::size_t) {}

// Where `rows` rows of n, `stride` elements apart, are read side by side, then the rows after them:
// how many bytes after element i of one of them lies what is read kSoon bytes later.
template <class T>
HWY_INLINE std::size_t soon_after(std::size_t i, std::size_t n, std::size_t rows,
                                  std::size_t stride) {
  const bool same_row = i + kSoon / sizeof(T) < n;
  return kSoon + (same_row ? 0 : (rows * stride - n) * sizeof(T));
}

// How a result is stored: whole vectors as Out says (Whole or Streamed), a partial one as it is.
template <class Out>
HWY_INLINE Out stored(Whole) {
  return {};
}
template <class Out>
HWY_INLINE std::size_t stored(std::size_t n) {
  return n;
}

// f(i, amount) for each vector of a row of n. `Amount` is Whole or Streamed for the whole vectors.
template <class T, class Amount = Whole, class F>
HWY_INLINE void each_vector(std::size_t n, F&& f) {
  constexpr std::size_t N = kRowLanes<T>;
  std::size_t i = 0;
  for (; i + 2 * N <= n; i += 2 * N) {
    f(i, Amount());
    f(i + N, Amount());
  }
  if (i + N <= n) {
    f(i, Amount());
    i += N;
  }
  if (i < n) f(i, n - i);
}

// The last steps of a fold in the canonical order: lane l takes in lane l + 4, then + 2, + 1.
template <class D, class Join>
HWY_INLINE hn::TFromD<D> fold_of_lanes(D d, hn::Vec<D> v, Join&& join) {
  using T = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(d) * sizeof(T) > 16) {
    const hn::Half<D> half;
    return fold_of_lanes(half, join(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), join);
  } else if constexpr (sizeof(T) == 4) {
    v = join(v, hn::Shuffle1032(v));
    return hn::GetLane(join(v, hn::Shuffle2301(v)));
  } else {
    return hn::GetLane(join(v, hn::Shuffle01(v)));
  }
}
template <class D>
HWY_INLINE hn::TFromD<D> sum_of_lanes(D d, hn::Vec<D> v) {
  return fold_of_lanes(d, v, [](auto a, auto b) EBB_LAMBDA { return hn::Add(a, b); });
}

// A sum along a row in the canonical order, one vector at a time.
template <class T>
struct RowSum {
  static constexpr std::size_t N = kRowLanes<T>, K = kVirtualLanes / N;
  RowVec<T> lanes[K];

  HWY_INLINE RowSum() {
    for (auto& lane : lanes) lane = hn::Zero(RowTag<T>());
  }
  // The k-th vector of its block of 16 goes from lanes[k] to `next`; of a partial vector, only the
  // elements that are there.
  HWY_INLINE void set(std::size_t k, RowVec<T> next, Whole) { lanes[k] = next; }
  HWY_INLINE void set(std::size_t k, RowVec<T> next, std::size_t n) {
    lanes[k] = hn::IfThenElse(hn::FirstN(RowTag<T>(), n), next, lanes[k]);
  }
  HWY_INLINE T total() const {
    RowVec<T> sum[K];
    for (std::size_t k = 0; k < K; ++k) sum[k] = lanes[k];
    for (std::size_t half = K / 2; half > 0; half /= 2) {
      for (std::size_t k = 0; k < half; ++k) sum[k] = hn::Add(sum[k], sum[k + half]);
    }
    return sum_of_lanes(RowTag<T>(), sum[0]);
  }
};

// Walks a row of n once for several stages: stage(i, k, amount) gets the vector of elements i..,
// the k-th of its block of 16. Stages of different rows fill each other's gaps: while one waits for
// memory or for a chain of additions, the others go on. The stage that stores to rows comes last: a
// load right after a store waits for it where the low 12 bits of the addresses agree.
template <class T, class... Stages>
HWY_INLINE void walk(std::size_t n, Stages&... stages) {
  constexpr std::size_t N = kRowLanes<T>, K = kVirtualLanes / N;
  std::size_t i = 0;
  for (; i + kVirtualLanes <= n; i += kVirtualLanes) {
    for (std::size_t k = 0; k < K; ++k) (stages(i + k * N, k, Whole()), ...);
  }
  for (std::size_t k = 0; i < n; ++k, i += N) {
    if (n - i >= N) {
      (stages(i, k, Whole()), ...);
    } else {
      (stages(i, k, n - i), ...);
    }
  }
}

// As walk, for the stages of two rows that follow one another: the first and the last row of a
// range go alone.
template <class T, class First, class Second>
HWY_INLINE void walk_two(std::size_t n, bool has_first, First& first, bool has_second,
                         Second& second) {
  if (has_first && has_second) return walk<T>(n, first, second);
  if (has_second) return walk<T>(n, second);
  if (has_first) walk<T>(n, first);
}

inline constexpr std::size_t kWideStep = 32;  // elements

// As walk, in steps of 32 elements, each stage taking its step as a whole: for stages that keep
// several vectors going at once, in a `wide(i)`.
template <class T, class Stage>
HWY_INLINE void wide_step(std::size_t i, Stage& stage) {
  constexpr std::size_t N = kRowLanes<T>, K = kVirtualLanes / N;
  if constexpr (requires { stage.wide(i); }) {
    stage.wide(i);
  } else {
    for (std::size_t v = 0; v < kWideStep / N; ++v) stage(i + v * N, v % K, Whole());
  }
}
template <class T, class... Stages>
HWY_INLINE void walk_wide(std::size_t n, Stages&... stages) {
  constexpr std::size_t N = kRowLanes<T>, K = kVirtualLanes / N;
  std::size_t i = 0;
  for (; i + kWideStep <= n; i += kWideStep) (wide_step<T>(i, stages), ...);
  for (std::size_t k = 0; i < n; ++k, i += N) {
    if (n - i >= N) {
      (stages(i, k % K, Whole()), ...);
    } else {
      (stages(i, k % K, n - i), ...);
    }
  }
}

template <class T, class F>
HWY_INLINE T row_sum(std::size_t n, F&& f) {
  RowSum<T> sum;
  const auto stage = [&](std::size_t i, std::size_t k, auto amount)
                         EBB_LAMBDA { sum.set(k, f(sum.lanes[k], i, amount), amount); };
  walk<T>(n, stage);
  return sum.total();
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_ROWS_INL_HPP_
