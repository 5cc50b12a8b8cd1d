// The way back. Scores are computed queries down, a panel of keys across: keys and values are
// turned once for all queries that see them; queries and the gradient of out are used as they lie.
//
// One pass over the tiles of a key head gives dq, dk and dv from one computation of the weights. A
// tile of keys is a task, so that threads of unequal speed end together; it adds to dq of a tile of
// queries when the keys before it have done so. Where that leaves too little to do at a time for the
// threads, dq is computed apart from dk and dv, each cut into tiles: the weights then come twice,
// the bits are the same.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/attention.hpp"
#include "ebb/kernels/float_dispatch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/attention_backward.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/attention-inl.hpp"
#include "ebb/kernels/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

constexpr size_t kKeys = 256;
static_assert(kKeys <= BadRows::kMost);
constexpr size_t kQueries = 64;
constexpr size_t kWidestPanel = 32;        // of any target
constexpr size_t kSlopesRow = kKeys + 16;  // more than a power of two: rows share no cache set

template <class T>
struct BackwardScratch {
  T *turned_keys, *turned_values;  // panels of [size][width], scaled
  T* keys;                         // [kKeys][padded]
  T *dk, *dv;                      // likewise
  T *q, *dout;                     // [kQueries][padded]; dout over the sum of its row
  T* weights;                      // [kQueries][width]: of one panel
  T* slopes;                       // [kQueries][kSlopesRow]: gradients of the scores
  T* factors;                      // [kQueries][width]: dropout
  size_t elements;

  BackwardScratch(T* at, size_t size) {
    const T* begin = at;
    const auto take = [&](size_t n) { return std::exchange(at, at + round_up(n, 16)); };
    const size_t padded = round_up(size, kWidestPanel);
    turned_keys = take(kKeys * size);
    turned_values = take(kKeys * size);
    keys = take(kKeys * padded);
    dk = take(kKeys * padded);
    dv = take(kKeys * padded);
    q = take(kQueries * padded);
    dout = take(kQueries * padded);
    weights = take(kQueries * kWidestPanel);
    slopes = take(kQueries * kSlopesRow);
    factors = take(kQueries * kWidestPanel);
    elements = static_cast<size_t>(at - begin);
  }
};

// At least one: it makes dq zero.
size_t key_tiles_of(const Attention& a) { return a.keys == 0 ? 1 : ceil_div(a.keys, kKeys); }

template <class T>
struct Backward {
  const Attention& a;
  const T *q, *k, *v, *out, *levels, *dout;
  T *dq, *dk, *dv;
  T* dots;              // (batch, heads, queries): scale <out, dout> / sum
  std::uint32_t* done;  // (batch, kv_heads, key tiles): query tiles whose dq has been added to
  T* scratch;
  size_t scratch_elements;  // of each thread

  size_t query_tiles() const { return ceil_div(a.queries, kQueries); }
  size_t key_tiles() const { return key_tiles_of(a); }
  size_t row(size_t batch, size_t head) const { return (batch * a.heads + head) * a.queries; }
};

// A tile of queries [i, i + n) against a tile of keys [k, k + m).
struct Pair {
  size_t batch, head;
  size_t i, n, k, m;
  size_t coming = 0;  // queries of the same head that follow at once
  // The keys before these add to dq first: a count that is to reach `step`. None: nothing to wait
  // for.
  std::uint32_t* before = nullptr;
  std::uint32_t step = 0;
};

// Waits for a task that began earlier.
HWY_INLINE void await(const Pair& p) {
  if (p.before == nullptr) return;
  const std::atomic_ref<std::uint32_t> at(*p.before);
  for (int spin = 0; at.load(std::memory_order_acquire) < p.step; ++spin) {
    if (spin < 256) {
      hwy::Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

// ---- what is computed once for several pairs ----

template <class T>
HWY_NOINLINE void compute_dots(const Backward<T>& b, size_t begin, size_t end) {
  const Attention& a = b.a;
  for (size_t position = begin; position < end; ++position) {  // of (batch, queries)
    const size_t batch = position / a.queries, i = position % a.queries;
    for (size_t head = 0; head < a.heads; ++head) {
      const size_t at = (position * a.heads + head) * a.size;
      const T *x = b.out + at, *y = b.dout + at;
      const T dot = row_sum<T>(a.size, [&](auto sum, size_t c, auto amount) EBB_LAMBDA {
        return hn::MulAdd(load(x + c, amount), load(y + c, amount), sum);
      });
      const size_t row = b.row(batch, head) + i;
      b.dots[row] = static_cast<T>(a.scale) * (b.levels[2 * row + 1] * dot);
    }
  }
}

template <class T>
void load_keys(const Backward<T>& b, const BackwardScratch<T>& s, size_t batch, size_t kv,
               size_t k0, size_t m, BadRows* bad) {
  const Attention& a = b.a;
  const size_t width = panel_columns<T>(), padded = round_up(a.size, width);
  const T* k = b.k + (batch * a.keys + k0) * a.k_row + kv * a.size;
  const T* v = b.v + (batch * a.keys + k0) * a.v_row + kv * a.size;
  copy_rows(k, a.k_row, m, a.size, s.keys, padded);
  find_bad_rows(a, k, a.k_row, m, a.size, bad);
  for (size_t c = 0; c < m; c += width) {
    const size_t n = std::min(width, m - c);
    pack_turned<T, T>(s.keys + c * padded, padded, n, a.size, s.turned_keys + c * a.size, width);
    pack_turned<T, T>(v + c * a.v_row, a.v_row, n, a.size, s.turned_values + c * a.size, width);
  }
  const size_t turned = round_up(m, width) * a.size;
  scale_all(s.turned_keys, turned, score_scale<T>(a));
  scale_all(s.turned_values, turned, static_cast<T>(a.scale));
}

template <class T>
void load_queries(const Backward<T>& b, const BackwardScratch<T>& s, const Pair& p) {
  const Attention& a = b.a;
  const size_t padded = round_up(a.size, panel_columns<T>()), out_row = a.heads * a.size;
  const size_t position = p.batch * a.queries + p.i;
  copy_rows(b.q + position * a.q_row + p.head * a.size, a.q_row, p.n, a.size, s.q, padded);
  const T* dout = b.dout + position * out_row + p.head * a.size;
  const T* levels = b.levels + 2 * (b.row(p.batch, p.head) + p.i);
  for (size_t r = 0; r < p.n; ++r, dout += out_row) {
    const T inverse = levels[2 * r + 1];
    copy_rows<true>(dout, out_row, 1, a.size, s.dout + r * padded, padded, inverse);
    if (inverse != 0) continue;  // that of a query that sees nothing is not looked at
    std::fill_n(s.q + r * padded, a.size, T(0));
    std::fill_n(s.dout + r * padded, a.size, T(0));
  }
}

// Asks for rows of `size` elements that will be copied soon: they lie apart, so the machine does not
// foresee them.
template <class T>
HWY_INLINE void fetch_rows(const T* from, size_t row, size_t rows, size_t size) {
  for (size_t r = 0; r < rows; ++r, from += row) {
    for (size_t i = 0; i < size; i += 64 / sizeof(T)) __builtin_prefetch(from + i, 0, 2);
  }
}

// Asks for a share of the queries that come next, while one panel of several is under way.
template <class T>
HWY_INLINE void fetch_queries(const Backward<T>& b, const Pair& p, size_t panel, size_t panels) {
  const Attention& a = b.a;
  const size_t begin = panel * p.coming / panels, rows = (panel + 1) * p.coming / panels - begin;
  const size_t position = p.batch * a.queries + p.i + p.n + begin, out_row = a.heads * a.size;
  const size_t column = p.head * a.size;
  fetch_rows(b.q + position * a.q_row + column, a.q_row, rows, a.size);
  fetch_rows(b.dq + position * a.q_row + column, a.q_row, rows, a.size);
  fetch_rows(b.dout + position * out_row + column, out_row, rows, a.size);
}

// ---- one panel of keys ----

// Weights and slopes that do not count become 0, whatever they were computed from. Keys [c, c +
// width) of the pair, its queries [r, r_end).
template <class T>
HWY_NOINLINE void hide_weights(const Attention& a, const Pair& p, size_t c, size_t r, size_t r_end,
                               T* weights, T* slopes) {
  const size_t width = panel_columns<T>();
  const size_t first = p.k + c, last = std::min(first + width, p.k + p.m);
  for (; r < r_end; ++r) {
    T *weight = weights + r * width - first, *slope = slopes + r * kSlopesRow - first;  // of key 0
    const auto hide = [&](size_t begin, size_t end) {
      for (size_t j = begin; j < end; ++j) weight[j] = slope[j] = 0;
    };
    const KeyRange own = keys_seen(a, p.i + r, first, last);
    hide(first, own.begin);
    hide(own.end, last);
    if (a.mask == nullptr) {
      if (own.end == last && a.window == 0) return;  // later ones see no less
      continue;
    }
    const bool* mask =
        a.mask + (a.mask_by_query ? p.batch * a.queries + p.i + r : p.batch) * a.keys;
    for (size_t j = own.begin; j < own.end; ++j) {
      if (!mask[j]) hide(j, j + 1);
    }
  }
}

// Scores to weights and the weights' gradients to those of the scores, both in place, of queries
// [r, r_end): p = 2^(s - top), ds = p (dp - dot). All that they meet is over the sum of the row
// already. With dropout, factors turn the weights into those that were used, and their gradients
// back.
template <bool kDropout, class T>
HWY_NOINLINE void weigh(const T* levels, const T* dots, size_t r, size_t r_end,
                        T* HWY_RESTRICT weights, T* HWY_RESTRICT slopes,
                        const T* HWY_RESTRICT factors) {
  const AttentionTag<T> d;
  const size_t lanes = hn::Lanes(d), width = 2 * lanes;
  for (; r < r_end; ++r) {
    const auto top = hn::Set(d, levels[2 * r]), dot = hn::Set(d, dots[r]);
    for (size_t v = 0; v < 2; ++v) {
      T *w = weights + r * width + v * lanes, *s = slopes + r * kSlopesRow + v * lanes;
      const auto weight = weight_of<T>(d, hn::Sub(hn::LoadU(d, w), top));
      auto slope = hn::LoadU(d, s);
      auto used = weight;
      if constexpr (kDropout) {
        const auto factor = hn::LoadU(d, factors + r * width + v * lanes);
        slope = hn::Mul(slope, factor);
        used = hn::Mul(weight, factor);
      }
      hn::StoreU(used, d, w);
      hn::StoreU(hn::Mul(weight, hn::Sub(slope, dot)), d, s);
    }
  }
}

// The groups of queries of which some sees some of keys [first, last): between the first and last.
HWY_INLINE void groups_that_see(const Attention& a, const Pair& p, const RowTiles& groups,
                                size_t first, size_t last, size_t* g, size_t* g_end) {
  *g = 0;
  *g_end = groups.count;
  if (!a.causal) return;
  const auto sees = [&](size_t group) {
    const size_t i = p.i + groups.begin(group), i_end = p.i + groups.begin(group + 1);
    return !keys_seen(a, i, i_end, first, last).empty();
  };
  while (*g < *g_end && !sees(*g)) ++*g;
  while (*g < *g_end && !sees(*g_end - 1)) --*g_end;
}

// The weights of keys [c, c + width) of the pair and the slopes of their scores; adds to dk and dv
// where those are wanted.
template <class T>
void add_panel(const Backward<T>& b, const BackwardScratch<T>& s, const Pair& p,
               const RowTiles& groups, size_t c, bool keys_wanted) {
  const Attention& a = b.a;
  const size_t width = panel_columns<T>(), padded = round_up(a.size, width);
  const size_t m = std::min(width, p.m - c);
  size_t g, g_end;
  groups_that_see(a, p, groups, p.k + c, p.k + c + m, &g, &g_end);
  if (g == g_end) return;
  const size_t r = groups.begin(g), r_end = groups.begin(g_end);
  T* slopes = s.slopes + c;
  product<true>(groups, g, g_end, a.size, s.q, padded, s.turned_keys + c * a.size, width, 0,
                s.weights, width, width, true);
  product<true>(groups, g, g_end, a.size, s.dout, padded, s.turned_values + c * a.size, width, 0,
                slopes, kSlopesRow, width, true);
  const size_t row = b.row(p.batch, p.head) + p.i;
  const T *levels = b.levels + 2 * row, *dots = b.dots + row;
  if (a.dropout > 0) {
    for (size_t i = r; i < r_end; ++i) {
      dropout_factors(a, row + i, p.k + c, m, s.factors + i * width, 1);
    }
    weigh<true>(levels, dots, r, r_end, s.weights, slopes, s.factors);
  } else {
    weigh<false>(levels, dots, r, r_end, s.weights, slopes, s.factors);
  }
  const KeyRange low = keys_seen(a, p.i + r, p.k + c, p.k + c + m);
  const KeyRange high = keys_seen(a, p.i + r_end - 1, p.k + c, p.k + c + m);
  if (a.mask != nullptr || low.end < p.k + c + m || high.begin > p.k + c)
    hide_weights(a, p, c, r, r_end, s.weights, slopes);
  if (!keys_wanted) return;
  const RowTiles by_key(m);
  product<false>(by_key, 0, by_key.count, r_end - r, s.weights + r * width, width,
                 s.dout + r * padded, padded, width, s.dv + c * padded, padded, padded, false);
  product<false>(by_key, 0, by_key.count, r_end - r, slopes + r * kSlopesRow, kSlopesRow,
                 s.q + r * padded, padded, width, s.dk + c * padded, padded, padded, false);
}

// ---- one pair of tiles ----

// One key, which is not finite, to dq of the queries of [r, r_end) that see it.
template <class T>
HWY_NOINLINE void add_key(const Backward<T>& b, const BackwardScratch<T>& s, const Pair& p,
                          size_t row, size_t r, size_t r_end, T* dq) {
  const Attention& a = b.a;
  const T* key = s.keys + row * round_up(a.size, panel_columns<T>());
  for (; r < r_end; ++r) {
    if (!sees(a, p.batch, p.i + r, p.k + row)) continue;
    const T slope = s.slopes[r * kSlopesRow + row];
    for (size_t i = 0; i < a.size; ++i) dq[r * a.q_row + i] += slope * key[i];
  }
}

template <class T>
void add_pair(const Backward<T>& b, const BackwardScratch<T>& s, const Pair& p, const BadRows& bad,
              bool queries_wanted, bool keys_wanted) {
  const Attention& a = b.a;
  const size_t width = panel_columns<T>(), padded = round_up(a.size, width);
  const RowTiles groups(p.n);
  const size_t panels = ceil_div(p.m, width);
  for (size_t c = 0; c < panels; ++c) {
    fetch_queries(b, p, c, panels);
    add_panel(b, s, p, groups, c * width, keys_wanted);
  }
  if (!queries_wanted) return;
  await(p);
  T* dq = b.dq + (p.batch * a.queries + p.i) * a.q_row + p.head * a.size;
  size_t g = 0;
  while (g < groups.count) {  // groups that see the same keys go together
    const auto keys_of = [&](size_t group) {
      return keys_seen(a, p.i + groups.begin(group), p.i + groups.begin(group + 1), p.k, p.k + p.m);
    };
    const KeyRange keys = keys_of(g);
    size_t end = g + 1;
    while (end < groups.count && keys_of(end).begin == keys.begin && keys_of(end).end == keys.end)
      ++end;
    if (!keys.empty()) {
      around_bad_rows(
          bad, keys.begin - p.k, keys.end - p.k,
          [&](size_t first, size_t last) HWY_ATTR {
            product<true>(groups, g, end, last - first, s.slopes + first, kSlopesRow,
                          s.keys + first * padded, padded, width, dq, a.q_row, a.size, false);
          },
          [&](size_t row)
              HWY_ATTR { add_key(b, s, p, row, groups.begin(g), groups.begin(end), dq); });
    }
    g = end;
  }
}

template <class T>
void zero_queries(const Backward<T>& b, size_t batch, size_t head, size_t i, size_t i_end) {
  const Attention& a = b.a;
  for (; i < i_end; ++i) {
    std::fill_n(b.dq + (batch * a.queries + i) * a.q_row + head * a.size, a.size, T(0));
  }
}

// dk and dv of one tile of keys, and what it adds to dq of all queries that see it. Tiles of one key
// head are begun in order, by any thread; the first makes dq zero.
template <class T>
void key_tile(const Backward<T>& b, const BackwardScratch<T>& s, size_t unit, size_t tile,
              bool queries_wanted) {
  const Attention& a = b.a;
  const size_t batch = unit / a.kv_heads, kv = unit % a.kv_heads, group = a.heads / a.kv_heads;
  const size_t k0 = tile * kKeys, m = std::min(kKeys, a.keys - k0);
  const size_t padded = round_up(a.size, panel_columns<T>());
  std::uint32_t* done = b.done + unit * b.key_tiles() + tile;
  std::uint32_t step = 0;
  BadRows bad;
  load_keys(b, s, batch, kv, k0, m, &bad);
  std::fill_n(s.dk, m * padded, T(0));
  std::fill_n(s.dv, m * padded, T(0));
  for (size_t head = kv * group; head < (kv + 1) * group; ++head) {
    for (size_t i = 0; i < a.queries; i += kQueries) {
      const size_t n = std::min(kQueries, a.queries - i);
      const Pair p{batch,
                   head,
                   i,
                   n,
                   k0,
                   m,
                   std::min(kQueries, a.queries - i - n),
                   queries_wanted && tile > 0 ? done - 1 : nullptr,
                   ++step};
      if (queries_wanted && tile == 0) zero_queries(b, batch, head, i, i + n);
      if (keys_seen(a, i, i + n, k0, k0 + m).empty()) {
        await(p);
      } else {
        load_queries(b, s, p);
        add_pair(b, s, p, bad, queries_wanted, true);
      }
      if (queries_wanted)
        std::atomic_ref<std::uint32_t>(*done).store(step, std::memory_order_release);
    }
  }
  const size_t at = batch * a.keys + k0;
  for (size_t r = 0; r < m; ++r) {
    std::memcpy(b.dk + (at + r) * a.k_row + kv * a.size, s.dk + r * padded, a.size * sizeof(T));
    std::memcpy(b.dv + (at + r) * a.v_row + kv * a.size, s.dv + r * padded, a.size * sizeof(T));
  }
}

template <class T>
void query_tile(const Backward<T>& b, const BackwardScratch<T>& s, size_t batch, size_t head,
                size_t tile) {
  const Attention& a = b.a;
  const size_t i = tile * kQueries, n = std::min(kQueries, a.queries - i);
  const size_t kv = head / (a.heads / a.kv_heads);
  zero_queries(b, batch, head, i, i + n);
  load_queries(b, s, Pair{batch, head, i, n, 0, 0});
  BadRows bad;
  const KeyRange seen = keys_seen(a, i, i + n, 0, a.keys);
  for (size_t k0 = seen.begin / kKeys * kKeys; k0 < seen.end; k0 += kKeys) {
    const size_t m = std::min(kKeys, a.keys - k0);
    load_keys(b, s, batch, kv, k0, m, &bad);
    add_pair(b, s, Pair{batch, head, i, n, k0, m}, bad, true, false);
  }
}

// One pass is 5 products on tiles of keys, of which few may be under way at a time; two passes are 7,
// on any number of threads.
template <class T>
bool one_pass(const Backward<T>& b, size_t threads) {
  const size_t units = b.a.batch * b.a.kv_heads, tiles = b.key_tiles();
  if (round_up(units, threads) * 5 <= units * 7) return true;
  const size_t steps = b.query_tiles() * (b.a.heads / b.a.kv_heads);  // of one tile, at most
  const size_t work = units * tiles * steps / (b.a.causal ? 2 : 1);
  return (steps + tiles) * threads * 6 <= work * 7;
}

template <class T>
void run_backward(const Backward<T>& b) {
  const Attention& a = b.a;
  const auto own = [&] {
    const auto thread = static_cast<size_t>(pool::thread_index());
    return BackwardScratch<T>(b.scratch + thread * b.scratch_elements, a.size);
  };
  pool::parallel_for(a.batch * a.queries, 1 + 32768 / (a.heads * a.size + 1),
                     [&](size_t begin, size_t end) { compute_dots(b, begin, end); });
  const size_t units = a.batch * a.kv_heads, key_tiles = b.key_tiles();
  const size_t query_tiles = b.query_tiles(), key_tasks = units * key_tiles;
  const size_t threads = static_cast<size_t>(pool::threads());
  if (one_pass(b, threads)) {
    std::fill_n(b.done, key_tasks, 0u);
    pool::parallel_for(key_tasks, 1, [&](size_t begin, size_t end) {
      const BackwardScratch<T> s = own();
      for (size_t task = begin; task < end; ++task) {
        // As many units side by side as there are threads: what a tile waits for is then long done.
        const size_t first = task / (threads * key_tiles) * threads;
        const size_t beside = std::min(threads, units - first), at = task - first * key_tiles;
        key_tile(b, s, first + at % beside, at / beside, true);
      }
    });
    return;
  }
  pool::parallel_for(key_tasks + a.batch * a.heads * query_tiles, 1, [&](size_t begin, size_t end) {
    const BackwardScratch<T> s = own();
    for (size_t task = begin; task < end; ++task) {
      if (task < key_tasks) {
        key_tile(b, s, task / key_tiles, task % key_tiles, false);
      } else {
        const size_t at = task - key_tasks, unit = at / query_tiles;
        query_tile(b, s, unit / a.heads, unit % a.heads, query_tiles - 1 - at % query_tiles);
      }
    }
  });
}

template <class T>
size_t dot_elements(const Attention& a) {
  return round_up(a.batch * a.heads * a.queries, 16);
}

template <class T>
size_t done_elements(const Attention& a) {
  return round_up(a.batch * a.kv_heads * key_tiles_of(a), 16);
}

template <class T>
void backward_of(const Attention& a, const T* q, const T* k, const T* v, const T* out,
                 const T* levels, const T* dout, T* dq, T* dk, T* dv, std::byte* scratch) {
  T *dots = reinterpret_cast<T*>(scratch), *done = dots + dot_elements<T>(a);
  run_backward(Backward<T>{a, q, k, v, out, levels, dout, dq, dk, dv, dots,
                           reinterpret_cast<std::uint32_t*>(done), done + done_elements<T>(a),
                           BackwardScratch<T>(nullptr, a.size).elements});
}

EBB_FLOAT_TARGETS(backward, backward_of);
size_t backward_elements(const Attention& a, size_t threads) {
  return dot_elements<float>(a) + done_elements<float>(a) +
         BackwardScratch<float>(nullptr, a.size).elements * threads;
}

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

EBB_FLOAT_EXPORT(backward);
HWY_EXPORT(backward_elements);

}  // namespace

template <class T>
std::size_t attention_backward_scratch(const Attention& a) {
  return sizeof(T) *
         HWY_DYNAMIC_DISPATCH(backward_elements)(a, static_cast<std::size_t>(pool::threads()));
}
template std::size_t attention_backward_scratch<float>(const Attention&);
template std::size_t attention_backward_scratch<double>(const Attention&);

template <class T>
void attention_backward(const Attention& a, const T* q, const T* k, const T* v, const T* out,
                        const T* levels, const T* dout, T* dq, T* dk, T* dv,
                        std::span<std::byte> scratch) {
  EBB_FLOAT_DISPATCH(T, backward)(a, q, k, v, out, levels, dout, dq, dk, dv, scratch.data());
}
template void attention_backward(const Attention&, const float*, const float*, const float*,
                                 const float*, const float*, const float*, float*, float*, float*,
                                 std::span<std::byte>);
template void attention_backward(const Attention&, const double*, const double*, const double*,
                                 const double*, const double*, const double*, double*, double*,
                                 double*, std::span<std::byte>);

}  // namespace ebb::kernels
#endif
