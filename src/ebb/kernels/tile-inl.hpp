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
#include <utility>

#include "ebb/base/round.hpp"
#include "ebb/kernels/tile_steps-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Tallest tile. With two vectors a row it keeps 12 accumulators, 2 of B and 1 of A: 15 of the 16
// registers of AVX2, and more independent chains than two FMA units of latency 4 need (8).
constexpr int kTileRows = 6;
// Tallest one of a plain product. Of 32 registers it keeps 24 accumulators, and reads B half as often.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr int kTallRows = 12;
#else
constexpr int kTallRows = kTileRows;
#endif

// `rows` rows in tiles of at most `most`, as equal as can be: 32 is 6 6 5 5 5 5, not
// 6 6 6 6 6 2, which would leave the last tile with too few chains.
struct RowTiles {
  size_t count, height, taller;  // so many tiles, the first few of which have a row more
  explicit RowTiles(size_t rows, size_t most = kTileRows)
      : count(ceil_div(rows, most)), height(rows / count), taller(rows % count) {}
  size_t begin(size_t tile) const { return tile * height + HWY_MIN(tile, taller); }
  size_t of(size_t row) const {  // the tile it is in
    const size_t tall = taller * (height + 1);
    return row < tall ? row / (height + 1) : taller + (row - tall) / height;
  }
};

template <class T>
HWY_INLINE size_t tile_lanes() {
  return hn::Lanes(hn::ScalableTag<T>());
}

// Where A's elements are: at<r, u> is that of row r of the tile and the u-th k from the current
// one, u < kSteps; next(n) goes on by n. Strides are in bytes. Eight steps at a time pay in the short
// sums of attention, whose operands come as they lie; in long ones four do as well.
template <int MR, class T>
struct PackedRows {  // MR elements of one k side by side
  static constexpr int kSteps = HWY_MIN(kTileSteps, 4);
  const T* a;
  template <int r, int u, class D>
  HWY_INLINE hn::Vec<D> at(D d) const {
    return set_from<0, (u * MR + r) * static_cast<int>(sizeof(T))>(d, a, 0);
  }
  HWY_INLINE void next(int n) { a += n * MR; }
};

// Of rows a stride apart: every one is a base plus at most twice the stride.
template <int MR>
constexpr int kBases = (MR + 2) / 3;

template <int MR, class T>
struct RowsAlong {  // a row's side by side
  static constexpr int kSteps = kTileSteps;
  const T* base[kBases<MR>];
  size_t row;
  HWY_INLINE RowsAlong(const T* a, size_t a_row) : row(a_row * sizeof(T)) {
#pragma GCC unroll 4
    for (int i = 0; i < kBases<MR>; ++i) base[i] = a + 3 * i * a_row;
  }
  template <int r, int u, class D>
  HWY_INLINE hn::Vec<D> at(D d) const {
    return set_from<r % 3, u* static_cast<int>(sizeof(T))>(d, base[r / 3], row);
  }
  HWY_INLINE void next(int n) {
#pragma GCC unroll 4
    for (int i = 0; i < kBases<MR>; ++i) base[i] += n;
  }
};

template <class T>
struct RowsAcross {  // those of one k side by side, `step` elements from one k to the next
  static constexpr int kSteps = kTileSteps;
  const T *a, *a4;  // this k and, for more than 4 steps, the fourth after it
  size_t step, once, thrice;
  HWY_INLINE RowsAcross(const T* a, size_t a_k)
      : a(a), a4(a + 4 * a_k), step(a_k), once(a_k * sizeof(T)), thrice(3 * once) {}
  template <int r, int u, class D>
  HWY_INLINE hn::Vec<D> at(D d) const {
    constexpr int kOf4 = u % 4, kTimes = kOf4 % 3 + kOf4 / 3;
    return set_from<kTimes, r* static_cast<int>(sizeof(T))>(d, u < 4 ? a : a4,
                                                            kOf4 < 3 ? once : thrice);
  }
  template <int v, int u, class D>
  HWY_INLINE hn::Vec<D> vector(D d) const {  // as rows of B
    constexpr int kOf4 = u % 4, kTimes = kOf4 % 3 + kOf4 / 3;
    return load_from<kTimes, kBytes<v, D>>(d, u < 4 ? a : a4, kOf4 < 3 ? once : thrice);
  }
  HWY_INLINE void next(int n) {
    a += n * step;
    a4 += n * step;
  }
};

template <int MR, class T>
struct RowsApart {  // rows anywhere, a row's side by side
  static constexpr int kSteps = HWY_MIN(kTileSteps, 4);
  const T* row[MR];
  template <int r, int u, class D>
  HWY_INLINE hn::Vec<D> at(D d) const {
    return set_from<0, u* static_cast<int>(sizeof(T))>(d, row[r], 0);
  }
  HWY_INLINE void next(int n) {
#pragma GCC unroll 8
    for (int r = 0; r < MR; ++r) row[r] += n;
  }
};

template <int NV, class T>
struct VectorsApart {  // rows of B whose vectors lie anywhere
  static constexpr int kSteps = HWY_MIN(kTileSteps, 4);
  const T* first[NV];
  size_t step, once, thrice;
  template <int v, int u, class D>
  HWY_INLINE hn::Vec<D> vector(D d) const {
    return load_from<u % 3 + u / 3, 0>(d, first[v], u < 3 ? once : thrice);
  }
  HWY_INLINE void next(int n) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) first[v] += n * step;
  }
};

template <int MR, class T>
struct StridedOut {  // rows of C, likewise
  T* base[kBases<MR>];
  size_t row;
  HWY_INLINE StridedOut(T* c, size_t c_row) : row(c_row * sizeof(T)) {
#pragma GCC unroll 4
    for (int i = 0; i < kBases<MR>; ++i) base[i] = c + 3 * i * c_row;
  }
  template <int r, int v, class D>
  HWY_INLINE hn::Vec<D> load(D d) const {
    return load_from<r % 3, kBytes<v, D>>(d, base[r / 3], row);
  }
  template <int r, int v, class D>
  HWY_INLINE void store(D d, hn::Vec<D> x) const {
    store_to<r % 3, kBytes<v, D>>(d, x, base[r / 3], row);
  }
};

// The u-th step of k: a row of B to registers, then row after row of the tile.
template <int u, class T, int MR, int NV, class V, class A, class B, int... r, int... v>
HWY_INLINE void tile_step(V (&acc)[MR][NV], const A& a, const B& b,
                          std::integer_sequence<int, r...>, std::integer_sequence<int, v...>) {
  const hn::ScalableTag<T> d;
  const V row[NV] = {b.template vector<v, u>(d)...};
  const auto each = [&](V element, V(&sums)[NV])
                        HWY_ATTR { (fuse_into<T>(sums[v], element, row[v]), ...); };
  (each(a.template at<r, u>(d), acc[r]), ...);
}

template <class T, int MR, int NV, class V, class A, class B, int... u>
HWY_INLINE void tile_steps(V (&acc)[MR][NV], A& a, B& b, std::integer_sequence<int, u...>) {
  const std::make_integer_sequence<int, MR> rows;
  const std::make_integer_sequence<int, NV> vectors;
  (tile_step<u, T>(acc, a, b, rows, vectors), ...);
  a.next(sizeof...(u));
  b.next(sizeof...(u));
}

// What is done besides, between steps of k: nothing.
struct Nothing {
  HWY_INLINE void operator()() const {}
};

// The chains of a tile over the next kc of k.
template <class T, int MR, int NV, class V, class A, class B, class Meanwhile>
HWY_INLINE void tile_run(V (&acc)[MR][NV], size_t kc, A& a, B& b, Meanwhile& meanwhile) {
  constexpr int kSteps = HWY_MIN(A::kSteps, B::kSteps);
  if constexpr (kSteps > 1) {
    for (; kc >= kSteps; kc -= kSteps) {
      tile_steps<T>(acc, a, b, std::make_integer_sequence<int, kSteps>());
      meanwhile();
      forget(kc);
    }
  }
  for (; kc > 0; --kc) {
    tile_steps<T>(acc, a, b, std::make_integer_sequence<int, 1>());
    forget(kc);
  }
}

template <class T, int MR, int NV, class V, class A, class B>
HWY_INLINE void tile_run(V (&acc)[MR][NV], size_t kc, A& a, B& b) {
  Nothing nothing;
  tile_run<T>(acc, kc, a, b, nothing);
}

template <class T, class V, int MR, int NV, int... v>
HWY_INLINE void load_tile(V (&acc)[MR][NV], const StridedOut<MR, T>& c, bool from_zero,
                          std::integer_sequence<int, v...>) {
  const hn::ScalableTag<T> d;
  if (from_zero) {
    ((acc[v / NV][v % NV] = hn::Zero(d)), ...);
  } else {
    ((acc[v / NV][v % NV] = c.template load<v / NV, v % NV>(d)), ...);
  }
}
template <class T, class V, int MR, int NV, int... v>
HWY_INLINE void store_tile(const V (&acc)[MR][NV], const StridedOut<MR, T>& c,
                           std::integer_sequence<int, v...>) {
  const hn::ScalableTag<T> d;
  (c.template store<v / NV, v % NV>(d, acc[v / NV][v % NV]), ...);
}

template <int MR, int NV, class T, class Rows, class Meanwhile>
HWY_INLINE void tile_chain(size_t kc, Rows a, const T* b, size_t b_k, const StridedOut<MR, T>& c,
                           bool from_zero, Meanwhile& meanwhile) {
  const std::make_integer_sequence<int, MR * NV> all;
  Meanwhile in_registers = meanwhile;
  hn::Vec<hn::ScalableTag<T>> acc[MR][NV];
  RowsAcross<T> from(b, b_k);
  tile_fence();
  load_tile(acc, c, from_zero, all);
  tile_run<T>(acc, kc, a, from, in_registers);
  store_tile(acc, c, all);
  tile_fence();
  meanwhile = in_registers;
}

template <int MR, int NV, class T, class Rows>
HWY_INLINE void tile_chain(size_t kc, Rows a, const T* b, size_t b_k, const StridedOut<MR, T>& c,
                           bool from_zero) {
  Nothing nothing;
  tile_chain<MR, NV, T>(kc, a, b, b_k, c, from_zero, nothing);
}

// As tile_chain, writing the first n columns only: the tile goes through a buffer.
template <int MR, int NV, class T, class Rows>
HWY_NOINLINE void tile_edge(size_t kc, Rows a, const T* b, size_t b_k, T* c, size_t c_row, size_t n,
                            bool from_zero) {
  constexpr size_t kMost = hn::MaxLanes(hn::ScalableTag<T>()) * NV;
  HWY_ALIGN T edge[MR * kMost] = {};
  if (!from_zero) {
    for (int r = 0; r < MR; ++r) std::memcpy(edge + r * kMost, c + r * c_row, n * sizeof(T));
  }
  tile_chain<MR, NV, T>(kc, a, b, b_k, StridedOut<MR, T>(edge, kMost), from_zero);
  for (int r = 0; r < MR; ++r) std::memcpy(c + r * c_row, edge + r * kMost, n * sizeof(T));
}

template <int MR, int NV, class T, class Rows, class Meanwhile>
HWY_INLINE void tile_columns(size_t kc, Rows a, const T* b, size_t b_k, T* c, size_t c_row,
                             size_t n, bool from_zero, Meanwhile& meanwhile) {
  if (HWY_LIKELY(n >= NV * tile_lanes<T>())) {
    return tile_chain<MR, NV, T>(kc, a, b, b_k, StridedOut<MR, T>(c, c_row), from_zero, meanwhile);
  }
  tile_edge<MR, NV, T>(kc, a, b, b_k, c, c_row, n, from_zero);
}

template <int MR, int NV, class T, class Rows>
HWY_INLINE void tile_columns(size_t kc, Rows a, const T* b, size_t b_k, T* c, size_t c_row,
                             size_t n, bool from_zero) {
  Nothing nothing;
  tile_columns<MR, NV, T>(kc, a, b, b_k, c, c_row, n, from_zero, nothing);
}

// C's row r starts at c + r * c_row, B's row k at b + k * b_k. Writes n <= NV * Lanes columns. Not
// inlined, so that what is around a tile takes no registers from it.
template <int MR, int NV, class T>  // A's element (r, k) is a[r * a_row + k]
HWY_NOINLINE void tile_along(size_t kc, const T* a, size_t a_row, const T* b, size_t b_k, T* c,
                             size_t c_row, size_t n, bool from_zero) {
  tile_columns<MR, NV, T>(kc, RowsAlong<MR, T>(a, a_row), b, b_k, c, c_row, n, from_zero);
}
template <int MR, int NV, class T>  // a[r + k * a_k]
HWY_NOINLINE void tile_across(size_t kc, const T* a, size_t a_k, const T* b, size_t b_k, T* c,
                              size_t c_row, size_t n, bool from_zero) {
  tile_columns<MR, NV, T>(kc, RowsAcross<T>(a, a_k), b, b_k, c, c_row, n, from_zero);
}
template <int MR, int NV, class T>  // one of the two strides is 1
HWY_INLINE void tile_strided(size_t kc, const T* a, size_t a_row, size_t a_k, const T* b,
                             size_t b_k, T* c, size_t c_row, size_t n, bool from_zero) {
  if (a_k == 1) return tile_along<MR, NV, T>(kc, a, a_row, b, b_k, c, c_row, n, from_zero);
  tile_across<MR, NV, T>(kc, a, a_k, b, b_k, c, c_row, n, from_zero);
}

// As tile_strided, for A packed as [k][MR]. meanwhile() is called every few steps, where the tile
// is whole.
template <int MR, int NV, class T, class Meanwhile>
HWY_NOINLINE void tile_packed(size_t kc, const T* a, const T* b, size_t b_k, T* c, size_t c_row,
                              size_t n, bool from_zero, Meanwhile& meanwhile) {
  tile_columns<MR, NV, T>(kc, PackedRows<MR, T>{a}, b, b_k, c, c_row, n, from_zero, meanwhile);
}

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_TILE_INL_
