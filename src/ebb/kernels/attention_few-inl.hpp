// Forward attention of a few queries, as when text is generated a token at a time. Here the keys are turned
// and lie across, so that no lane of a vector is idle; queries and values are used as they lie. Every sum is
// the chain that it is for many queries: the bits are the same.

#if defined(EBB_KERNELS_ATTENTION_FEW_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef EBB_KERNELS_ATTENTION_FEW_INL_HPP_
#undef EBB_KERNELS_ATTENTION_FEW_INL_HPP_
#else
#define EBB_KERNELS_ATTENTION_FEW_INL_HPP_
#endif

#include <algorithm>
#include <cstddef>
#include <limits>

#include "ebb/kernels/attention-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kFewQueries = 4;

// Queries [i, i + n) of one head, and what a thread has for them.
template <class T>
struct FewQueries {
  const Attention& a;
  size_t batch, i, n;
  const T* q;          // as it lies
  T *keys, *values;    // [kAttentionKeys][size], and padded
  T* weights;          // [n][kAttentionKeys]
  T *out, *top, *sum;  // [n][padded], [n], [n]
  size_t padded;
};

// Keys [first, last) of a tile.
struct KeyTile {
  size_t first, last;
  size_t rows() const { return last - first; }
};

// Scores that do not count, and those behind the last key, become -inf.
template <class T>
HWY_INLINE void hide_few(const FewQueries<T>& f, const KeyTile& t, size_t query, T* scores) {
  const Attention& a = f.a;
  const T hidden = -std::numeric_limits<T>::infinity();
  const KeyRange own = keys_seen(a, f.i + query, t.first, t.last);
  const size_t begin = HWY_MIN(own.begin, own.end) - t.first, end = own.end - t.first;
  std::fill(scores, scores + begin, hidden);
  std::fill(scores + end, scores + round_up(t.rows(), panel_columns<T>()), hidden);
  if (a.mask == nullptr) return;
  const size_t row = a.mask_by_query ? f.batch * a.queries + f.i + query : f.batch;
  const bool* mask = a.mask + row * a.keys + t.first;
  for (size_t r = 0; r < t.rows(); ++r) {
    if (!mask[r]) scores[r] = hidden;
  }
}

// As weigh() of many queries: scores to weights, and what the sums so far are to be multiplied by.
template <class T>
HWY_NOINLINE T weigh_few(T* HWY_RESTRICT weights, size_t rows, T& top, T& sum) {
  const AttentionTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const T lowest = -std::numeric_limits<T>::infinity();
  V most = hn::Set(d, top);
  for (size_t r = 0; r < rows; r += lanes) most = hn::Max(most, hn::LoadU(d, weights + r));
  const T before = top;
  top = hn::GetLane(hn::MaxOfLanes(d, most));
  const T from = top == lowest ? T(0) : top;
  const T factor = hn::GetLane(weight_of<T>(d, hn::Set(d, before - from)));
  const V measure = hn::Set(d, from);
  for (size_t r = 0; r < rows; r += lanes) {
    hn::StoreU(weight_of<T>(d, hn::Sub(hn::LoadU(d, weights + r), measure)), d, weights + r);
  }
  T total = sum * factor;
  for (size_t r = 0; r < rows; ++r) total += weights[r];
  sum = total;
  return factor;
}

// One tile of keys and values, from their first rows on.
template <class T>
HWY_NOINLINE void add_few(const FewQueries<T>& f, const T* k, const T* v, const KeyTile& t) {
  const Attention& a = f.a;
  const size_t width = panel_columns<T>(), rows = t.rows(), across = round_up(rows, width);
  for (size_t c = 0; c < rows; c += width) {
    pack_turned<T, T>(k + c * a.k_row, a.k_row, HWY_MIN(width, rows - c), a.size,
                      f.keys + c * a.size, width);
  }
  scale_all(f.keys, across * a.size, score_scale<T>(a));
  const RowTiles queries(f.n);
  product<true>(queries, 0, queries.count, a.size, f.q, a.q_row, f.keys, width, a.size * width,
                f.weights, kAttentionKeys, across, true);
  for (size_t r = 0; r < f.n; ++r) {
    T *weights = f.weights + r * kAttentionKeys, *out = f.out + r * f.padded;
    hide_few(f, t, r, weights);
    const T factor = weigh_few(weights, across, f.top[r], f.sum[r]);
    if (factor != T(1)) scale_all(out, f.padded, factor);
  }

  const bool in_place = a.size % width == 0;  // else a vector would reach beyond a head
  if (!in_place) {
    for (size_t c = 0; c < a.size; c += width) {
      copy_rows(v + c, a.v_row, rows, HWY_MIN(width, a.size - c), f.values + c * kAttentionKeys,
                width);
    }
  }
  const T* values = in_place ? v : f.values;
  const size_t value_row = in_place ? a.v_row : width;
  const size_t value_panel = in_place ? width : kAttentionKeys * width;
  BadRows bad;
  find_bad_rows(a, v, a.v_row, rows, a.size, &bad);
  around_bad_rows(
      bad, 0, rows,
      [&](size_t begin, size_t end) HWY_ATTR {
        product<true>(queries, 0, queries.count, end - begin, f.weights + begin, kAttentionKeys,
                      values + begin * value_row, value_row, value_panel, f.out, f.padded, f.padded,
                      false);
      },
      [&](size_t row) HWY_ATTR {
        for (size_t r = 0; r < f.n; ++r) {
          if (!sees(a, f.batch, f.i + r, t.first + row)) continue;
          T* out = f.out + r * f.padded;
          for (size_t i = 0; i < a.size; ++i)
            out[i] += f.weights[r * kAttentionKeys + row] * v[row * a.v_row + i];
        }
      });
}

}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // EBB_KERNELS_ATTENTION_FEW_INL_HPP_
