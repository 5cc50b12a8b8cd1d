// What Winograd's F(4×4, 3×3) does with numbers on their way to the points 0, ±a, ±b, ∞ and back;
// each along one direction, both_ways along both (conv_winograd.hpp).

#if defined(EBB_KERNELS_CONV_WINOGRAD_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_CONV_WINOGRAD_INL_
#undef EBB_KERNELS_CONV_WINOGRAD_INL_
#else
#define EBB_KERNELS_CONV_WINOGRAD_INL_
#endif

#include <cstddef>

#include "ebb/kernels/rows-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::conv {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using namespace ebb::kernels::HWY_NAMESPACE;  // rows, the register tile

constexpr double kA = 0.75, kB = 1.5, kA2 = kA * kA, kB2 = kB * kB;
// A filter's share at each point: one over the product of the point's distances from the others.
constexpr double kAt0 = 1 / (kA2 * kB2), kAtA = 1 / (2 * kA2 * (kA2 - kB2)),
                 kAtB = 1 / (2 * kB2 * (kB2 - kA2));

template <class D>
HWY_INLINE hn::Vec<D> constant(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

struct TileAtPoints {  // six pixels
  template <class D, class V>
  HWY_INLINE void operator()(D d, const V (&x)[6], V (&v)[6]) const {
    const V a2 = constant(d, kA2), b2 = constant(d, kB2), both = constant(d, kA2 + kB2),
            times = constant(d, kA2 * kB2);
    const V even_a = hn::NegMulAdd(b2, x[2], x[4]), odd_a = hn::NegMulAdd(b2, x[1], x[3]);
    const V even_b = hn::NegMulAdd(a2, x[2], x[4]), odd_b = hn::NegMulAdd(a2, x[1], x[3]);
    v[0] = hn::MulAdd(times, x[0], hn::NegMulAdd(both, x[2], x[4]));
    v[1] = hn::MulAdd(constant(d, kA), odd_a, even_a);
    v[2] = hn::NegMulAdd(constant(d, kA), odd_a, even_a);
    v[3] = hn::MulAdd(constant(d, kB), odd_b, even_b);
    v[4] = hn::NegMulAdd(constant(d, kB), odd_b, even_b);
    v[5] = hn::MulAdd(times, x[1], hn::NegMulAdd(both, x[3], x[5]));
  }
};

struct FilterAtPoints {  // three taps
  template <class D, class V>
  HWY_INLINE void operator()(D d, const V (&g)[3], V (&u)[6]) const {
    const V even_a = hn::MulAdd(constant(d, kA2), g[2], g[0]);
    const V even_b = hn::MulAdd(constant(d, kB2), g[2], g[0]);
    u[0] = hn::Mul(constant(d, kAt0), g[0]);
    u[1] = hn::Mul(constant(d, kAtA), hn::MulAdd(constant(d, kA), g[1], even_a));
    u[2] = hn::Mul(constant(d, kAtA), hn::NegMulAdd(constant(d, kA), g[1], even_a));
    u[3] = hn::Mul(constant(d, kAtB), hn::MulAdd(constant(d, kB), g[1], even_b));
    u[4] = hn::Mul(constant(d, kAtB), hn::NegMulAdd(constant(d, kB), g[1], even_b));
    u[5] = g[2];
  }
};

struct OutputsFromPoints {  // four outputs
  template <class D, class V>
  HWY_INLINE void operator()(D d, const V (&m)[6], V (&y)[4]) const {
    const V even_a = hn::Add(m[1], m[2]), odd_a = hn::Sub(m[1], m[2]);
    const V even_b = hn::Add(m[3], m[4]), odd_b = hn::Sub(m[3], m[4]);
    y[0] = hn::Add(m[0], hn::Add(even_a, even_b));
    y[1] = hn::MulAdd(constant(d, kB), odd_b, hn::Mul(constant(d, kA), odd_a));
    y[2] = hn::MulAdd(constant(d, kB2), even_b, hn::Mul(constant(d, kA2), even_a));
    y[3] = hn::MulAdd(constant(d, kB2 * kB), odd_b, hn::MulAdd(constant(d, kA2 * kA), odd_a, m[5]));
  }
};

// The gradients by outputs, and those by taps: each the way back of one above.
struct GradientsAtPoints {
  template <class D, class V>
  HWY_INLINE void operator()(D d, const V (&y)[4], V (&m)[6]) const {
    const V even_a = hn::MulAdd(constant(d, kA2), y[2], y[0]);
    const V odd_a = hn::MulAdd(constant(d, kA2), y[3], y[1]);
    const V even_b = hn::MulAdd(constant(d, kB2), y[2], y[0]);
    const V odd_b = hn::MulAdd(constant(d, kB2), y[3], y[1]);
    m[0] = y[0];
    m[1] = hn::MulAdd(constant(d, kA), odd_a, even_a);
    m[2] = hn::NegMulAdd(constant(d, kA), odd_a, even_a);
    m[3] = hn::MulAdd(constant(d, kB), odd_b, even_b);
    m[4] = hn::NegMulAdd(constant(d, kB), odd_b, even_b);
    m[5] = y[3];
  }
};

struct TapsFromPoints {
  template <class D, class V>
  HWY_INLINE void operator()(D d, const V (&u)[6], V (&g)[3]) const {
    const V even_a = hn::Mul(constant(d, kAtA), hn::Add(u[1], u[2]));
    const V odd_a = hn::Mul(constant(d, kAtA * kA), hn::Sub(u[1], u[2]));
    const V even_b = hn::Mul(constant(d, kAtB), hn::Add(u[3], u[4]));
    g[0] = hn::MulAdd(constant(d, kAt0), u[0], hn::Add(even_a, even_b));
    g[1] = hn::MulAdd(constant(d, kAtB * kB), hn::Sub(u[3], u[4]), odd_a);
    g[2] = hn::MulAdd(constant(d, kB2), even_b, hn::MulAdd(constant(d, kA2), even_a, u[5]));
  }
};

// f down the columns of load(i, j), then along the rows: emit(i, j, value).
template <int kFrom, int kTo, class D, class Load, class F, class Emit>
HWY_INLINE void both_ways(D d, const Load& load, const F& f, const Emit& emit) {
  using V = hn::Vec<D>;
  V half[kTo][kFrom];
  for (int j = 0; j < kFrom; ++j) {
    V from[kFrom], to[kTo];
    for (int i = 0; i < kFrom; ++i) from[i] = load(i, j);
    f(d, from, to);
    for (int i = 0; i < kTo; ++i) half[i][j] = to[i];
  }
  for (int i = 0; i < kTo; ++i) {
    V to[kTo];
    f(d, half[i], to);
    for (int j = 0; j < kTo; ++j) emit(i, j, to[j]);
  }
}

// Pixels of kSide × kSide to their points, for all channels; `pitch` elements from point to point.
template <int kSide, class T, class F>
void to_points(const T* const* pixel, std::size_t channels, const F& f, T* to, std::size_t pitch) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto some = [&](std::size_t c, auto n) EBB_LAMBDA {
    both_ways<kSide, 6>(
        d, [&](int i, int j) EBB_LAMBDA { return load(pixel[i * kSide + j] + c, n); }, f,
        [&](int i, int j, auto v)
            EBB_LAMBDA { hn::StoreU(v, d, to + static_cast<std::size_t>(i * 6 + j) * pitch + c); });
  };
  std::size_t c = 0;
  for (; c + lanes <= channels; c += lanes) some(c, Whole());
  if (c < channels) some(c, channels - c);
}

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels::conv
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_CONV_WINOGRAD_INL_
