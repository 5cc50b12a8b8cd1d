// Several vectors taken through the same function side by side.
//
// A polynomial is a chain in which each step waits for the one before; with several vectors in
// step, the machine always has something ready to do. Lane by lane the arithmetic is that of one
// vector. How many is a matter of registers: kWide for long chains with little beside them, fewer
// for short ones that hold more values at a time.
//
// Functions written in unqualified Highway operations (found by their arguments) take either kind.

#if defined(EBB_KERNELS_WIDE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_WIDE_INL_HPP_
#undef EBB_KERNELS_WIDE_INL_HPP_
#else
#define EBB_KERNELS_WIDE_INL_HPP_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kWide = 4;

template <class D, std::size_t kCount = kWide>
struct WideTag {};
template <class V, std::size_t kCount>  // V: a vector or a mask
struct Wide {
  V v[kCount];
};

// What belongs to a tag, plain or wide.
template <class D>
struct TagTraits {
  using Vec = hn::Vec<D>;
  using Lane = hn::TFromD<D>;
  using Signed = hn::RebindToSigned<D>;
};
template <class D, std::size_t kCount>
struct TagTraits<WideTag<D, kCount>> {
  using Vec = Wide<hn::Vec<D>, kCount>;
  using Lane = hn::TFromD<D>;
  using Signed = WideTag<hn::RebindToSigned<D>, kCount>;
};
template <class D>
using VecOf = typename TagTraits<D>::Vec;
template <class D>
using LaneOf = typename TagTraits<D>::Lane;
template <class D>
using SignedOf = typename TagTraits<D>::Signed;

template <class D, std::size_t kCount>
HWY_INLINE Wide<hn::Vec<D>, kCount> Set(WideTag<D, kCount>, hn::TFromD<D> value) {
  Wide<hn::Vec<D>, kCount> r;
  for (std::size_t k = 0; k < kCount; ++k) r.v[k] = hn::Set(D(), value);
  return r;
}
template <class D, std::size_t kCount>
HWY_INLINE Wide<hn::Vec<D>, kCount> Zero(WideTag<D, kCount> d) {
  return Set(d, 0);
}
template <class D, std::size_t kCount>
HWY_INLINE Wide<hn::Vec<D>, kCount> LoadU(WideTag<D, kCount>, const hn::TFromD<D>* p) {
  Wide<hn::Vec<D>, kCount> r;
  for (std::size_t k = 0; k < kCount; ++k) r.v[k] = hn::LoadU(D(), p + k * hn::Lanes(D()));
  return r;
}
template <class D, std::size_t kCount>
HWY_INLINE void StoreU(Wide<hn::Vec<D>, kCount> a, WideTag<D, kCount>, hn::TFromD<D>* p) {
  for (std::size_t k = 0; k < kCount; ++k) hn::StoreU(a.v[k], D(), p + k * hn::Lanes(D()));
}
template <class D, std::size_t kCount>
HWY_INLINE void Stream(Wide<hn::Vec<D>, kCount> a, WideTag<D, kCount>, hn::TFromD<D>* p) {
  for (std::size_t k = 0; k < kCount; ++k) hn::Stream(a.v[k], D(), p + k * hn::Lanes(D()));
}
template <class D, std::size_t kCount>
HWY_INLINE Wide<hn::Vec<D>, kCount> NaN(WideTag<D, kCount> d) {
  return Set(d, hn::GetLane(hn::NaN(D())));
}

#define EBB_WIDE_1(Name)                                                \
  template <class V, std::size_t kCount>                                \
  HWY_INLINE auto Name(Wide<V, kCount> a) {                             \
    Wide<decltype(hn::Name(a.v[0])), kCount> r;                         \
    for (std::size_t k = 0; k < kCount; ++k) r.v[k] = hn::Name(a.v[k]); \
    return r;                                                           \
  }
// (Both of one type, so that these are closer than Highway's own templates of any two equal types.)
#define EBB_WIDE_2(Name)                                                        \
  template <class V, std::size_t kCount>                                        \
  HWY_INLINE auto Name(Wide<V, kCount> a, Wide<V, kCount> b) {                  \
    Wide<decltype(hn::Name(a.v[0], b.v[0])), kCount> r;                         \
    for (std::size_t k = 0; k < kCount; ++k) r.v[k] = hn::Name(a.v[k], b.v[k]); \
    return r;                                                                   \
  }
#define EBB_WIDE_MASKED(Name)                                                   \
  template <class M, class V, std::size_t kCount>                               \
  HWY_INLINE Wide<V, kCount> Name(Wide<M, kCount> m, Wide<V, kCount> a) {       \
    for (std::size_t k = 0; k < kCount; ++k) a.v[k] = hn::Name(m.v[k], a.v[k]); \
    return a;                                                                   \
  }
#define EBB_WIDE_3(Name)                                                                \
  template <class U, class V, class W, std::size_t kCount>                              \
  HWY_INLINE auto Name(Wide<U, kCount> a, Wide<V, kCount> b, Wide<W, kCount> c) {       \
    Wide<decltype(hn::Name(a.v[0], b.v[0], c.v[0])), kCount> r;                         \
    for (std::size_t k = 0; k < kCount; ++k) r.v[k] = hn::Name(a.v[k], b.v[k], c.v[k]); \
    return r;                                                                           \
  }
EBB_WIDE_1(Neg)
EBB_WIDE_1(Abs)
EBB_WIDE_1(Sqrt)
EBB_WIDE_1(IsNaN)
EBB_WIDE_2(Add)
EBB_WIDE_2(Sub)
EBB_WIDE_2(Mul)
EBB_WIDE_2(Div)
EBB_WIDE_2(Min)
EBB_WIDE_2(Max)
EBB_WIDE_2(And)
EBB_WIDE_2(AndNot)
EBB_WIDE_2(Or)
EBB_WIDE_2(Xor)
EBB_WIDE_2(CopySign)
EBB_WIDE_2(Lt)
EBB_WIDE_2(Le)
EBB_WIDE_2(Gt)
EBB_WIDE_2(Ge)
EBB_WIDE_2(Eq)
EBB_WIDE_2(Ne)
EBB_WIDE_MASKED(IfThenElseZero)
EBB_WIDE_MASKED(IfThenZeroElse)
EBB_WIDE_3(MulAdd)
EBB_WIDE_3(MulSub)
EBB_WIDE_3(NegMulAdd)
EBB_WIDE_3(IfThenElse)
#undef EBB_WIDE_1
#undef EBB_WIDE_2
#undef EBB_WIDE_MASKED
#undef EBB_WIDE_3

#define EBB_WIDE_TAGGED(Name)                                                \
  template <class D, class V, std::size_t kCount>                            \
  HWY_INLINE auto Name(WideTag<D, kCount>, Wide<V, kCount> a) {              \
    Wide<decltype(hn::Name(D(), a.v[0])), kCount> r;                         \
    for (std::size_t k = 0; k < kCount; ++k) r.v[k] = hn::Name(D(), a.v[k]); \
    return r;                                                                \
  }
EBB_WIDE_TAGGED(BitCast)
EBB_WIDE_TAGGED(ConvertTo)
EBB_WIDE_TAGGED(RebindMask)
#undef EBB_WIDE_TAGGED

template <int kBits, class V, std::size_t kCount>
HWY_INLINE Wide<V, kCount> ShiftLeft(Wide<V, kCount> a) {
  for (std::size_t k = 0; k < kCount; ++k) a.v[k] = hn::ShiftLeft<kBits>(a.v[k]);
  return a;
}
template <int kBits, class V, std::size_t kCount>
HWY_INLINE Wide<V, kCount> ShiftRight(Wide<V, kCount> a) {
  for (std::size_t k = 0; k < kCount; ++k) a.v[k] = hn::ShiftRight<kBits>(a.v[k]);
  return a;
}
template <class D, class M, std::size_t kCount>
HWY_INLINE bool AllTrue(WideTag<D, kCount>, Wide<M, kCount> m) {
  auto all = m.v[0];
  for (std::size_t k = 1; k < kCount; ++k) all = hn::And(all, m.v[k]);
  return hn::AllTrue(D(), all);
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_WIDE_INL_HPP_
