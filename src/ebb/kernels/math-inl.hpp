// Elementary functions on Highway vectors, the same bits on every target that has FMA.
//
// f32: a range reduction and a minimax polynomial, no tables and (but for huge angles) no branches;
// at most 2 to 4 ulp over all finite arguments, exact at 0, infinities, NaN and subnormals. The
// figures are asserted in tests/kernels/math_test.cpp.
// f64 is there for references and gradient checks: each lane goes through the C library.
//
// Every function is a pure function of its lane: a value has one result wherever it stands. D is a
// Highway tag or a WideTag (several vectors in step; not for Pow), V its vector.

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
HWY_INLINE V PerLane(D d, V x, F f) {
  using T = LaneOf<D>;
  HWY_ALIGN T lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = f(lanes[i]);
  return hn::Load(d, lanes);
}
template <class D, class V, class F>
HWY_INLINE Wide<V> PerLane(WideTag<D>, Wide<V> x, F f) {
  for (std::size_t k = 0; k < kWide; ++k) x.v[k] = PerLane(D(), x.v[k], f);
  return x;
}

// c0 + x * (c1 + x * (c2 + ...))
template <class D, class V>
HWY_INLINE V Horner(D d, V, LaneOf<D> c) {
  return Set(d, c);
}
template <class D, class V, class... Rest>
HWY_INLINE V Horner(D d, V x, LaneOf<D> c, Rest... rest) {
  return MulAdd(x, Horner(d, x, static_cast<LaneOf<D>>(rest)...), Set(d, c));
}

// Limits x to [lo, hi]; a NaN stays. Both x86's min (the second operand where one is NaN) and the
// IEEE minimum (NaN) keep it in this order of operands.
template <class D, class V>
HWY_INLINE V ClampKeepNaN(D d, V x, LaneOf<D> lo, LaneOf<D> hi) {
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
HWY_INLINE V ReduceExp(D d, V x, VecOf<SignedOf<D>>& n) {
  const SignedOf<D> di;
  const V magic = Set(d, kRoundMagic);
  const V t = MulAdd(x, Set(d, kLog2e), magic);
  const V nf = Sub(t, magic);
  n = Sub(BitCast(di, t), BitCast(di, magic));
  return NegMulAdd(nf, Set(d, kLn2Lo), NegMulAdd(nf, Set(d, kLn2Hi), x));
}

// 2^n for n in [-126, 127].
template <class D>
HWY_INLINE VecOf<D> PowerOfTwo(D d, VecOf<SignedOf<D>> n) {
  const SignedOf<D> di;
  return BitCast(d, ShiftLeft<23>(Add(n, Set(di, 127))));
}

// e^r for |r| <= ln2 / 2.
template <class D, class V>
HWY_INLINE V ExpReduced(D d, V r) {
  const V q = Horner(d, r, 0.4999999341f, 0.1666652011f, 0.04166839394f, 0.00836878021f,
                     0.001381448062f);
  return Add(MulAdd(Mul(r, r), q, r), Set(d, 1.0f));
}

// e^x for x in [-104, 89]: down to subnormals and zero, up to infinity.
template <class D, class V>
HWY_INLINE V ExpInRange(D d, V x) {
  VecOf<SignedOf<D>> n;
  const V p = ExpReduced(d, ReduceExp(d, x, n));
  const auto half = ShiftRight<1>(n);  // two factors, so that only the last product rounds
  return Mul(Mul(p, PowerOfTwo(d, half)), PowerOfTwo(d, Sub(n, half)));
}

// e^x for x in [-104, 0], subnormals included, in fewer steps: 2^(n + 64) is always a number, so
// the exponent is added to the bits of the polynomial, and one product takes the 64 away.
template <class D, class V>
HWY_INLINE V ExpNegative(D d, V x) {
  const SignedOf<D> di;
  const V magic = Set(d, kRoundMagic + 64);
  const V t = MulAdd(x, Set(d, kLog2e), magic);
  const V nf = Sub(t, magic);
  const V r = NegMulAdd(nf, Set(d, kLn2Lo), NegMulAdd(nf, Set(d, kLn2Hi), x));
  const V p = ExpReduced(d, r);
  const V raised = BitCast(d, Add(BitCast(di, p), ShiftLeft<23>(BitCast(di, t))));
  return Mul(raised, Set(d, 0x1p-64f));
}

// e^x - 1 for x in [-25, 89].
template <class D, class V>
HWY_INLINE V Expm1InRange(D d, V x) {
  VecOf<SignedOf<D>> n;
  const V r = ReduceExp(d, x, n);
  const V q = Horner(d, r, 0.5000000044f, 0.1666666637f, 0.04166635983f, 0.008333389603f,
                     0.00139407197f, 0.0001984586918f);
  const V p = MulAdd(Mul(r, r), q, r);
  // 2^n (p + 1) - 1, at half size because 2^128 is not a number.
  const V s = PowerOfTwo(d, Sub(n, Set(SignedOf<D>(), 1)));
  const V h = MulAdd(s, p, Sub(s, Set(d, 0.5f)));
  return Add(h, h);
}

// 2^(y + raise) where that lies in [2^-126, 2^128]; at the upper end it is infinity. In fewer steps
// than e^x, for where absolute accuracy is enough: the rounding of a large y shows. (Some NaNs
// become numbers.)
template <class D, class V>
HWY_INLINE V Exp2(D d, V y, float raise = 0) {
  const SignedOf<D> di;
  const V magic = Set(d, kRoundMagic + raise);
  const V t = Add(y, magic);
  const V p = Horner(d, Sub(y, Sub(t, magic)), 1.0f, 0.6931472154f, 0.2402265281f, 0.05550309706f,
                     0.009617689292f, 0.001340695078f, 0.0001559548891f);
  return BitCast(d, Add(BitCast(di, p), ShiftLeft<23>(BitCast(di, t))));
}

// The exponent e (as a float) and m in [sqrt(1/2), sqrt(2)) of x = 2^e m, for normal x.
template <class D, class V>
HWY_INLINE V SplitExponent(D d, V x, V& m, VecOf<SignedOf<D>>& e) {
  const SignedOf<D> di;
  const auto bits = BitCast(di, x);
  e = ShiftRight<23>(Sub(bits, Set(di, 0x3f3504f3)));
  m = BitCast(d, Sub(bits, ShiftLeft<23>(e)));
  return ConvertTo(d, e);
}

// e ln2 + log(1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1].
template <class D, class V>
HWY_INLINE V LogReduced(D d, V e, V f) {
  const V p = Horner(d, f, 0.3333333171f, -0.2500082105f, 0.2000122715f, -0.16623357f,
                     0.1420175124f, -0.1316017923f, 0.1276162131f, -0.07634557562f);
  const V f2 = Mul(f, f);
  V y = Mul(Mul(f, f2), p);
  y = MulAdd(e, Set(d, kLn2Lo), y);
  y = NegMulAdd(f2, Set(d, 0.5f), y);
  return MulAdd(e, Set(d, kLn2Hi), Add(f, y));
}

// Values of log where the reduction has none: -inf at zero, NaN below, x itself at inf and NaN.
template <class D, class V>
HWY_INLINE V LogSpecial(D d, V x, V result) {
  const V inf = Set(d, std::numeric_limits<float>::infinity());
  const V zero = Zero(d);
  result = IfThenElse(Lt(x, inf), result, x);
  result = IfThenElse(Lt(x, zero), NaN(d), result);
  return IfThenElse(Eq(x, zero), Neg(inf), result);
}

// log(1 + y) for y in [0, 1], as 2 atanh(y / (2 + y)).
template <class D, class V>
HWY_INLINE V Log1pUnit(D d, V y) {
  const V s = Div(y, Add(y, Set(d, 2.0f)));
  const V z = Mul(s, s);
  const V p = Horner(d, z, 0.6666641632f, 0.4002152544f, 0.2800183035f, 0.2801187898f);
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

// sin(|x| + quarter pi/2), without the sign of x.
template <class D, class V>
HWY_INLINE V SinQuarter(D d, V abs_x, int32_t quarter) {
  const SignedOf<D> di;
  const V magic = Set(d, kRoundMagic);
  const V t = MulAdd(abs_x, Set(d, 0.636619772367581343f), magic);
  const V n = Sub(t, magic);
  V r = NegMulAdd(n, Set(d, kHalfPi1), abs_x);
  r = NegMulAdd(n, Set(d, kHalfPi2), r);
  r = NegMulAdd(n, Set(d, kHalfPi3), r);
  const V z = Mul(r, r);
  const V s = MulAdd(
      Mul(r, z), Horner(d, z, -0.1666665491f, 0.00833217585f, -0.0001951697785f), r);
  const V c = MulAdd(
      Mul(z, z), Horner(d, z, 0.04166664681f, -0.00138873645f, 2.4438092e-5f),
      NegMulAdd(z, Set(d, 0.5f), Set(d, 1.0f)));
  const auto q = Add(BitCast(di, t), Set(di, quarter));
  const auto odd = Eq(And(q, Set(di, 1)), Set(di, 1));
  const V sign = BitCast(d, ShiftLeft<30>(And(q, Set(di, 2))));
  return Xor(IfThenElse(RebindMask(d, odd), c, s), sign);
}

// The upper tail of the normal distribution, erfc(t / sqrt2) / 2 for t in [0, 40], in two factors:
// gauss = e^(-t^2 / 2), and the result, which varies slowly.
template <class D, class V>
HWY_INLINE V NormalTailFactor(D d, V t, V& gauss) {
  const V half = Set(d, 0.5f);
  const V square = Mul(t, t);
  const V rest = MulSub(t, t, square);  // what the square lost; it counts where t is large
  gauss = ExpNegative(d, Max(Set(d, -104.0f), Mul(square, Set(d, -0.5f))));
  gauss = NegMulAdd(Mul(half, rest), gauss, gauss);
  // In z = t / (t + 3), which is small and sharp where t is, times 1 - z, which decays with it.
  const V r = Div(Set(d, 1.0f), Add(t, Set(d, 3.0f)));
  const V p = Horner(d, Mul(t, r), 0.5000000258f * 3, -0.6968302206f * 3, 0.3564196658f * 3,
                     0.06847058404f * 3, -0.08504979782f * 3, -0.03897676757f * 3,
                     -9.585164166e-5f * 3, 0.05145953887f * 3, -0.02244072082f * 3);
  return Mul(r, p);
}

// For v: e = exp(-|v|) and r = 1 / (1 + e), of which sigmoid and its derivative are made.
template <class D, class V>
HWY_INLINE V SigmoidParts(D d, V v, V& e) {
  e = ExpNegative(d, Max(Set(d, -104.0f), Or(v, Set(d, -0.0f))));
  return Div(Set(d, 1.0f), Add(e, Set(d, 1.0f)));
}

// sigmoid(v) and its derivative, for v that are sums of a few products: with the absolute accuracy
// of a float near 1, and exactly 0 and 1 far out. f32: v comes times -log2(e), within [-126, inf).
template <class D, class V>
HWY_INLINE V SigmoidAndSlope(D d, V v, V& slope) {
  if constexpr (kIsDouble<D>) {
    const V e = PerLane(d, v, [](double lane) { return std::exp(-std::fabs(lane)); });
    const V r = Div(Set(d, 1.0), Add(e, Set(d, 1.0)));
    const V er = Mul(e, r);
    slope = Mul(er, r);
    return IfThenElse(Lt(v, Zero(d)), er, r);
  } else {
    const V e = Exp2(d, Min(Set(d, 128.0f), v));
    const V r = Div(Set(d, 1.0f), Add(e, Set(d, 1.0f)));
    slope = Mul(Mul(Min(Set(d, std::numeric_limits<float>::max()), e), r), r);
    return r;
  }
}

// The argument whose sigmoid the tanh form of gelu uses: 2 sqrt(2/pi) (x + 0.044715 x^3); in f32
// times -log2(e).
inline constexpr double kGeluTanhA = 1.59576912160573071, kGeluTanhB = 0.0713548162726002488;
template <class D, class V>
HWY_INLINE V GeluTanhArgument(D d, V x) {
  using T = LaneOf<D>;
  constexpr double kScale = kIsDouble<D> ? 1 : -1.44269504088896341;
  const V x2 = Mul(x, x);
  return Mul(x, MulAdd(x2, Set(d, static_cast<T>(kScale * kGeluTanhB)),
                       Set(d, static_cast<T>(kScale * kGeluTanhA))));
}

inline double SigmoidDouble(double x) {
  const double e = std::exp(-std::fabs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}
inline double NormalCdfDouble(double x) { return 0.5 * std::erfc(-x * kSqrtHalf); }

}  // namespace detail

template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return PerLane(d, x, [](double v) { return std::exp(v); });
  } else {
    return detail::ExpInRange(d, ClampKeepNaN(d, x, -104.0f, 89.0f));
  }
}

template <class D, class V>
HWY_INLINE V Expm1(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return PerLane(d, x, [](double v) { return std::expm1(v); });
  } else {
    return CopySign(detail::Expm1InRange(d, ClampKeepNaN(d, x, -25.0f, 89.0f)), x);
  }
}

template <class D, class V>
HWY_INLINE V Log(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return PerLane(d, x, [](double v) { return std::log(v); });
  } else {
    const V one = Set(d, 1.0f);
    V m;
    VecOf<SignedOf<D>> n;
    const V plain_e = detail::SplitExponent(d, x, m, n);
    const V plain = detail::LogReduced(d, plain_e, Sub(m, one));
    const auto subnormal = Lt(x, Set(d, std::numeric_limits<float>::min()));
    const auto below_inf = Lt(x, Set(d, std::numeric_limits<float>::infinity()));
    if (HWY_LIKELY(AllTrue(d, AndNot(subnormal, below_inf)))) return plain;
    const V scaled_e = detail::SplitExponent(d, Mul(x, Set(d, 33554432.0f)), m, n);
    const V scaled = detail::LogReduced(d, Sub(scaled_e, Set(d, 25.0f)), Sub(m, one));
    return detail::LogSpecial(d, x, IfThenElse(subnormal, scaled, plain));
  }
}

template <class D, class V>
HWY_INLINE V Log1p(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return PerLane(d, x, [](double v) { return std::log1p(v); });
  } else {
    const SignedOf<D> di;
    const V one = Set(d, 1.0f);
    const V u = Add(x, one);
    const V lost = Sub(x, Sub(u, one));  // what rounding took from u
    V m;
    VecOf<SignedOf<D>> n;
    const V e = detail::SplitExponent(d, u, m, n);
    // 2^-n, or 0 at the very top, where nothing that was lost counts.
    const V scale = BitCast(d, ShiftLeft<23>(Sub(Set(di, 127), n)));
    const V f = MulAdd(lost, IfThenZeroElse(Gt(u, Set(d, 1.0e30f)), scale),
                           Sub(m, one));
    V result = detail::LogReduced(d, e, f);
    const V inf = Set(d, std::numeric_limits<float>::infinity());
    result = IfThenElse(Lt(x, inf), result, x);
    result = IfThenElse(Lt(u, Zero(d)), NaN(d), result);
    result = IfThenElse(Eq(u, Zero(d)), Neg(inf), result);
    return CopySign(result, x);
  }
}

template <class D, class V>
HWY_INLINE V Sin(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return PerLane(d, x, [](double v) { return std::sin(v); });
  } else {
    const V a = Abs(x);
    const V near = Xor(detail::SinQuarter(d, a, 0), Xor(a, x));
    const auto ok = Le(a, Set(d, detail::kMaxAngle));
    if (HWY_LIKELY(AllTrue(d, ok))) return near;
    const V far = PerLane(d, x, [](float v) {
      return static_cast<float>(std::sin(static_cast<double>(v)));
    });
    return IfThenElse(ok, near, far);
  }
}

template <class D, class V>
HWY_INLINE V Cos(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return PerLane(d, x, [](double v) { return std::cos(v); });
  } else {
    const V a = Abs(x);
    const V near = detail::SinQuarter(d, a, 1);
    const auto ok = Le(a, Set(d, detail::kMaxAngle));
    if (HWY_LIKELY(AllTrue(d, ok))) return near;
    const V far = PerLane(d, x, [](float v) {
      return static_cast<float>(std::cos(static_cast<double>(v)));
    });
    return IfThenElse(ok, near, far);
  }
}

template <class D, class V>
HWY_INLINE V Tanh(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return PerLane(d, x, [](double v) { return std::tanh(v); });
  } else {
    const V a = Min(Set(d, 10.0f), Abs(x));
    const V e = detail::Expm1InRange(d, Add(a, a));
    return CopySign(Div(e, Add(e, Set(d, 2.0f))), x);
  }
}

template <class D, class V>
HWY_INLINE V Erf(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return PerLane(d, x, [](double v) { return std::erf(v); });
  } else {
    const V a = Min(Set(d, 4.0f), Abs(x));
    const V z = Mul(a, a);
    const V small = MulAdd(
        a, Horner(d, z, 0.1283791666f, -0.376126337f, 0.1128369395f, -0.02685927091f,
                  0.005200634523f, -0.0008137439496f, 8.345231746e-5f), a);
    const V exponent = Mul(
        a, Horner(d, a, 1.128648496f, 0.6351512897f, 0.1062369259f, -0.02376210816f,
                  0.003642482184f, -0.0003228099886f, 1.123196176e-5f));
    VecOf<SignedOf<D>> n;
    const V p = detail::ExpReduced(d, detail::ReduceExp(d, Neg(exponent), n));
    const V large = NegMulAdd(p, detail::PowerOfTwo(d, n), Set(d, 1.0f));
    return CopySign(IfThenElse(Gt(a, Set(d, 0.925f)), large, small), x);
  }
}

template <class D, class V>
HWY_INLINE V Sigmoid(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return PerLane(d, x, [](double v) { return detail::SigmoidDouble(v); });
  } else {
    V e;
    const V r = detail::SigmoidParts(d, x, e);
    return IfThenElse(Lt(x, Zero(d)), Mul(e, r), r);
  }
}

// log(1 + e^x).
template <class D, class V>
HWY_INLINE V Softplus(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return PerLane(d, x, [](double v) {
      return std::isnan(v) ? v : std::fmax(v, 0.0) + std::log1p(std::exp(-std::fabs(v)));
    });
  } else {
    const V e = detail::ExpNegative(d, Max(Set(d, -104.0f), Or(x, Set(d, -0.0f))));
    return Add(Max(Zero(d), x), detail::Log1pUnit(d, e));
  }
}

// x Phi(x), Phi the normal distribution function (the erf form).
template <class D, class V>
HWY_INLINE V Gelu(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return PerLane(d, x, [](double v) {
      return v < -40 ? -0.0 : v * detail::NormalCdfDouble(v);
    });
  } else {
    V gauss;
    const V t = Min(Set(d, 40.0f), Abs(x));
    const V factor = detail::NormalTailFactor(d, t, gauss);
    return NegMulAdd(gauss, Mul(t, factor), Max(Zero(d), x));
  }
}

template <class D, class V>
HWY_INLINE V GeluGrad(D d, V x) {
  if constexpr (kIsDouble<D>) {
    return PerLane(d, x, [](double v) {
      const double c = std::fmax(-40.0, std::fmin(40.0, v));
      const double density = detail::kInvSqrt2Pi * std::exp(-0.5 * c * c);
      return std::isnan(v) ? v : detail::NormalCdfDouble(c) + c * density;
    });
  } else {
    // The derivative at -t, as e^(-t^2 / 2) times a polynomial; at t it is 1 less that.
    const V t = Min(Set(d, 16.0f), Abs(x));
    const V y = Mul(Mul(t, t), Set(d, -0.5f * detail::kLog2e));
    const V gauss = Mul(detail::Exp2(d, y, 64), Set(d, 0x1p-64f));  // 0 at the end
    const V below =
        Mul(gauss, Horner(d, t, 0.499999983f, -0.7978828826f, 0.2499725727f, -0.1328057858f,
                          0.06192392871f, -0.02547180949f, 0.009003838106f, -0.002590083993f,
                          0.0005636501461f, -8.477037343e-05f, 7.708698209e-06f,
                          -3.155386468e-07f));
    return IfThenElse(Lt(x, Zero(d)), below, Sub(Set(d, 1.0f), below));
  }
}

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), which is x sigmoid(2 ...).
template <class D, class V>
HWY_INLINE V GeluTanh(D d, V x) {
  const V c = Max(Set(d, LaneOf<D>(-40)), x);
  if constexpr (kIsDouble<D>) {
    return Mul(c, Sigmoid(d, detail::GeluTanhArgument(d, c)));
  } else {
    const V y = ClampKeepNaN(d, detail::GeluTanhArgument(d, c), -126.0f, 128.0f);
    return Div(c, Add(detail::Exp2(d, y), Set(d, 1.0f)));
  }
}

template <class D, class V>
HWY_INLINE V GeluTanhGrad(D d, V x) {
  using T = LaneOf<D>;
  const V c = ClampKeepNaN(d, x, T(-40), T(9));  // from 9 on it is 1
  const V v = detail::GeluTanhArgument(d, c);
  const V slope = MulAdd(Mul(c, c), Set(d, T(3 * detail::kGeluTanhB)),
                             Set(d, T(detail::kGeluTanhA)));
  V sigmoid_slope;
  const V s = detail::SigmoidAndSlope(d, v, sigmoid_slope);
  return MulAdd(Mul(c, slope), sigmoid_slope, s);
}

// x sigmoid(x).
template <class D, class V>
HWY_INLINE V Silu(D d, V x) {
  const V c = Max(Set(d, LaneOf<D>(-800)), x);
  return Mul(c, Sigmoid(d, c));
}

template <class D, class V>
HWY_INLINE V SiluGrad(D d, V x) {
  using T = LaneOf<D>;
  constexpr T kFar = kIsDouble<D> ? 800 : 87;  // in f32, 1 from there on
  const V c = ClampKeepNaN(d, x, kIsDouble<D> ? T(-800) : T(-89), kFar);
  V slope;
  const V v = kIsDouble<D> ? c : Mul(c, Set(d, T(-detail::kLog2e)));
  const V s = detail::SigmoidAndSlope(d, v, slope);
  return MulAdd(c, slope, s);
}

// 1 / sqrt(x), by the two IEEE operations.
template <class D, class V>
HWY_INLINE V Rsqrt(D d, V x) {
  return Div(Set(d, LaneOf<D>(1)), Sqrt(x));
}

namespace detail {

// 2^(y log2 |x|) in f64, for x and y that came from f32 (so no subnormals in |x|).
template <class D, class V>
HWY_INLINE V PowDouble(D d, V abs_x, V y) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = BitCast(du, abs_x);
  const auto offset = Set(du, 0x3fe6a09e667f3bcdull);  // sqrt(1/2)
  // Exponent with a bias of 2048, so that an unsigned shift does; then m in [sqrt.5, sqrt2).
  const auto biased = ShiftRight<52>(
      Add(Sub(bits, offset), Set(du, 0x7ffull << 52)));
  const auto magic_bits = Set(du, 0x4330000000000000ull);  // 2^52
  const V e = Sub(BitCast(d, Or(biased, magic_bits)),
                      Set(d, 4503599627370496.0 + 2047.0));
  const V m = BitCast(
      d, Sub(bits, ShiftLeft<52>(Sub(biased, Set(du, 2047)))));
  const V one = Set(d, 1.0);
  const V s = Div(Sub(m, one), Add(m, one));
  const V z = Mul(s, s);
  const V p = Horner(d, z, 2.88539008177784963, 0.961796694113949931, 0.577077942201149217,
                     0.412209267792800651, 0.319905104752669957, 0.282908121049843292);
  V log2x = MulAdd(s, p, e);
  const V inf = Set(d, std::numeric_limits<double>::infinity());
  log2x = IfThenElse(Lt(abs_x, inf), log2x, abs_x);
  log2x = IfThenElse(Eq(abs_x, Zero(d)), Neg(inf), log2x);
  const V t = ClampKeepNaN(d, Mul(y, log2x), -200.0, 200.0);
  const V magic = Set(d, 6755399441055744.0);  // 1.5 * 2^52
  const V shifted = Add(t, magic);
  const V r = Sub(t, Sub(shifted, magic));
  const V q = Horner(d, r, 0.999999999961627823, 0.693147180728701688, 0.240226511987675368,
                     0.0555041035285352222, 0.00961802716952186376, 0.00133339228315701315,
                     0.000154693184099128357, 0.000015201908577986118);
  const auto n = ShiftLeft<52>(BitCast(du, shifted));
  const V result = BitCast(d, Add(BitCast(du, q), n));
  return IfThenElse(Eq(t, t), result, t);
}

}  // namespace detail

// x^y as C's pow: 1 where y is 0 or x is 1, the sign of odd powers, NaN for a root of a negative.
template <class D, class V>
HWY_INLINE V Pow(D d, V x, V y) {
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
    const auto low = detail::PowDouble(dw, hn::PromoteTo(dw, hn::LowerHalf(a)),
                                       hn::PromoteTo(dw, hn::LowerHalf(y)));
    const auto high = detail::PowDouble(dw, hn::PromoteTo(dw, hn::UpperHalf(dh, a)),
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

#endif  // EBB_KERNELS_MATH_INL_HPP_
