// The parts of a softmax row that losses share with it: its maximum, and the sum of exponentials.

#if defined(EBB_KERNELS_SOFTMAX_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_SOFTMAX_INL_HPP_
#undef EBB_KERNELS_SOFTMAX_INL_HPP_
#else
#define EBB_KERNELS_SOFTMAX_INL_HPP_
#endif

#include <cstddef>
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
  walk<T>(n, max);
  return max.total();
}

// e^x for x <= 0 (and up to 88). In f32, results below about 1e-38 are 0: beside the 1 of the row's
// maximum they are nothing, and so no step is needed but these. x = k ln2 + r; the float t holds
// k + 127 in its low bits, which are the exponent bits of 2^k, all zero where k is -127.
template <class T>
HWY_INLINE RowVec<T> exp_below(RowVec<T> x) {
  const RowTag<T> d;
  if constexpr (sizeof(T) == 8) {
    return Exp(d, x);
  } else {
    const hn::RebindToSigned<RowTag<T>> di;
    const auto magic = hn::Set(d, detail::kRoundMagic + 127);
    const auto limited = hn::Max(hn::Set(d, -88.0f), x);  // in this order a NaN stays
    const auto t = hn::MulAdd(limited, hn::Set(d, detail::kLog2e), magic);
    const auto k = hn::Sub(t, magic);
    const auto r = hn::NegMulAdd(k, hn::Set(d, detail::kLn2Lo),
                                 hn::NegMulAdd(k, hn::Set(d, detail::kLn2Hi), limited));
    const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, t)));
    return hn::Mul(detail::ExpReduced(d, r), power);
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
    const auto e = exp_below<T>(hn::Sub(load(x + i, amount), max));
    if constexpr (kKeep) store<T>(e, keep + i, amount);
    sum.set(k, hn::Add(sum.lanes[k], e), amount);
  }
};

template <class T>
HWY_INLINE T row_exp_sum(const T* x, std::size_t n, T max) {
  RowExpSum<T, false> stage(x, nullptr, max);
  walk<T>(n, stage);
  return stage.sum.total();
}

template <class T>
HWY_INLINE T log_of(T x) {
  const RowTag<T> d;
  return hn::GetLane(Log(d, hn::Set(d, x)));
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_SOFTMAX_INL_HPP_
