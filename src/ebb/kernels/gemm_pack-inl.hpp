// Panels for the register tile: a strip of an operand, `width` rows (of A) or columns (of B) wide,
// laid out as [k][width] and widened to the type of C on the way.
//
// A and B are the same to the packers: "across" is the dimension that meets C (m for A, n for B).
// A strip either has k contiguous (A as it is, B transposed) and is turned, in registers, or has
// across contiguous (A transposed, B as it is) and is copied.

#if defined(EBB_KERNELS_GEMM_PACK_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_GEMM_PACK_INL_
#undef EBB_KERNELS_GEMM_PACK_INL_
#else
#define EBB_KERNELS_GEMM_PACK_INL_
#endif

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "ebb/base/half.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/convert-inl.hpp"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T, class S>
HWY_INLINE T widen(S s) {
  if constexpr (std::is_same_v<T, S>) {
    return s;
  } else {
    return to_float(s);
  }
}

template <class D, class S>
HWY_INLINE hn::Vec<D> load_widen(D d, const S* p) {
  if constexpr (std::is_same_v<hn::TFromD<D>, S>) {
    return hn::LoadU(d, p);
  } else {
    return load_half(d, p);
  }
}

// One 16-byte block from each of rows[0], rows[step], …, side by side; step = lanes in a block.
template <class D, class S>
HWY_INLINE hn::Vec<D> load_blocks(D d, const S* const* rows, size_t k) {
  if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) <= 16) {
    return load_widen(d, rows[0] + k);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, rows + hn::Lanes(half), k), load_blocks(half, rows, k));
  }
}

// out[i] = element k + i of Lanes rows, for as many i as a 16-byte block has lanes.
template <class T, class D, class S>
HWY_INLINE void load_turned(D d, const S* const* rows, size_t k, hn::Vec<D>* out) {
  using V = hn::Vec<D>;
  if constexpr (sizeof(T) == 4) {
    const V r0 = load_blocks(d, rows, k), r1 = load_blocks(d, rows + 1, k);
    const V r2 = load_blocks(d, rows + 2, k), r3 = load_blocks(d, rows + 3, k);
    const V even_low = hn::InterleaveLower(d, r0, r2), even_high = hn::InterleaveUpper(d, r0, r2);
    const V odd_low = hn::InterleaveLower(d, r1, r3), odd_high = hn::InterleaveUpper(d, r1, r3);
    out[0] = hn::InterleaveLower(d, even_low, odd_low);
    out[1] = hn::InterleaveUpper(d, even_low, odd_low);
    out[2] = hn::InterleaveLower(d, even_high, odd_high);
    out[3] = hn::InterleaveUpper(d, even_high, odd_high);
  } else {
    const V r0 = load_blocks(d, rows, k), r1 = load_blocks(d, rows + 1, k);
    out[0] = hn::InterleaveLower(d, r0, r1);
    out[1] = hn::InterleaveUpper(d, r0, r1);
  }
}

// Rows of k-contiguous src to one panel: dst[k * width + r] = src[r * ld + k]. The panel has
// `width` columns of which `rows` are real; the others repeat the last. If width is not a multiple
// of a vector, stores run over into the next k, which is written after.
template <class T, class S>
HWY_NOINLINE void pack_turned(const S* src, size_t ld, size_t rows, size_t kc, T* dst,
                              size_t width) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kBlock = 16 / sizeof(T);
  constexpr size_t kMost = hn::MaxLanes(hn::ScalableTag<T>());
  const size_t lanes = hn::Lanes(d);
  for (size_t r0 = 0; r0 < width; r0 += lanes) {
    const S* row[kMost];
    for (size_t i = 0; i < lanes; ++i) row[i] = src + HWY_MIN(r0 + i, rows - 1) * ld;
    const size_t real = HWY_MIN(lanes, width - r0);
    T* out = dst + r0;
    size_t k = 0;
    // A vector cut short must not reach what another strip of columns has already written: those
    // of the next k are, so only a panel of one strip may run over.
    const bool whole = real == lanes || width < lanes;
    const size_t end = !whole || kc * width < lanes ? 0 : kc - ceil_div(lanes - real, width);
    for (; k + kBlock <= end; k += kBlock) {
      V turned[kBlock];
      load_turned<T>(d, row, k, turned);
      for (size_t i = 0; i < kBlock; ++i) hn::StoreU(turned[i], d, out + (k + i) * width);
    }
    for (; k < kc; ++k) {
      for (size_t i = 0; i < real; ++i) out[k * width + i] = widen<T>(row[i][k]);
    }
  }
}

// Rows of src that are asked for before they are read: each lies in a page of its own, where no
// prefetcher of the machine looks.
constexpr size_t kPackAhead = 12;

// Columns of across-contiguous src to one panel of B: dst[k * width + j] = src[k * ld + j]; width
// is a multiple of a vector, `columns` of it are real, the others zero.
template <class T, class S>
HWY_NOINLINE void pack_copied(const S* src, size_t ld, size_t columns, size_t kc, T* dst,
                              size_t width) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  if (columns == width && width == 2 * lanes) {
    for (size_t k = 0; k < kc; ++k, src += ld, dst += width) {
      hwy::Prefetch(src + kPackAhead * ld);
      const auto low = load_widen(d, src), high = load_widen(d, src + lanes);
      hn::Store(low, d, dst);
      hn::Store(high, d, dst + lanes);
    }
    return;
  }
  for (size_t k = 0; k < kc; ++k, src += ld, dst += width) {
    size_t j = 0;
    for (; j + lanes <= columns; j += lanes) hn::Store(load_widen(d, src + j), d, dst + j);
    for (; j < columns; ++j) dst[j] = widen<T>(src[j]);
    for (; j < width; ++j) dst[j] = T(0);
  }
}

// As pack_copied, for panels of A: narrower than or unequal to a vector. `limit` elements of src's
// rows may be read; the panel goes on to `left` rows, and what follows the kc is not yet written.
template <class T, class S>
HWY_NOINLINE void pack_copied_narrow(const S* src, size_t ld, size_t limit, size_t kc, size_t left,
                                     T* dst, size_t width) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t k = 0;
  if (width <= lanes && lanes <= limit && left * width >= lanes) {  // run over into the next k
    const size_t end = HWY_MIN(kc, left - ceil_div(lanes - width, width));
    for (; k < end; ++k) {
      hwy::Prefetch(src + (k + kPackAhead) * ld);
      hn::StoreU(load_widen(d, src + k * ld), d, dst + k * width);
    }
  }
  for (; k < kc; ++k) {
    for (size_t i = 0; i < width; ++i) dst[k * width + i] = widen<T>(src[k * ld + i]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ebb::kernels
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_GEMM_PACK_INL_
