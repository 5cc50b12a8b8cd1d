// Lambdas inside kernels, and a switch that makes a small number known to the compiler:
//
//   static_switch<kTileRows>(rows, [&]<int MR>() EBB_LAMBDA { tile_along<MR, 2, T>(...); });

#if defined(EBB_KERNELS_LAMBDA_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_LAMBDA_INL_HPP_
#undef EBB_KERNELS_LAMBDA_INL_HPP_
#else
#define EBB_KERNELS_LAMBDA_INL_HPP_
#endif

#include <cstddef>

#include "hwy/highway.h"

// A lambda takes on neither the target nor the inlining of the function around it.
#undef EBB_LAMBDA
#define EBB_LAMBDA HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {

// f.operator()<n>(), n from 1 to kMost.
template <int kMost, class F>
HWY_INLINE void static_switch(std::size_t n, F&& f) {
  static_assert(kMost >= 1 && kMost <= 6);
#define EBB_CASE(N)                                             \
  case N:                                                       \
    if constexpr (N < kMost) return f.template operator()<N>(); \
    [[fallthrough]]
  switch (n) {
    EBB_CASE(1);
    EBB_CASE(2);
    EBB_CASE(3);
    EBB_CASE(4);
    EBB_CASE(5);
    default:
      return f.template operator()<kMost>();
  }
#undef EBB_CASE
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_LAMBDA_INL_HPP_
