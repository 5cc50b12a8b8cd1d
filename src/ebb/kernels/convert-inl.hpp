// 16-bit floats to f32 vectors and back, with the bits of ebb/base/half.hpp on every target.

#if defined(EBB_KERNELS_CONVERT_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_CONVERT_INL_HPP_
#undef EBB_KERNELS_CONVERT_INL_HPP_
#else
#define EBB_KERNELS_CONVERT_INL_HPP_
#endif

#include <cstddef>
#include <cstdint>

#include "ebb/base/half.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// load_half: Lanes(d) values from p, widened. half_bits: v narrowed, as the bits of the type that
// the pointer names. d is a tag of floats.
template <class D>
HWY_INLINE hn::Vec<D> load_half(D d, const bf16* p) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}

// The bits of bf16 in the upper halves of the lanes; what is below them does not count.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> round_to_upper_half(D, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
}

template <class D>
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> half_bits(D d, hn::Vec<D> v, const bf16*) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToSigned<D> di;
  const auto result = hn::ShiftRight<16>(round_to_upper_half(d, v));
  return hn::DemoteTo(d16, hn::BitCast(di, result));
}

// A whole vector of bf16 as two of floats, the even elements and the odd ones, and back. Where the
// order of lanes is of no account this takes half the steps: nothing moves from lane to lane.
template <class D>
HWY_INLINE void load_even_odd(D d, const bf16* p, hn::Vec<D>& even, hn::Vec<D>& odd) {
  const hn::RebindToUnsigned<D> du;
  const hn::Repartition<std::uint16_t, D> d16;
  const auto both = hn::BitCast(du, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
  even = hn::BitCast(d, hn::ShiftLeft<16>(both));
  odd = hn::BitCast(d, hn::And(both, hn::Set(du, 0xffff0000u)));
}

template <class D>
HWY_INLINE hn::Vec<hn::Repartition<std::uint16_t, D>> even_odd_bits(D d, hn::Vec<D> even,
                                                                    hn::Vec<D> odd) {
  const hn::Repartition<std::uint16_t, D> d16;
  return hn::OddEven(hn::BitCast(d16, round_to_upper_half(d, odd)),
                     hn::BitCast(d16, hn::ShiftRight<16>(round_to_upper_half(d, even))));
}

#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86 && !defined(HWY_DISABLE_F16C)

template <class D>
HWY_INLINE hn::Vec<D> load_half(D d, const f16* p) {
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}

template <class D>
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> half_bits(D, hn::Vec<D> v, const f16*) {
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::BitCast(hn::Rebind<std::uint16_t, D>(), hn::DemoteTo(d16, v));
}

#else

template <class D>
HWY_INLINE hn::Vec<D> load_half(D d, const f16* p) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::PromoteTo(du, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fff));
  const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(du, 112u << 23));
  const auto small =
      hn::Mul(hn::ConvertTo(d, hn::BitCast(di, magnitude)), hn::Set(d, 5.9604644775390625e-8f));
  const auto special = hn::Or(hn::ShiftLeft<13>(magnitude), hn::Set(du, 0x7f800000u));
  const auto quiet = hn::Or(special, hn::Set(du, 0x400000u));
  const auto is_small = hn::Lt(magnitude, hn::Set(du, 0x400));
  auto result = hn::IfThenElse(is_small, hn::BitCast(du, small), normal);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7bff)), special, result);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7c00)), quiet, result);
  return hn::BitCast(d, hn::Or(result, sign));
}

template <class D>
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> half_bits(D d, hn::Vec<D> v, const f16*) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(du, v);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffff));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1));
  const auto normal = hn::ShiftRight<13>(
      hn::Sub(hn::Add(hn::Add(magnitude, hn::Set(du, 0xfff)), odd), hn::Set(du, 0x38000000)));
  // Below 2^-14, adding 0.5 rounds at the right bit.
  const auto small = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f))),
                             hn::Set(du, 0x3f000000));
  const auto nan =
      hn::Or(hn::Set(du, 0x7e00), hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x1ff)));
  auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x38800000)), small, normal);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477fefff)), hn::Set(du, 0x7c00), result);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7f800000)), nan, result);
  return hn::DemoteTo(d16, hn::BitCast(di, hn::Or(result, sign)));
}

#endif

template <class D, class Half>
HWY_INLINE void store_half(hn::Vec<D> v, D d, Half* p) {
  const hn::Rebind<std::uint16_t, D> d16;
  hn::StoreU(half_bits(d, v, p), d16, reinterpret_cast<std::uint16_t*>(p));
}

// n values widened into a buffer of floats, and back. The last few go through the same vectors.
template <class Half>
HWY_INLINE void widen_block(const Half* from, float* to, std::size_t n) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(load_half(d, from + i), d, to + i);
  if (i == n) return;
  Half in[hn::MaxLanes(d)] = {};
  HWY_ALIGN float out[hn::MaxLanes(d)];
  for (std::size_t k = 0; i + k < n; ++k) in[k] = from[i + k];
  hn::Store(load_half(d, in), d, out);
  for (std::size_t k = 0; i + k < n; ++k) to[i + k] = out[k];
}

template <class Half>
HWY_INLINE void narrow_block(const float* from, Half* to, std::size_t n) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) store_half(hn::LoadU(d, from + i), d, to + i);
  if (i == n) return;
  HWY_ALIGN float in[hn::MaxLanes(d)] = {};
  Half out[hn::MaxLanes(d)];
  for (std::size_t k = 0; i + k < n; ++k) in[k] = from[i + k];
  store_half(hn::Load(d, in), d, out);
  for (std::size_t k = 0; i + k < n; ++k) to[i + k] = out[k];
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_CONVERT_INL_HPP_
