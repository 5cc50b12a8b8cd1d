// x^y on Highway vectors, to within an ulp: f32 goes through f64.

#if defined(EBB_KERNELS_MATH_POW_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_MATH_POW_INL_HPP_
#undef EBB_KERNELS_MATH_POW_INL_HPP_
#else
#define EBB_KERNELS_MATH_POW_INL_HPP_
#endif

#include <cmath>
#include <limits>

#include "ebb/kernels/math-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace detail {

// 2^(y log2 |x|) in f64, for x and y that came from f32 (so no subnormals in |x|).
template <class D, class V>
HWY_INLINE V pow_double(D d, V abs_x, V y) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = BitCast(du, abs_x);
  const auto offset = Set(du, 0x3fe6a09e667f3bcdull);  // sqrt(1/2)
  // Exponent with a bias of 2048, so that an unsigned shift does; then m in [sqrt.5, sqrt2).
  const auto biased = ShiftRight<52>(Add(Sub(bits, offset), Set(du, 0x7ffull << 52)));
  const auto magic_bits = Set(du, 0x4330000000000000ull);  // 2^52
  const V e = Sub(BitCast(d, Or(biased, magic_bits)), Set(d, 4503599627370496.0 + 2047.0));
  const V m = BitCast(d, Sub(bits, ShiftLeft<52>(Sub(biased, Set(du, 2047)))));
  const V one = Set(d, 1.0);
  const V s = Div(Sub(m, one), Add(m, one));
  const V z = Mul(s, s);
  const V p = horner(d, z, 2.88539008177784963, 0.961796694113949931, 0.577077942201149217,
                     0.412209267792800651, 0.319905104752669957, 0.282908121049843292);
  V log2x = MulAdd(s, p, e);
  const V inf = Set(d, std::numeric_limits<double>::infinity());
  log2x = IfThenElse(Lt(abs_x, inf), log2x, abs_x);
  log2x = IfThenElse(Eq(abs_x, Zero(d)), Neg(inf), log2x);
  const V t = clamp_keep_nan(d, Mul(y, log2x), -200.0, 200.0);
  const V magic = Set(d, 6755399441055744.0);  // 1.5 * 2^52
  const V shifted = Add(t, magic);
  const V r = Sub(t, Sub(shifted, magic));
  const V q = horner(d, r, 0.999999999961627823, 0.693147180728701688, 0.240226511987675368,
                     0.0555041035285352222, 0.00961802716952186376, 0.00133339228315701315,
                     0.000154693184099128357, 0.000015201908577986118);
  const auto n = ShiftLeft<52>(BitCast(du, shifted));
  const V result = BitCast(d, Add(BitCast(du, q), n));
  return IfThenElse(Eq(t, t), result, t);
}

}  // namespace detail

// x^y as C's pow: 1 where y is 0 or x is 1, the sign of odd powers, NaN for a root of a negative.
template <class D, class V>
HWY_INLINE V pow(D d, V x, V y) {
  if constexpr (kIsDouble<D>) {
    HWY_ALIGN double xs[hn::MaxLanes(d)], ys[hn::MaxLanes(d)];
    hn::Store(x, d, xs);
    hn::Store(y, d, ys);
    for (size_t i = 0; i < hn::Lanes(d); ++i) xs[i] = std::pow(xs[i], ys[i]);
    return hn::Load(d, xs);
  } else {
    const hn::Half<D> dh;
    const hn::RepartitionToWide<D> dw;
    const V a = Abs(x);
    const auto low = detail::pow_double(dw, hn::PromoteTo(dw, hn::LowerHalf(a)),
                                        hn::PromoteTo(dw, hn::LowerHalf(y)));
    const auto high = detail::pow_double(dw, hn::PromoteTo(dw, hn::UpperHalf(dh, a)),
                                         hn::PromoteTo(dw, hn::UpperHalf(dh, y)));
    V p = hn::Combine(d, hn::DemoteTo(dh, high), hn::DemoteTo(dh, low));
    // y is an odd integer where it is an integer and its half is not; from 2^24 on all are even.
    const V one = Set(d, 1.0f), half = Mul(y, Set(d, 0.5f));
    const auto whole = Eq(Trunc(y), y);
    const auto odd = And(whole, Ne(Trunc(half), half));
    const V sign = Xor(x, a);
    p = IfThenElse(odd, Or(p, sign), p);
    const V inf = Set(d, std::numeric_limits<float>::infinity());
    const auto negative = And(Lt(x, Zero(d)), Gt(x, Neg(inf)));
    p = IfThenElse(AndNot(whole, negative), NaN(d), p);
    const auto unit = Or(Eq(x, one), Eq(y, Zero(d)));
    const auto minus_one = And(Eq(a, one), Eq(Abs(y), inf));  // (-1)^inf is 1
    return IfThenElse(Or(unit, minus_one), one, p);
  }
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_MATH_POW_INL_HPP_
