// The end of an array, where fewer elements are left than a vector has lanes: no byte past them is
// touched.

#if defined(EBB_KERNELS_PARTIAL_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_PARTIAL_INL_HPP_
#undef EBB_KERNELS_PARTIAL_INL_HPP_
#else
#define EBB_KERNELS_PARTIAL_INL_HPP_
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The first n lanes from p, zeros above; n is at most Lanes(d).
template <class D>
HWY_INLINE hn::Vec<D> load_part(D d, const hn::TFromD<D>* p, std::size_t n) {
  using T = hn::TFromD<D>;
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  if constexpr (sizeof(T) >= 4) return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#endif
  HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
  std::memcpy(lanes, p, n * sizeof(T));
  return hn::Load(d, lanes);
}
template <class D>
HWY_INLINE void store_part(hn::Vec<D> v, D d, hn::TFromD<D>* p, std::size_t n) {
  using T = hn::TFromD<D>;
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  if constexpr (sizeof(T) >= 4) return hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#endif
  HWY_ALIGN T lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  std::memcpy(p, lanes, n * sizeof(T));
}

// A whole vector where n elements are enough for one, as they mostly are; else a part.
template <class D>
HWY_INLINE hn::Vec<D> load_some(D d, const hn::TFromD<D>* p, std::size_t n) {
  return HWY_LIKELY(n >= hn::Lanes(d)) ? hn::LoadU(d, p) : load_part(d, p, n);
}
template <class D>
HWY_INLINE void store_some(hn::Vec<D> v, D d, hn::TFromD<D>* p, std::size_t n) {
  if (HWY_LIKELY(n >= hn::Lanes(d))) return hn::StoreU(v, d, p);
  store_part(v, d, p, n);
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_PARTIAL_INL_HPP_
