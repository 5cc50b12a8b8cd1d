// The parts of a softmax row that losses and logsumexp share with it: its maximum, and the sum of
// exponentials.

#if defined(EBB_KERNELS_SOFTMAX_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_SOFTMAX_INL_HPP_
#undef EBB_KERNELS_SOFTMAX_INL_HPP_
#else
#define EBB_KERNELS_SOFTMAX_INL_HPP_
#endif

#include <cstddef>
#include <cstdint>
#include <limits>

#include "ebb/kernels/math-inl.hpp"
#include "ebb/kernels/rows-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

// The largest element. With a NaN in the row it is some element or NaN; the exponentials of the row
// then hold a NaN whichever it is.
template <class T>
struct RowMax {
  const T* x;
  RowVec<T> lanes[kVirtualLanes / kRowLanes<T>];

  HWY_INLINE explicit RowMax(const T* row) : x(row) {
    for (auto& lane : lanes) lane = lowest();
  }
  HWY_INLINE void operator()(std::size_t i, std::size_t k, Whole) {
    fetch_after(x + i, k, Whole());
    lanes[k] = hn::Max(lanes[k], load(x + i, Whole()));
  }
  HWY_INLINE void operator()(std::size_t i, std::size_t k, std::size_t n) {
    const auto there = hn::FirstN(RowTag<T>(), n);
    lanes[k] = hn::Max(lanes[k], hn::IfThenElse(there, load(x + i, n), lowest()));
  }
  HWY_INLINE T total() const {
    auto max = lanes[0];
    for (const auto& lane : lanes) max = hn::Max(max, lane);
    return hn::GetLane(hn::MaxOfLanes(RowTag<T>(), max));
  }

 private:
  static HWY_INLINE RowVec<T> lowest() {
    return hn::Set(RowTag<T>(), -std::numeric_limits<T>::infinity());
  }
};

template <class T>
HWY_INLINE T row_max(const T* x, std::size_t n) {
  RowMax<T> max(x);
  walk_wide<T>(n, max);
  return max.total();
}

// Mantissa bits of 2^(j/8), less j in the top three of them.
HWY_ALIGN inline constexpr std::int32_t kEighths[16] = {
    0, -289342, -509968, -655657, -719629, -694486, -572163, -343865,   //
    0, -289342, -509968, -655657, -719629, -694486, -572163, -343865};  // again, for vectors of 16

// kEighths[j] for j in the low three bits of each lane.
template <class VI>
HWY_INLINE VI lookup_eighth(VI bits) {
  const hn::RebindToSigned<RowTag<float>> d;
  static_assert(kRowLanes<float> >= 4);
  if constexpr (kRowLanes<float> == 4) {
    const auto at = hn::IndicesFromVec(d, hn::And(bits, hn::Set(d, 3)));
    const auto low = hn::TableLookupLanes(hn::LoadU(d, kEighths), at);
    const auto high = hn::TableLookupLanes(hn::LoadU(d, kEighths + 4), at);
    return hn::IfThenElse(hn::MaskFromVec(hn::BroadcastSignBit(hn::ShiftLeft<29>(bits))), high,
                          low);
  } else {
#if HWY_ARCH_X86 && !HWY_IS_DEBUG_BUILD
    const auto at = hn::IndicesFromVec(d, bits);  // the instruction looks at the low bits alone
#else
    const auto at = hn::IndicesFromVec(d, hn::And(bits, hn::Set(d, 7)));
#endif
    return hn::TableLookupLanes(hn::LoadU(d, kEighths), at);
  }
}

inline constexpr float kLn2 = 0.693147180559945309f;

// e^x for x <= 0 (and up to 88), for kCount vectors in step: each step is a chain, and several
// chains keep the machine busy. In f32 results below 2^-126 are some number from 0 to that: beside
// the 1 of the row's maximum they are nothing; that of -inf is 0.
//
// x = k ln2 / 8 + r, and e^x = 2^(k/8) e^r. The float t holds k + 8 * 127 in its low bits: shifted
// by 20 they are exponent bits and three more, which the table makes a mantissa.
//
// kTerms: for terms of a sum in which the e^0 of the maximum stands as well. k ln2 / 8 is then
// taken off in one piece, which costs |x| 2^-25 of e^x: less than a rounding of the sum.
template <class T, bool kTerms = false, std::size_t kCount>
HWY_INLINE void exp_below_each(RowVec<T> (&x)[kCount]) {
  const RowTag<T> d;
  if constexpr (sizeof(T) == 8) {
    for (auto& v : x) v = exp(d, v);
  } else {
    const hn::RebindToSigned<RowTag<T>> di;
    const auto magic = hn::Set(d, detail::kRoundMagic + 8 * 127);
    RowVec<T> t[kCount], r[kCount], power[kCount];
    for (auto& v : x) v = hn::Max(hn::Set(d, -88.0f), v);  // in this order a NaN stays
    for (std::size_t i = 0; i < kCount; ++i) {
      t[i] = hn::MulAdd(x[i], hn::Set(d, 8 * detail::kLog2e), magic);
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto k = hn::Sub(t[i], magic);
      if constexpr (kTerms) {
        r[i] = hn::NegMulAdd(k, hn::Set(d, kLn2 / 8), x[i]);
      } else {
        r[i] = hn::NegMulAdd(k, hn::Set(d, detail::kLn2Lo / 8),
                             hn::NegMulAdd(k, hn::Set(d, detail::kLn2Hi / 8), x[i]));
      }
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto bits = hn::BitCast(di, t[i]);
      power[i] = hn::BitCast(d, hn::Add(hn::ShiftLeft<20>(bits), lookup_eighth(bits)));
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto q = hn::MulAdd(r[i], hn::Set(d, 0.1666788f), hn::Set(d, 0.50006479f));
      const auto s = hn::MulAdd(hn::Mul(r[i], r[i]), q, r[i]);
      x[i] = hn::MulAdd(power[i], s, power[i]);
    }
  }
}

template <class T, bool kTerms = false>
HWY_INLINE RowVec<T> exp_below(RowVec<T> x) {
  RowVec<T> one[1] = {x};
  exp_below_each<T, kTerms>(one);
  return one[0];
}

// f(i, k, e^(x - max)) for the vectors of x, several in step.
template <class T, bool kTerms, class F>
HWY_INLINE void wide_exponentials(const T* x, std::size_t i, RowVec<T> max, F&& f) {
  constexpr std::size_t N = kRowLanes<T>, K = kVirtualLanes / N, kStep = kWideStep / N;
  constexpr std::size_t kCount = kStep < 4 ? kStep : 4;
  for (std::size_t v = 0; v < kStep; v += kCount) {
    RowVec<T> e[kCount];
    for (std::size_t j = 0; j < kCount; ++j) {
      e[j] = hn::Sub(load(x + i + (v + j) * N, Whole()), max);
    }
    exp_below_each<T, kTerms>(e);
    for (std::size_t j = 0; j < kCount; ++j) f(i + (v + j) * N, (v + j) % K, e[j]);
  }
}

// The sum of e^(x - max). `keep`, where given, receives the exponentials.
template <class T, bool kKeep>
struct RowExpSum {
  const T* x;
  T* keep;
  RowVec<T> max;
  RowSum<T> sum;

  HWY_INLINE RowExpSum(const T* row, T* to, T row_max)
      : x(row), keep(to), max(hn::Set(RowTag<T>(), row_max)) {}
  template <class Amount>
  HWY_INLINE void operator()(std::size_t i, std::size_t k, Amount amount) {
    const auto e = exp_below<T, !kKeep>(hn::Sub(load(x + i, amount), max));
    if constexpr (kKeep) store<T>(e, keep + i, amount);
    sum.set(k, hn::Add(sum.lanes[k], e), amount);
  }
  HWY_INLINE void wide(std::size_t first) {
    const auto use = [&](std::size_t i, std::size_t k, RowVec<T> e) EBB_LAMBDA {
      if constexpr (kKeep) store<T>(e, keep + i, Whole());
      sum.set(k, hn::Add(sum.lanes[k], e), Whole());
    };
    wide_exponentials<T, !kKeep>(x, first, max, use);
  }
};

template <class T>
HWY_INLINE T row_exp_sum(const T* x, std::size_t n, T max) {
  RowExpSum<T, false> stage(x, nullptr, max);
  walk_wide<T>(n, stage);
  return stage.sum.total();
}

template <class T>
HWY_INLINE T log_of(T x) {
  const RowTag<T> d;
  return hn::GetLane(log(d, hn::Set(d, x)));
}

// Of each of `count` rows its maximum and the sum of e^(x - max). Four rows are under way at a time:
// the maxima of two, the exponentials of the two before them. So the ends of rows, where lanes are
// folded, come half as often.
template <class T, class RowAt>
HWY_INLINE void exp_sums_by_pairs(RowAt&& row_at, std::size_t count, std::size_t n, T* max,
                                  T* sum) {
  for (std::size_t t = 0; t < count + 2; t += 2) {
    const bool reads = t + 1 < count, sums = t >= 2;
    const std::size_t ahead = reads ? t : 0, behind = sums ? t - 2 : 0;
    const std::size_t pair = behind + 1 < count ? 1 : 0;
    RowMax<T> max_a(row_at(ahead)), max_b(row_at(reads ? ahead + 1 : 0));
    RowExpSum<T, false> sum_a(row_at(behind), nullptr, sums ? max[behind] : T(0));
    RowExpSum<T, false> sum_b(row_at(behind + pair), nullptr, sums ? max[behind + pair] : T(0));
    if (reads && sums) {
      walk_wide<T>(n, max_a, max_b, sum_a, sum_b);
    } else {
      if (sums) walk_wide<T>(n, sum_a);
      if (sums && pair) walk_wide<T>(n, sum_b);
      if (reads) walk_wide<T>(n, max_a, max_b);
    }
    if (sums) {
      sum[behind + pair] = sum_b.sum.total();
      sum[behind] = sum_a.sum.total();
    }
    if (reads) {
      max[t] = max_a.total();
      max[t + 1] = max_b.total();
    } else if (t < count) {
      max[t] = row_max(row_at(t), n);
    }
  }
}

// The same with two rows under way: the maximum of one, the exponentials of the one before it.
template <class T, class RowAt>
HWY_INLINE void exp_sums(RowAt&& row_at, std::size_t count, std::size_t n, T* max, T* sum) {
  for (std::size_t t = 0; t < count + 1; ++t) {
    const bool reads = t < count, sums = t >= 1;
    RowMax<T> first(row_at(reads ? t : 0));
    RowExpSum<T, false> second(row_at(sums ? t - 1 : 0), nullptr, sums ? max[t - 1] : T(0));
    walk_two<T>(n, reads, first, sums, second);
    if (sums) sum[t - 1] = second.sum.total();
    if (reads) max[t] = first.total();
  }
}

// Of each of `count` rows its maximum, and the logarithm of the sum of e^(x - max).
template <class T, class RowAt>
HWY_INLINE void log_sums(RowAt&& row_at, std::size_t count, std::size_t n, T* max, T* log_sum) {
  constexpr std::size_t kShort = 2048;  // bytes of a row of which the end counts
  if (n * sizeof(T) <= kShort) {
    exp_sums_by_pairs(row_at, count, n, max, log_sum);
  } else {
    exp_sums(row_at, count, n, max, log_sum);
  }
  each_vector<T>(count, [&](std::size_t i, auto amount) EBB_LAMBDA {
    store<T>(log(RowTag<T>(), load(log_sum + i, amount)), log_sum + i, amount);
  });
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_SOFTMAX_INL_HPP_
