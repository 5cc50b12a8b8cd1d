// The instructions a register tile is made of (tile-inl.hpp), and how many steps of k its loop
// takes at a time.
//
// What that loop does beside its multiply-adds hardly shows on a quiet machine; on a busy one, where
// a sibling thread seems to take half of the slots, it costs up to a quarter of the speed. On AVX2 and
// AVX-512, whose registers are just enough, the loop is therefore spelt out, instruction by instruction: g++
// else copies accumulators, keeps B on the stack, loads it inside the multiply-adds, and adds strides up where
// it might use them as an index. (Not where a sanitizer wants to see the loads.)

#if defined(EBB_KERNELS_TILE_STEPS_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_TILE_STEPS_INL_
#undef EBB_KERNELS_TILE_STEPS_INL_
#else
#define EBB_KERNELS_TILE_STEPS_INL_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#undef EBB_TILE_SPELT_OUT
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && (HWY_COMPILER_GCC || HWY_COMPILER_CLANG) && \
    !HWY_IS_ASAN && !HWY_IS_MSAN && !HWY_IS_TSAN && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define EBB_TILE_SPELT_OUT 1
constexpr int kTileSteps = HWY_TARGET == HWY_AVX2 ? 8 : 4;
#else
#define EBB_TILE_SPELT_OUT 0
constexpr int kTileSteps = 1;
#endif

// What lies kTimes * stride + kBytes bytes from p: an element, in all lanes, or a vector.
template <int kTimes, int kBytes, class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> set_from(D d, const T* p, size_t stride) {
#if EBB_TILE_SPELT_OUT
  hn::Vec<D> v;
  if constexpr (sizeof(T) == 4 && kTimes == 0) {
    asm volatile("vbroadcastss %c2(%1), %0" : "=v"(v.raw) : "r"(p), "i"(kBytes));
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("vbroadcastss %c3(%1,%2,%c4), %0"
                 : "=v"(v.raw)
                 : "r"(p), "r"(stride), "i"(kBytes), "i"(kTimes));
  } else if constexpr (kTimes == 0) {
    asm volatile("vbroadcastsd %c2(%1), %0" : "=v"(v.raw) : "r"(p), "i"(kBytes));
  } else {
    asm volatile("vbroadcastsd %c3(%1,%2,%c4), %0"
                 : "=v"(v.raw)
                 : "r"(p), "r"(stride), "i"(kBytes), "i"(kTimes));
  }
  static_cast<void>(d);
  return v;
#else
  return hn::Set(d, p[(kTimes * stride + kBytes) / sizeof(T)]);
#endif
}
template <int kTimes, int kBytes, class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_from(D d, const T* p, size_t stride) {
#if EBB_TILE_SPELT_OUT
  hn::Vec<D> v;
  if constexpr (kTimes == 0) {
    asm volatile("vmovups %c2(%1), %0" : "=v"(v.raw) : "r"(p), "i"(kBytes));
  } else {
    asm volatile("vmovups %c3(%1,%2,%c4), %0"
                 : "=v"(v.raw)
                 : "r"(p), "r"(stride), "i"(kBytes), "i"(kTimes));
  }
  static_cast<void>(d);
  return v;
#else
  return hn::LoadU(d, p + (kTimes * stride + kBytes) / sizeof(T));
#endif
}

template <int kTimes, int kBytes, class D, class T = hn::TFromD<D>>
HWY_INLINE void store_to(D d, hn::Vec<D> v, T* p, size_t stride) {
#if EBB_TILE_SPELT_OUT
  if constexpr (kTimes == 0) {
    asm volatile("vmovups %0, %c2(%1)" : : "v"(v.raw), "r"(p), "i"(kBytes));
  } else {
    asm volatile("vmovups %0, %c3(%1,%2,%c4)"
                 :
                 : "v"(v.raw), "r"(p), "r"(stride), "i"(kBytes), "i"(kTimes));
  }
  static_cast<void>(d);
#else
  hn::StoreU(v, d, p + (kTimes * stride + kBytes) / sizeof(T));
#endif
}
// Bytes of v vectors.
template <int v, class D>
constexpr int kBytes = v* static_cast<int>(hn::MaxLanes(D()) * sizeof(hn::TFromD<D>));

// acc = x y + acc
template <class T, class V>
HWY_INLINE void fuse_into(V& acc, V x, V y) {
#if EBB_TILE_SPELT_OUT
  if constexpr (sizeof(T) == 4) {
    asm volatile("vfmadd231ps %2, %1, %0" : "+v"(acc.raw) : "v"(x.raw), "v"(y.raw));
  } else {
    asm volatile("vfmadd231pd %2, %1, %0" : "+v"(acc.raw) : "v"(x.raw), "v"(y.raw));
  }
#else
  acc = hn::MulAdd(x, y, acc);
#endif
}

// g++ forgets what it knows of n: how often a loop ran, and with that where its pointers ended.
HWY_INLINE void forget(size_t& n) {
#if EBB_TILE_SPELT_OUT
  asm volatile("" : "+r"(n));
#else
  static_cast<void>(n);
#endif
}

// What is spelt out sees what was written before, is seen by what comes after, and reads nothing
// that is written later.
HWY_INLINE void tile_fence() {
#if EBB_TILE_SPELT_OUT
  asm volatile("" ::: "memory");
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_TILE_STEPS_INL_
