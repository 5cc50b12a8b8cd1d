// The register tile of every matrix product: MR rows × NV vectors of C, held in registers while a
// chain of fused multiply-adds runs over k.
//
//   C[r][j] = fma(A[r][kc-1], B[kc-1][j], … fma(A[r][0], B[0][j], C[r][j]))
//
// One chain per element, in the order of k, starting from what C holds (or zero): so a sum over k
// may be cut anywhere, into any number of calls, and the bits stay the same. They do not depend on
// the shape of the tile or the width of a vector either.
//
// A is read one element at a time and broadcast, so it may lie anywhere; B is read in rows of
// NV * Lanes elements, all of which must be readable, whatever part of them is wanted.

#if defined(EBB_KERNELS_TILE_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_TILE_INL_
#undef EBB_KERNELS_TILE_INL_
#else
#define EBB_KERNELS_TILE_INL_
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Tallest tile. With two vectors a row it keeps 12 accumulators, 2 of B and 1 of A: 15 of the 16
// registers of AVX2, and more independent chains than two FMA units of latency 4 need (8).
constexpr int kTileRows = 6;

template <class T>
HWY_INLINE size_t TileLanes() {
  return hn::Lanes(hn::ScalableTag<T>());
}

// Where A's element (row r of the tile, current k) is; next() goes to the following k.
template <int MR, class T>
struct PackedRows {  // MR elements of one k side by side
  const T* a;
  HWY_INLINE T at(int r) const { return a[r]; }
  HWY_INLINE void next() { a += MR; }
};

template <int MR, class T>
struct StridedRows {  // two bases, so that every row is a base plus at most twice a stride
  const T *low, *high;
  size_t row, step;
  HWY_INLINE StridedRows(const T* a, size_t a_row, size_t a_k)
      : low(a), high(a + (MR > 3 ? 3 * a_row : 0)), row(a_row), step(a_k) {}
  HWY_INLINE T at(int r) const { return r < 3 ? low[r * row] : high[(r - 3) * row]; }
  HWY_INLINE void next() {
    low += step;
    high += step;
  }
};

template <class T>
struct StridedOut {
  T* c;
  size_t row;
  HWY_INLINE T* at(int r) const { return c + r * row; }
};

template <int MR, int NV, class T, class Rows, class Out>
HWY_INLINE void TileChain(size_t kc, Rows a, const T* HWY_RESTRICT b, size_t b_k, Out c,
                          bool from_zero) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  V acc[MR][NV];
  if (from_zero) {
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::Zero(d);
    }
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::LoadU(d, c.at(r) + v * lanes);
    }
  }
  // Not unrolled by hand: g++ 12 then moves broadcasts up and runs out of registers.
  for (size_t k = 0; k < kc; ++k) {
    V row[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) row[v] = hn::LoadU(d, b + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r) {
      const V element = hn::Set(d, a.at(r));
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::MulAdd(element, row[v], acc[r][v]);
    }
    a.next();
    b += b_k;
  }
#pragma GCC unroll 8
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) hn::StoreU(acc[r][v], d, c.at(r) + v * lanes);
  }
}

// As TileChain, writing the first n columns only: the tile goes through a buffer.
template <int MR, int NV, class T, class Rows, class Out>
HWY_INLINE void TileColumns(size_t kc, Rows a, const T* HWY_RESTRICT b, size_t b_k, Out c, size_t n,
                            bool from_zero) {
  const size_t width = NV * TileLanes<T>();
  if (HWY_LIKELY(n >= width)) return TileChain<MR, NV, T>(kc, a, b, b_k, c, from_zero);
  constexpr size_t kMost = hn::MaxLanes(hn::ScalableTag<T>()) * NV;
  HWY_ALIGN T edge[MR * kMost] = {};
  if (!from_zero) {
    for (int r = 0; r < MR; ++r) std::memcpy(edge + r * width, c.at(r), n * sizeof(T));
  }
  TileChain<MR, NV, T>(kc, a, b, b_k, StridedOut<T>{edge, width}, from_zero);
  for (int r = 0; r < MR; ++r) std::memcpy(c.at(r), edge + r * width, n * sizeof(T));
}

// A's element (r, k) is a[r * a_row + k * a_k], B's row k starts at b + k * b_k, C's row r at
// c + r * c_row. Writes n <= NV * Lanes columns.
template <int MR, int NV, class T>
HWY_NOINLINE void Tile(size_t kc, const T* a, size_t a_row, size_t a_k, const T* b, size_t b_k, T* c,
                       size_t c_row, size_t n, bool from_zero) {
  TileColumns<MR, NV, T>(kc, StridedRows<MR, T>(a, a_row, a_k), b, b_k, StridedOut<T>{c, c_row}, n,
                         from_zero);
}

// As Tile, for A packed as [k][MR].
template <int MR, int NV, class T>
HWY_NOINLINE void TilePacked(size_t kc, const T* a, const T* b, size_t b_k, T* c, size_t c_row,
                             size_t n, bool from_zero) {
  TileColumns<MR, NV, T>(kc, PackedRows<MR, T>{a}, b, b_k, StridedOut<T>{c, c_row}, n, from_zero);
}

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_TILE_INL_
