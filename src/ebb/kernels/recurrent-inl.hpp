// The recurrent product for a block of rows: C += A · B, with B packed for the whole call in panels
// of NV vectors, [panel][k][NV vectors], and C in rows of padded scratch.
//
// Forward, a panel is the same vector of units of each gate, so that all gates of a unit are ready
// together. Backward, it is NV vectors of units side by side.

#if defined(EBB_KERNELS_RECURRENT_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_RECURRENT_INL_HPP_
#undef EBB_KERNELS_RECURRENT_INL_HPP_
#else
#define EBB_KERNELS_RECURRENT_INL_HPP_
#endif

#include <cstddef>

#include "ebb/kernels/rows-inl.hpp"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Of k at a time: 16 KiB of a panel, which stay in L1 for all rows of the block.
constexpr std::size_t kDepth = 128;
constexpr std::size_t kBackVectors = 4;

// MR rows × NV vectors of C in registers. A is read an element at a time.
template <int MR, int NV, class T>
HWY_NOINLINE void Chains(std::size_t depth, const T* HWY_RESTRICT a, std::size_t a_row,
                         const T* HWY_RESTRICT b, T* HWY_RESTRICT c, std::size_t c_row) {
  const RowTag<T> d;
  using V = RowVec<T>;
  const std::size_t lanes = hn::Lanes(d);
  V acc[MR][NV];
#pragma GCC unroll 8
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) acc[r][v] = hn::Load(d, c + r * c_row + v * lanes);
  }
  for (std::size_t k = 0; k < depth; ++k) {
    V row[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) row[v] = hn::Load(d, b + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r) {
      const V element = hn::Set(d, a[r * a_row + k]);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::MulAdd(element, row[v], acc[r][v]);
    }
    b += NV * lanes;
  }
#pragma GCC unroll 8
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) hn::Store(acc[r][v], d, c + r * c_row + v * lanes);
  }
}

// All rows of the block × one panel, over k in [0, depth).
template <int NV, class T>
HWY_INLINE void Product(std::size_t rows, std::size_t depth, const T* a, std::size_t a_row,
                        const T* panel, T* c, std::size_t c_row) {
  constexpr std::size_t kTall = NV == 3 ? 4 : 3;  // 12 chains: two units of latency 4 need 8
  const std::size_t width = NV * hn::Lanes(RowTag<T>());
  const std::size_t tiles = (rows + kTall - 1) / kTall;
  for (std::size_t k = 0; k < depth; k += kDepth) {
    const std::size_t kc = HWY_MIN(kDepth, depth - k);
    const T* b = panel + k * width;
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      const std::size_t r = tile * rows / tiles, height = (tile + 1) * rows / tiles - r;
      const T* from = a + r * a_row + k;
      T* to = c + r * c_row;
      switch (height) {
        case 1:
          Chains<1, NV, T>(kc, from, a_row, b, to, c_row);
          break;
        case 2:
          Chains<2, NV, T>(kc, from, a_row, b, to, c_row);
          break;
        case 3:
          Chains<3, NV, T>(kc, from, a_row, b, to, c_row);
          break;
        default:
          if constexpr (kTall == 4) Chains<4, NV, T>(kc, from, a_row, b, to, c_row);
      }
    }
  }
}

// A square of the weight, turned: dst[k * width + l] = src[l * ld + k] for a vector of l.
template <class T>
HWY_INLINE void TurnColumns(const T* src, std::size_t ld, std::size_t depth, T* dst,
                            std::size_t width, std::size_t real) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t kMost = kRowLanes<T>;
  const T* rows[kMost];
  for (std::size_t l = 0; l < lanes; ++l) rows[l] = src + HWY_MIN(l, real - 1) * ld;
  HWY_ALIGN T square[kMost * kMost];
  std::size_t k = 0;
  for (; k + lanes <= depth; k += lanes) {
    for (std::size_t l = 0; l < lanes; ++l)
      hn::Store(hn::LoadU(d, rows[l] + k), d, square + l * lanes);
    for (std::size_t i = 0; i < lanes; ++i) {
      for (std::size_t l = 0; l < lanes; ++l) dst[(k + i) * width + l] = square[l * lanes + i];
    }
  }
  for (; k < depth; ++k) {
    for (std::size_t l = 0; l < lanes; ++l) dst[k * width + l] = rows[l][k];
  }
}

// Panels [begin, end) of the weight (G hidden, hidden) for the way forward. Lanes beyond the last
// unit repeat it.
template <int G, class T>
HWY_NOINLINE void PackForward(const T* weight, std::size_t hidden, T* packed, std::size_t begin,
                              std::size_t end) {
  const std::size_t lanes = hn::Lanes(RowTag<T>()), width = G * lanes;
  for (std::size_t panel = begin; panel < end; ++panel) {
    const std::size_t unit = panel * lanes;
    for (std::size_t g = 0; g < G; ++g) {
      TurnColumns(weight + (g * hidden + unit) * hidden, hidden, hidden,
                  packed + panel * hidden * width + g * lanes, width,
                  HWY_MIN(lanes, hidden - unit));
    }
  }
}

// Panels [begin, end) of the same weight, as it lies, for the way back: k runs over its rows.
template <class T>
HWY_NOINLINE void PackBackward(const T* weight, std::size_t depth, std::size_t hidden, T* packed,
                               std::size_t begin, std::size_t end) {
  const RowTag<T> d;
  const std::size_t lanes = hn::Lanes(d), width = kBackVectors * lanes;
  for (std::size_t panel = begin; panel < end; ++panel) {
    const std::size_t unit = panel * width, real = HWY_MIN(width, hidden - unit);
    T* to = packed + panel * depth * width;
    for (std::size_t k = 0; k < depth; ++k, to += width) {
      const T* from = weight + k * hidden + unit;
      if (real == width) {
        for (std::size_t v = 0; v < width; v += lanes) hn::Store(hn::LoadU(d, from + v), d, to + v);
      } else {
        for (std::size_t v = 0; v < width; ++v) to[v] = v < real ? from[v] : T(0);
      }
    }
  }
}

// Panels of so many elements that one thread packs at a time.
inline std::size_t PackGrain(std::size_t elements) { return HWY_MAX(1, 32768 / elements); }

// f(u, amount) for each vector of the units; the last may be a part.
template <class T, class F>
HWY_INLINE void EachUnits(std::size_t hidden, F&& f) {
  const std::size_t lanes = hn::Lanes(RowTag<T>());
  std::size_t u = 0;
  for (; u + lanes <= hidden; u += lanes) f(u, Whole());
  if (u < hidden) f(u, hidden - u);
}

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_RECURRENT_INL_HPP_
