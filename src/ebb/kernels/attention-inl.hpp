// What the two ways of attention share: which keys a query sees, and products of tiles.

#if defined(EBB_KERNELS_ATTENTION_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_ATTENTION_INL_HPP_
#undef EBB_KERNELS_ATTENTION_INL_HPP_
#else
#define EBB_KERNELS_ATTENTION_INL_HPP_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ebb/base/round.hpp"
#include "ebb/kernels/attention.hpp"
#include "ebb/kernels/gemm_pack-inl.hpp"
#include "ebb/kernels/lambda-inl.hpp"
#include "ebb/kernels/math-inl.hpp"
#include "ebb/kernels/philox-inl.hpp"
#include "ebb/kernels/tile-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using AttentionTag = hn::ScalableTag<T>;

// Columns of a register tile: two vectors.
template <class T>
HWY_INLINE size_t panel_columns() {
  return 2 * tile_lanes<T>();
}

struct KeyRange {
  size_t begin, end;
  bool empty() const { return begin >= end; }
};

// The keys of [first, last) that query i sees, as far as its position tells.
HWY_INLINE KeyRange keys_seen(const Attention& a, size_t i, size_t first, size_t last) {
  if (!a.causal) return {first, last};
  const std::int64_t end = a.offset + static_cast<std::int64_t>(i) + 1;
  const std::int64_t begin = a.window == 0 ? 0 : end - static_cast<std::int64_t>(a.window);
  const auto limited = [&](std::int64_t k) {
    return static_cast<size_t>(
        HWY_MIN(HWY_MAX(k, static_cast<std::int64_t>(first)), static_cast<std::int64_t>(last)));
  };
  return {limited(begin), limited(end)};
}
// Those that any of queries [i, i_end) sees, and no others but between them.
HWY_INLINE KeyRange keys_seen(const Attention& a, size_t i, size_t i_end, size_t first,
                              size_t last) {
  return {keys_seen(a, i, first, last).begin, keys_seen(a, i_end - 1, first, last).end};
}

HWY_INLINE bool sees(const Attention& a, size_t batch, size_t i, size_t key) {
  if (keys_seen(a, i, key, key + 1).empty()) return false;
  if (a.mask == nullptr) return true;
  return a.mask[(a.mask_by_query ? batch * a.queries + i : batch) * a.keys + key];
}

// The rows of a tile of at most kMost that are not all finite. Products with them are taken one by
// one, for those who see them: others have a weight of 0, which does not make 0 of everything.
struct BadRows {
  static constexpr size_t kMost = 256;
  size_t count = 0;
  std::uint16_t row[kMost];
};

// Four rows at a time, so that none waits for another.
template <class T>
HWY_INLINE bool all_finite(const T* from, size_t from_row, size_t rows, size_t size) {
  const AttentionTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d);
  auto sum0 = zero, sum1 = zero, sum2 = zero, sum3 = zero;  // NaN where one is not finite
  T rest = 0;
  for (size_t r = 0; r < rows; r += 4) {
    const auto row = [&](size_t k) { return from + HWY_MIN(r + k, rows - 1) * from_row; };
    const T *x0 = row(0), *x1 = row(1), *x2 = row(2), *x3 = row(3);
    size_t i = 0;
    for (; i + lanes <= size; i += lanes) {
      sum0 = hn::MulAdd(hn::LoadU(d, x0 + i), zero, sum0);
      sum1 = hn::MulAdd(hn::LoadU(d, x1 + i), zero, sum1);
      sum2 = hn::MulAdd(hn::LoadU(d, x2 + i), zero, sum2);
      sum3 = hn::MulAdd(hn::LoadU(d, x3 + i), zero, sum3);
    }
    for (; i < size; ++i) rest += (x0[i] * 0 + x1[i] * 0) + (x2[i] * 0 + x3[i] * 0);
  }
  const auto sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  return rest == 0 && hn::AllTrue(d, hn::Eq(sum, zero));
}

// Looked for only where some pairs are not seen.
template <class T>
HWY_INLINE void find_bad_rows(const Attention& a, const T* from, size_t from_row, size_t rows,
                              size_t size, BadRows* bad) {
  bad->count = 0;
  if (!a.causal && a.mask == nullptr) return;
  if (HWY_LIKELY(all_finite(from, from_row, rows, size))) return;
  for (size_t r = 0; r < rows; ++r) {
    if (!all_finite(from + r * from_row, from_row, 1, size))
      bad->row[bad->count++] = static_cast<std::uint16_t>(r);
  }
}

// Rows [begin, end) of a tile in order: whole(first, last) of those between bad rows, single(row) of
// each bad one.
template <class Whole, class Single>
HWY_INLINE void around_bad_rows(const BadRows& bad, size_t begin, size_t end, Whole whole,
                                Single single) {
  for (size_t b = 0; b < bad.count; ++b) {
    const size_t row = bad.row[b];
    if (row < begin || row >= end) continue;
    if (begin < row) whole(begin, row);
    single(row);
    begin = row + 1;
  }
  if (begin < end) whole(begin, end);
}

// 2^y for y <= 0 or a little above; exactly 0 for -inf. (math-inl.hpp: absolute accuracy.)
template <class T, class D>
HWY_INLINE hn::Vec<D> weight_of(D d, hn::Vec<D> y) {
  if constexpr (sizeof(T) == 8) {
    return per_lane(d, y, [](double v) { return std::exp2(v); });
  } else {
    return detail::exp2(d, hn::Max(hn::Set(d, -127.0f), y));  // in this order a NaN stays
  }
}

// `tiles` tiles of MR rows, one below the other, `across` panels wide: C (+)= A · B. kAlong: A's
// rows are a_step apart, or else its steps of k are.
template <int MR, bool kAlong, class T>
HWY_NOINLINE void tile_block(size_t tiles, size_t across, size_t kc, const T* a, size_t a_step,
                             const T* b, size_t b_k, size_t b_panel, T* c, size_t c_row,
                             size_t columns, bool from_zero) {
  const size_t width = panel_columns<T>();
  for (size_t t = 0; t < tiles; ++t) {
    const std::conditional_t<kAlong, RowsAlong<MR, T>, RowsAcross<T>> rows(a, a_step);
    for (size_t p = 0; p < across; ++p) {
      tile_columns<MR, 2, T>(kc, rows, b + p * b_panel, b_k, c + p * width, c_row,
                             columns - p * width, from_zero);
    }
    a += kAlong ? MR * a_step : MR;
    c += MR * c_row;
  }
}

// C (rows × columns) (+)= A · B, rows cut into the groups [g, g_end). A's element (r, k) is
// a[r * a_step + k] (kAlong) or a[r + k * a_step]; B's row k starts at b + k * b_k, in each of its
// panels, `b_panel` apart.
template <bool kAlong, class T>
HWY_INLINE void product(const RowTiles& groups, size_t g, size_t g_end, size_t kc, const T* a,
                        size_t a_step, const T* b, size_t b_k, size_t b_panel, T* c, size_t c_row,
                        size_t columns, bool from_zero) {
  const size_t across = ceil_div(columns, panel_columns<T>());
  while (g < g_end) {
    const bool tall = g < groups.taller;
    const size_t end = tall ? HWY_MIN(g_end, groups.taller) : g_end, row = groups.begin(g);
    const auto block = [&](auto fn) {
      fn(end - g, across, kc, a + (kAlong ? row * a_step : row), a_step, b, b_k, b_panel,
         c + row * c_row, c_row, columns, from_zero);
    };
    static_switch<kTileRows>(groups.height + tall,
                             [&]<int MR>() EBB_LAMBDA { block(tile_block<MR, kAlong, T>); });
    g = end;
  }
}

// Rows of `size` elements, `from_row` apart, to rows of `to_row`, zeros behind them; kScaled: times
// a factor.
template <bool kScaled = false, class T>
HWY_INLINE void copy_rows(const T* from, size_t from_row, size_t rows, size_t size, T* to,
                          size_t to_row, T factor = T(1)) {
  const AttentionTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto by = hn::Set(d, factor);
  for (size_t r = 0; r < rows; ++r, from += from_row, to += to_row) {
    size_t i = 0;
    for (; i + lanes <= size; i += lanes) {
      const auto x = hn::LoadU(d, from + i);
      hn::StoreU(kScaled ? hn::Mul(x, by) : x, d, to + i);
    }
    for (; i < size; ++i) to[i] = kScaled ? from[i] * factor : from[i];
    for (; i < to_row; ++i) to[i] = T(0);
  }
}

template <class T>
HWY_INLINE void scale_all(T* x, size_t count, T factor) {  // a whole number of vectors
  const AttentionTag<T> d;
  const auto by = hn::Set(d, factor);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), by), d, x + i);
  }
}

// What keys are multiplied by before they meet queries, so that scores are exponents of 2. Both ways
// do it to the keys: the scores come out with the same bits.
template <class T>
HWY_INLINE T score_scale(const Attention& a) {
  return static_cast<T>(a.scale * 1.44269504088896340736);
}

// Weights' factors under dropout: 0 or 1 / (1 - rate), for `count` keys from `key` on of one row of
// (batch, heads, queries, keys), written `step` apart.
template <class T>
HWY_NOINLINE void dropout_factors(const Attention& a, size_t row, size_t key, size_t count, T* to,
                                  size_t step) {
  const T kept = static_cast<T>(1.0 / (1.0 - a.dropout));
  const auto threshold = static_cast<std::uint32_t>(a.dropout * 65536 + 0.5);
  Draws draws = a.draws;
  draws.first += static_cast<std::uint64_t>(row) * a.keys + key;
  const size_t odd = draws.first % 2;  // the first word's low half is the element's before
  draws.first /= 2;
  const auto body = [&](const std::uint32_t* words, size_t at, size_t n) HWY_ATTR {
    const auto* halves = reinterpret_cast<const std::uint16_t*>(words);
    const size_t end = HWY_MIN(count + odd, 2 * (at + n));
    for (size_t h = HWY_MAX(2 * at, odd); h < end; ++h) {
      to[(h - odd) * step] = halves[h - 2 * at] >= threshold ? kept : T(0);
    }
  };
  each_words(draws, ceil_div(odd + count, 2), body);
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_ATTENTION_INL_HPP_
