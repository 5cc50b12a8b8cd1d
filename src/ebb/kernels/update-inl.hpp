// Per-target pieces that optimizer steps share.

#if defined(EBB_KERNELS_UPDATE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_UPDATE_INL_HPP_
#undef EBB_KERNELS_UPDATE_INL_HPP_
#else
#define EBB_KERNELS_UPDATE_INL_HPP_
#endif

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include "ebb/kernels/rows-inl.hpp"
#include "ebb/kernels/update.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

// Calls f(tensor, begin, end) for the parts of the tensors that elements [begin, end) of their
// concatenation fall in.
template <class Tensor, class F>
HWY_INLINE void each_part(std::span<const Tensor> tensors, std::size_t begin, std::size_t end,
                          F&& f) {
  std::size_t first = 0;  // where the tensor starts in the concatenation
  for (const Tensor& tensor : tensors) {
    const std::size_t last = first + tensor.size;
    if (first >= end) break;
    if (last > begin) f(tensor, std::max(begin, first) - first, std::min(end, last) - first);
    first = last;
  }
}

// Calls f(part, i, amount) for vectors of those elements: in `part`, a part of a tensor, from i on.
template <class T, class F>
HWY_INLINE void each_element(std::span<const Update<T>> tensors, std::size_t begin, std::size_t end,
                             F&& f) {
  each_part(tensors, begin, end,
            [&](const Update<T>& t, std::size_t from, std::size_t to) HWY_ATTR {
              const auto state = [&](T* s) { return s ? s + from : nullptr; };
              const Update<T> part{
                  t.param + from, t.grad + from, {state(t.state[0]), state(t.state[1])}, to - from};
              each_vector<T>(part.size,
                             [&](std::size_t i, auto amount) EBB_LAMBDA { f(part, i, amount); });
            });
}

// The gradient as a rule sees it, weight decay added where it is not decoupled.
template <class T>
struct Gradient {
  RowVec<T> scale, low, high, decay;
  bool clipped, decayed;

  Gradient(GradientUse use, double weight_decay)
      : scale(hn::Set(RowTag<T>(), static_cast<T>(use.scale))),
        low(hn::Set(RowTag<T>(), static_cast<T>(-use.clip))),
        high(hn::Set(RowTag<T>(), static_cast<T>(use.clip))),
        decay(hn::Set(RowTag<T>(), static_cast<T>(weight_decay))),
        clipped(use.clip < std::numeric_limits<double>::infinity()),
        decayed(weight_decay != 0) {}

  HWY_INLINE RowVec<T> operator()(RowVec<T> grad) const {
    auto g = hn::Mul(grad, scale);
    // In this order of operands a NaN stays a NaN.
    if (clipped) g = hn::Min(high, hn::Max(low, g));
    return g;
  }
  HWY_INLINE RowVec<T> operator()(RowVec<T> grad, RowVec<T> param) const {
    const auto g = (*this)(grad);
    return decayed ? hn::MulAdd(decay, param, g) : g;
  }
};

template <class T>
HWY_INLINE RowVec<T> constant(double value) {
  return hn::Set(RowTag<T>(), static_cast<T>(value));
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_UPDATE_INL_HPP_
