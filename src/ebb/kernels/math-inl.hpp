// Elementary functions on Highway vectors, the same bits on every target that has FMA.
//
// f32: a range reduction and a minimax polynomial, no tables and (but for huge angles) no branches;
// at most 2 to 5 ulp over all finite arguments, exact at 0, infinities, NaN and subnormals. Not so
// near: gelu (6 ulp), gelu_tanh (6, and to 4e-8 where it is below that), the derivatives of gelu,
// gelu_tanh and silu (4 ulp, and to 2.4e-7), and, on targets without FMA, gelu (to 4e-9). The
// figures are asserted in tests/kernels/math_test.cpp.
// f64 is there for references and gradient checks: each lane goes through the C library.
//
// Every function is a pure function of its lane: a value has one result wherever it stands. D is a
// Highway tag or a WideTag (several vectors in step), V its vector.

#if defined(EBB_KERNELS_MATH_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_MATH_INL_HPP_
#undef EBB_KERNELS_MATH_INL_HPP_
#else
#define EBB_KERNELS_MATH_INL_HPP_
#endif

#include <cmath>
#include <cstdint>
#include <limits>

#include "ebb/kernels/wide-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
inline constexpr bool kIsDouble = sizeof(LaneOf<D>) == 8;

// f(lane) for each lane, through memory.
template <class D, class V, class F>
HWY_INLINE V per_lane(D d, V x, F f) {
  using T = LaneOf<D>;
  HWY_ALIGN T lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = f(lanes[i]);
  return hn::Load(d, lanes);
}
template <class D, class V, std::size_t kCount, class F>
HWY_INLINE Wide<V, kCount> per_lane(WideTag<D, kCount>, Wide<V, kCount> x, F f) {
  for (std::size_t k = 0; k < kCount; ++k) x.v[k] = per_lane(D(), x.v[k], f);
  return x;
}

// c0 + x * (c1 + x * (c2 + ...))
template <class D, class V>
HWY_INLINE V horner(D d, V, LaneOf<D> c) {
  return Set(d, c);
}
template <class D, class V, class... Rest>
HWY_INLINE V horner(D d, V x, LaneOf<D> c, Rest... rest) {
  return MulAdd(x, horner(d, x, static_cast<LaneOf<D>>(rest)...), Set(d, c));
}

// Limits x to [lo, hi]; a NaN stays. Both x86's min (the second operand where one is NaN) and the
// IEEE minimum (NaN) keep it in this order of operands.
template <class D, class V>
HWY_INLINE V clamp_keep_nan(D d, V x, LaneOf<D> lo, LaneOf<D> hi) {
  return Max(Set(d, lo), Min(Set(d, hi), x));
}

namespace detail {

inline constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
inline constexpr float kLog2e = 1.44269504088896341f;
inline constexpr float kLn2Hi = 0.693359375f;  // 10 bits: n * kLn2Hi is exact, with or without FMA
inline constexpr float kLn2Lo = -2.12194440054690583e-4f;
inline constexpr double kSqrtHalf = 0.707106781186547524;
inline constexpr double kInvSqrt2Pi = 0.398942280401432678;

// x = n ln2 + r with |r| <= ln2 / 2. For |x| < 2^21.
template <class D, class V>
HWY_INLINE V reduce_exp(D d, V x, VecOf<SignedOf<D>>& n) {
  const SignedOf<D> di;
  const V magic = Set(d, kRoundMagic);
  const V t = MulAdd(x, Set(d, kLog2e), magic);
  const V nf = Sub(t, magic);
  n = Sub(BitCast(di, t), BitCast(di, magic));
  return NegMulAdd(nf, Set(d, kLn2Lo), NegMulAdd(nf, Set(d, kLn2Hi), x));
}

// 2^n for n in [-126, 127].
template <class D>
HWY_INLINE VecOf<D> power_of_two(D d, VecOf<SignedOf<D>> n) {
  const SignedOf<D> di;
  return BitCast(d, ShiftLeft<23>(Add(n, Set(di, 127))));
}

// e^r for |r| <= ln2 / 2.
template <class D, class V>
HWY_INLINE V exp_reduced(D d, V r) {
  const V q =
      horner(d, r, 0.4999999341f, 0.1666652011f, 0.04166839394f, 0.00836878021f, 0.001381448062f);
  return Add(MulAdd(Mul(r, r), q, r), Set(d, 1.0f));
}

// e^x for x in [-104, 89]: down to subnormals and zero, up to infinity.
template <class D, class V>
HWY_INLINE V exp_in_range(D d, V x) {
  VecOf<SignedOf<D>> n;
  const V p = exp_reduced(d, reduce_exp(d, x, n));
  const auto half = ShiftRight<1>(n);  // two factors, so that only the last product rounds
  return Mul(Mul(p, power_of_two(d, half)), power_of_two(d, Sub(n, half)));
}

// 2^64 e^x for x in [-104, 0]. So raised it is never subnormal, and the exponent can be added to
// the bits of the polynomial; who divides by a sum with it takes the 2^64 away for nothing.
inline constexpr float kRaise = 0x1p64f;
template <class D, class V>
HWY_INLINE V exp_raised(D d, V x) {
  const SignedOf<D> di;
  const V magic = Set(d, kRoundMagic + 64);
  const V t = MulAdd(x, Set(d, kLog2e), magic);
  const V nf = Sub(t, magic);
  const V r = NegMulAdd(nf, Set(d, kLn2Lo), NegMulAdd(nf, Set(d, kLn2Hi), x));
  const V p = exp_reduced(d, r);
  return BitCast(d, Add(BitCast(di, p), ShiftLeft<23>(BitCast(di, t))));
}

// 2^64 e^-|x|, with -|x| cut off at -104.
template <class D, class V>
HWY_INLINE V exp_raised_neg_abs(D d, V x) {
  return exp_raised(d, Max(Set(d, -104.0f), Or(x, Set(d, -0.0f))));
}

// 2^-64 e^-c for c in [-120, 42]: so lowered, both ends are normal numbers. (Some NaNs become
// numbers.)
template <class D, class V>
HWY_INLINE V exp_lowered_neg(D d, V c) {
  const SignedOf<D> di;
  const V magic = Set(d, kRoundMagic - 64);
  const V t = NegMulAdd(c, Set(d, kLog2e), magic);
  const V nf = Sub(magic, t);
  const V r = MulSub(nf, Set(d, kLn2Lo), NegMulAdd(nf, Set(d, kLn2Hi), c));
  const V p = exp_reduced(d, r);
  return BitCast(d, Add(BitCast(di, p), ShiftLeft<23>(BitCast(di, t))));
}

// Half of e^x - 1 for x in [-25, 89]: half, because 2^128 is not a number.
template <class D, class V>
HWY_INLINE V half_expm1(D d, V x) {
  const SignedOf<D> di;
  const V magic = Set(d, kRoundMagic + 126);
  const V t = MulAdd(x, Set(d, kLog2e), magic);
  const V nf = Sub(t, magic);
  const V r = NegMulAdd(nf, Set(d, kLn2Lo), NegMulAdd(nf, Set(d, kLn2Hi), x));
  const V r2 = Mul(r, r);
  const V high = MulAdd(r2, horner(d, r, 0.00139407197f, 0.0001984586918f),
                        horner(d, r, 0.04166635983f, 0.008333389603f));
  const V q = MulAdd(r2, high, horner(d, r, 0.5000000044f, 0.1666666637f));
  const V p = MulAdd(r2, q, r);
  const V s = BitCast(d, ShiftLeft<23>(BitCast(di, t)));  // 2^(n - 1)
  return MulAdd(s, p, Sub(s, Set(d, 0.5f)));
}

// 2^r for |r| <= 1/2.
template <class D, class V>
HWY_INLINE V exp2_reduced(D d, V r) {
  return horner(d, r, 1.0f, 0.6931472154f, 0.2402265281f, 0.05550309706f, 0.009617689292f,
                0.001340695078f, 0.0001559548891f);
}

// 2^(y + raise) where that lies in [2^-126, 2^128]; at the upper end it is infinity. In fewer steps
// than e^x, for where absolute accuracy is enough: the rounding of a large y shows. (Some NaNs
// become numbers.)
template <class D, class V>
HWY_INLINE V exp2(D d, V y, float raise = 0) {
  const SignedOf<D> di;
  const V magic = Set(d, kRoundMagic + raise);
  const V t = Add(y, magic);
  const V p = exp2_reduced(d, Sub(y, Sub(t, magic)));
  return BitCast(d, Add(BitCast(di, p), ShiftLeft<23>(BitCast(di, t))));
}

// m in [sqrt(1/2), sqrt(2)) and the exponent e of x = 2^e m, for normal x. e stays where it stands
// in the bits: it comes times kExponentUnit.
inline constexpr float kExponentUnit = 0x1p23f;
template <class D, class V>
HWY_INLINE VecOf<SignedOf<D>> split_exponent(D d, V x, V& m) {
  const SignedOf<D> di;
  const auto bits = BitCast(di, x);
  const auto e = And(Sub(bits, Set(di, 0x3f3504f3)), Set(di, -0x00800000));
  m = BitCast(d, Sub(bits, e));
  return e;
}

// e ln2 + log(1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1]. With s = f / (2 + f), log(1 + f) is
// 2 atanh(s), which is f - s f + s^3 p(s^2). The division costs less than a longer polynomial.
template <class D, class V>
HWY_INLINE V log_reduced(D d, VecOf<SignedOf<D>> exponent, V f) {
  const V e = ConvertTo(d, exponent);
  const V s = Div(f, Add(f, Set(d, 2.0f)));
  const V z = Mul(s, s);
  const V p = horner(d, z, 0.6666677642f, 0.3997752811f, 0.2987228139f);
  const V near = NegMulAdd(s, f, Mul(e, Set(d, kLn2Lo / kExponentUnit)));
  return Add(MulAdd(e, Set(d, kLn2Hi / kExponentUnit), f), MulAdd(Mul(s, z), p, near));
}

// Values of log where the reduction has none: -inf at zero, NaN below, x itself at inf and NaN.
template <class D, class V>
HWY_INLINE V log_special(D d, V x, V result) {
  const V inf = Set(d, std::numeric_limits<float>::infinity());
  const V zero = Zero(d);
  result = IfThenElse(Lt(x, inf), result, x);
  result = IfThenElse(Lt(x, zero), NaN(d), result);
  return IfThenElse(Eq(x, zero), Neg(inf), result);
}

// log(1 + y) for y in [0, 1], as 2 atanh(y / (2 + y)). y comes times kRaise.
template <class D, class V>
HWY_INLINE V log1p_unit(D d, V y) {
  const V s = Div(y, Add(y, Set(d, 2 * kRaise)));
  const V z = Mul(s, s);
  const V p = horner(d, z, 0.6666641632f, 0.4002152544f, 0.2800183035f, 0.2801187898f);
  return MulAdd(Mul(s, z), p, Add(s, s));
}

// Angles up to here are reduced in f32 by three parts of pi/2; beyond, lanes go through the C
// library in f64. Without FMA the parts must be short enough for exact products.
#if HWY_NATIVE_FMA
inline constexpr float kMaxAngle = 1.0e5f;
inline constexpr float kHalfPi1 = 1.57079637050628662f, kHalfPi2 = -4.37113882867379289e-8f,
                       kHalfPi3 = -1.71512449944288281e-15f;
#else
inline constexpr float kMaxAngle = 6000.0f;
inline constexpr float kHalfPi1 = 1.5703125f, kHalfPi2 = 4.837512969970703125e-4f,
                       kHalfPi3 = 7.54978995489188216e-8f;
#endif

// sin(r) for |r| <= pi/2.
template <class D, class V>
HWY_INLINE V sin_reduced(D d, V r) {
  const V z = Mul(r, r);
  const V p = horner(d, z, -0.1666665954f, 0.008333066083f, -0.0001980959013f, 2.605750762e-06f);
  return MulAdd(Mul(r, z), p, r);
}

// x - n pi/2, for |x| <= kMaxAngle.
template <class D, class V>
HWY_INLINE V sub_half_pi(D d, V x, V n) {
  V r = NegMulAdd(n, Set(d, kHalfPi1), x);
  r = NegMulAdd(n, Set(d, kHalfPi2), r);
  return NegMulAdd(n, Set(d, kHalfPi3), r);
}

// sin(|x|): |x| = n pi + r, and the sign changes with every n.
template <class D, class V>
HWY_INLINE V sin_abs(D d, V abs_x) {
  const SignedOf<D> di;
  const V magic = Set(d, kRoundMagic);
  const V t = MulAdd(abs_x, Set(d, 0.318309886183790672f), magic);
  const V n = Sub(t, magic);
  const V s = sin_reduced(d, sub_half_pi(d, abs_x, Add(n, n)));
  return Xor(s, BitCast(d, ShiftLeft<31>(BitCast(di, t))));
}

// cos(|x|): |x| = n pi/2 + r; exact at 0, which a shifted sine is not.
template <class D, class V>
HWY_INLINE V cos_abs(D d, V abs_x) {
  const SignedOf<D> di;
  const V magic = Set(d, kRoundMagic);
  const V t = MulAdd(abs_x, Set(d, 0.636619772367581343f), magic);
  const V r = sub_half_pi(d, abs_x, Sub(t, magic));
  const V z = Mul(r, r);
  const V s = MulAdd(Mul(r, z), horner(d, z, -0.1666665491f, 0.00833217585f, -0.0001951697785f), r);
  const V c = MulAdd(Mul(z, z), horner(d, z, 0.04166664681f, -0.00138873645f, 2.4438092e-5f),
                     NegMulAdd(z, Set(d, 0.5f), Set(d, 1.0f)));
  const auto q = Add(BitCast(di, t), Set(di, 1));
  const auto odd = Eq(And(q, Set(di, 1)), Set(di, 1));
  const V sign = BitCast(d, ShiftLeft<30>(And(q, Set(di, 2))));
  return Xor(IfThenElse(RebindMask(d, odd), c, s), sign);
}

// t erfc(t / sqrt2) / 2 for t in [0, 15.5], where it has become 0: e^(-t^2 / 2) t N(t) / D(t). The
// quotient also makes up for the rounding of log2(e), which shows where the square is large.
template <class D, class V>
HWY_INLINE V normal_tail_moment(D d, V t) {
  const V square = Mul(t, t);
#if HWY_NATIVE_FMA
  // 2^(64 - t^2 log2(e) / 2), with what the square lost: it shows where it is large.
  const SignedOf<D> di;
  const V half_log2e = Set(d, 0.5f * kLog2e), magic = Set(d, kRoundMagic + 64);
  const V shifted = NegMulAdd(square, half_log2e, magic);
  const V near = NegMulAdd(square, half_log2e, Sub(magic, shifted));
  const V p = exp2_reduced(d, NegMulAdd(MulSub(t, t, square), half_log2e, near));
  const V gauss = BitCast(d, Add(BitCast(di, p), ShiftLeft<23>(BitCast(di, shifted))));
#else
  const V gauss = exp_raised(d, Max(Set(d, -104.0f), Mul(square, Set(d, -0.5f))));
#endif
  const V n = horner(d, t, 45.9807360833f / kRaise, 40.9064335769f / kRaise,
                     17.2815647229f / kRaise, 3.87886997669f / kRaise, 0.398941152243f / kRaise);
  const V leading = Add(t, Set(d, 9.72310959819f));
  const V upper = MulAdd(t, MulAdd(t, leading, Set(d, 44.309683027f)), Set(d, 112.403602146f));
  const V denominator = MulAdd(t, MulAdd(t, upper, Set(d, 155.187553867f)), Set(d, 91.9614714787f));
  return Mul(Mul(gauss, t), Div(n, denominator));  // the division need not wait for the power
}

// sigmoid(v) and its derivative, for v that are sums of a few products: with the absolute accuracy
// of a float near 1, and exactly 0 and 1 far out. f32: v comes times -log2(e), within [-126, inf).
template <class D, class V>
HWY_INLINE V sigmoid_and_slope(D d, V v, V& slope) {
  if constexpr (kIsDouble<D>) {
    const V e = per_lane(d, v, [](double lane) { return std::exp(-std::fabs(lane)); });
    const V r = Div(Set(d, 1.0), Add(e, Set(d, 1.0)));
    const V er = Mul(e, r);
    slope = Mul(er, r);
    return IfThenElse(Lt(v, Zero(d)), er, r);
  } else {
    const V e = exp2(d, Min(Set(d, 128.0f), v));
    const V r = Div(Set(d, 1.0f), Add(e, Set(d, 1.0f)));
    slope = Mul(Mul(Min(Set(d, std::numeric_limits<float>::max()), e), r), r);
    return r;
  }
}

// The argument whose sigmoid the tanh form of gelu uses: 2 sqrt(2/pi) (x + 0.044715 x^3); in f32
// times -log2(e).
inline constexpr double kGeluTanhA = 1.59576912160573071, kGeluTanhB = 0.0713548162726002488;
template <class D, class V>
HWY_INLINE V gelu_tanh_argument(D d, V x) {
  using T = LaneOf<D>;
  constexpr double kScale = kIsDouble<D> ? 1 : -1.44269504088896341;
  const V x2 = Mul(x, x);
  return Mul(x, MulAdd(x2, Set(d, static_cast<T>(kScale * kGeluTanhB)),
                       Set(d, static_cast<T>(kScale * kGeluTanhA))));
}

inline double sigmoid_double(double x) {
  const double e = std::exp(-std::fabs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}
inline double normal_cdf_double(double x) { return 0.5 * std::erfc(-x * kSqrtHalf); }

}  // namespace detail

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return per_lane(d, x, [](double v) { return std::exp(v); });
  } else {
    return detail::exp_in_range(d, clamp_keep_nan(d, x, -104.0f, 89.0f));
  }
}

template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return per_lane(d, x, [](double v) { return std::expm1(v); });
  } else {
    const V half = detail::half_expm1(d, clamp_keep_nan(d, x, -25.0f, 89.0f));
    return CopySign(Add(half, half), x);
  }
}

template <class D, class V>
HWY_INLINE V log(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return per_lane(d, x, [](double v) { return std::log(v); });
  } else {
    const SignedOf<D> di;
    const V one = Set(d, 1.0f);
    V m;
    // Positive normal numbers are the bits from 0x00800000 to 0x7f7fffff. Moved so that they begin
    // at the lowest integer, one comparison tells them from all others.
    const auto moved = Add(BitCast(di, x), Set(di, 0x7f800000));
    if (HWY_LIKELY(AllTrue(di, Lt(moved, Set(di, -0x01000000))))) {
      const auto e = detail::split_exponent(d, x, m);
      return detail::log_reduced(d, e, Sub(m, one));
    }
    const auto subnormal = Lt(x, Set(d, std::numeric_limits<float>::min()));
    const V up = IfThenElse(subnormal, Set(d, 0x1p25f), one);
    const auto e = detail::split_exponent(d, Mul(x, up), m);
    const auto back = IfThenElseZero(RebindMask(di, subnormal), Set(di, 25 << 23));
    return detail::log_special(d, x, detail::log_reduced(d, Sub(e, back), Sub(m, one)));
  }
}

template <class D, class V>
HWY_INLINE V log1p(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return per_lane(d, x, [](double v) { return std::log1p(v); });
  } else {
    const SignedOf<D> di;
    const V one = Set(d, 1.0f);
    const V u = Add(x, one);
    const V lost = Sub(x, Sub(u, one));  // what rounding took from u
    V m;
    const auto e = detail::split_exponent(d, u, m);
    // 2^-e, or 0 at the very top, where nothing that was lost counts.
    const V scale = BitCast(d, Sub(Set(di, 0x3f800000), e));
    const V f = MulAdd(lost, IfThenZeroElse(Gt(u, Set(d, 1.0e30f)), scale), Sub(m, one));
    V result = detail::log_reduced(d, e, f);
    const V inf = Set(d, std::numeric_limits<float>::infinity());
    result = IfThenElse(Lt(x, inf), result, x);
    result = IfThenElse(Lt(u, Zero(d)), NaN(d), result);
    result = IfThenElse(Eq(u, Zero(d)), Neg(inf), result);
    return CopySign(result, x);
  }
}

template <class D, class V>
HWY_INLINE V sin(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return per_lane(d, x, [](double v) { return std::sin(v); });
  } else {
    const V a = Abs(x);
    const V near = Xor(detail::sin_abs(d, a), Xor(a, x));
    const auto ok = Le(a, Set(d, detail::kMaxAngle));
    if (HWY_LIKELY(AllTrue(d, ok))) return near;
    const V far = per_lane(
        d, x, [](float v) { return static_cast<float>(std::sin(static_cast<double>(v))); });
    return IfThenElse(ok, near, far);
  }
}

template <class D, class V>
HWY_INLINE V cos(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return per_lane(d, x, [](double v) { return std::cos(v); });
  } else {
    const V a = Abs(x);
    const V near = detail::cos_abs(d, a);
    const auto ok = Le(a, Set(d, detail::kMaxAngle));
    if (HWY_LIKELY(AllTrue(d, ok))) return near;
    const V far = per_lane(
        d, x, [](float v) { return static_cast<float>(std::cos(static_cast<double>(v))); });
    return IfThenElse(ok, near, far);
  }
}

template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return per_lane(d, x, [](double v) { return std::tanh(v); });
  } else {
    // c N(c^2) / D(c^2), which has reached 1 where c is cut off. All coefficients are positive, so
    // that only roundings show: up to 5 ulp, for two thirds of the work of 3 (decision 0016).
    const V c = clamp_keep_nan(d, x, -9.3f, 9.3f), z = Mul(c, c), z2 = Mul(z, z);
    const V n =
        MulAdd(z2, MulAdd(z2, Set(d, 0.0171592757f), horner(d, z, 4501.45605f, 26.5182133f)),
               horner(d, z, 1288326.12f, 172374.453f));
    const V m = MulAdd(z2, Add(z2, horner(d, z, 33330.3867f, 422.969269f)),
                       horner(d, z, 1288326.12f, 601816.312f));
    return clamp_keep_nan(d, Div(Mul(c, n), m), -1.0f, 1.0f);
  }
}

template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return per_lane(d, x, [](double v) { return std::erf(v); });
  } else {
    // a N(a^2) / D(a^2); from 1.2 on 1 - 1 / u(a)^8. One division serves both. The first rounds in
    // each of N, D, the product and the quotient: so up to 3 ulp, for half the work of 1 ulp.
    const V a = Min(Set(d, 4.0f), Abs(x));
    const V z = Mul(a, a), one = Set(d, 1.0f);
    const V n = horner(d, z, 217.1918464f, 21.87171011f, 6.44894443f);
    const V leading = Add(z, Set(d, 14.31509205f));
    const V m = MulAdd(z, MulAdd(z, leading, Set(d, 83.54370734f)), Set(d, 192.4812626f));
    const V u = horner(d, a, 1.021984285f, 0.05210657918f, 0.2399069574f, -0.1121149243f,
                       0.07433793941f, -0.01895935313f, 0.002872348656f);
    const V u2 = Mul(u, u), u4 = Mul(u2, u2);
    const auto far = Gt(a, Set(d, 1.2f));
    const V q = Div(IfThenElse(far, one, Mul(a, n)), IfThenElse(far, Mul(u4, u4), m));
    return CopySign(IfThenElse(far, Sub(one, q), q), x);
  }
}

template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return per_lane(d, x, [](double v) { return detail::sigmoid_double(v); });
  } else {
    // 1 / (1 + e^-x), with 2^-64 for 1. From 42 on nothing is added, below -104 nothing is left.
    // The power may make a number of a NaN; the numerator does not.
    const V low = Set(d, 1 / detail::kRaise), c = clamp_keep_nan(d, x, -120.0f, 42.0f);
    return Div(MulAdd(c, Zero(d), low), Add(detail::exp_lowered_neg(d, c), low));
  }
}

// log(1 + e^x).
template <class D, class V>
HWY_INLINE V softplus(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return per_lane(d, x, [](double v) {
      return std::isnan(v) ? v : std::fmax(v, 0.0) + std::log1p(std::exp(-std::fabs(v)));
    });
  } else {
    return Add(Max(Zero(d), x), detail::log1p_unit(d, detail::exp_raised_neg_abs(d, x)));
  }
}

// x Phi(x), Phi the normal distribution function (the erf form).
template <class D, class V>
HWY_INLINE V gelu(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return per_lane(d, x,
                    [](double v) { return v < -40 ? -0.0 : v * detail::normal_cdf_double(v); });
  } else {
    const V t = Min(Set(d, 15.5f), Abs(x));
    return Sub(Max(Zero(d), x), detail::normal_tail_moment(d, t));
  }
}

template <class D, class V>
HWY_INLINE V gelu_grad(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return per_lane(d, x, [](double v) {
      const double c = std::fmax(-40.0, std::fmin(40.0, v));
      const double density = detail::kInvSqrt2Pi * std::exp(-0.5 * c * c);
      return std::isnan(v) ? v : detail::normal_cdf_double(c) + c * density;
    });
  } else {
    // The derivative at -t is e^(-t^2 / 2) N(t) / D(t); at t it is 1 less that.
    constexpr float kDown = 1 / detail::kRaise;
    const V t = Min(Set(d, 16.0f), Abs(x));
    const V y = Mul(Mul(t, t), Set(d, -0.5f * detail::kLog2e));
    const V gauss = detail::exp2(d, y, 64);
    const V n = horner(d, t, 7.32421413f * kDown, -3.53698793f * kDown, -6.04248101f * kDown,
                       -2.64219814f * kDown, -0.398507467f * kDown);
    const V leading = Add(t, Set(d, 6.60424655f));
    const V m = MulAdd(t, MulAdd(t, leading, Set(d, 16.301538f)), Set(d, 14.6484282f));
    const V below = Mul(gauss, Div(n, m));  // 0 at the end
    return IfThenElse(Lt(x, Zero(d)), below, Sub(Set(d, 1.0f), below));
  }
}

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), which is x sigmoid(2 ...).
template <class D, class V>
HWY_INLINE V gelu_tanh(D d, V x) {
  const V c = Max(Set(d, LaneOf<D>(-40)), x);
  if constexpr (kIsDouble<D>) {
    return Mul(c, sigmoid(d, detail::gelu_tanh_argument(d, c)));
  } else {
    const V y = clamp_keep_nan(d, detail::gelu_tanh_argument(d, c), -126.0f, 128.0f);
    return Div(c, Add(detail::exp2(d, y), Set(d, 1.0f)));
  }
}

template <class D, class V>
HWY_INLINE V gelu_tanh_grad(D d, V x) {
  using T = LaneOf<D>;
  const V c = clamp_keep_nan(d, x, T(-40), T(9));  // from 9 on it is 1
  const V v = detail::gelu_tanh_argument(d, c);
  const V slope =
      MulAdd(Mul(c, c), Set(d, T(3 * detail::kGeluTanhB)), Set(d, T(detail::kGeluTanhA)));
  V sigmoid_slope;
  const V s = detail::sigmoid_and_slope(d, v, sigmoid_slope);
  return MulAdd(Mul(c, slope), sigmoid_slope, s);
}

// x sigmoid(x).
template <class D, class V>
HWY_INLINE V silu(D d, V x) {
  const V c = Max(Set(d, LaneOf<D>(-800)), x);
  return Mul(c, sigmoid(d, c));
}

template <class D, class V>
HWY_INLINE V silu_grad(D d, V x) {
  using T = LaneOf<D>;
  constexpr T kFar = kIsDouble<D> ? 800 : 87;  // in f32, 1 from there on
  const V c = clamp_keep_nan(d, x, kIsDouble<D> ? T(-800) : T(-89), kFar);
  V slope;
  const V v = kIsDouble<D> ? c : Mul(c, Set(d, T(-detail::kLog2e)));
  const V s = detail::sigmoid_and_slope(d, v, slope);
  return MulAdd(c, slope, s);
}

// 1 / sqrt(x), by the two IEEE operations.
template <class D, class V>
HWY_INLINE V rsqrt(D d, V x) {
  return Div(Set(d, LaneOf<D>(1)), Sqrt(x));
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_MATH_INL_HPP_
