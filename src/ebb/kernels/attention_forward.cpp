// The way forward. Scores are computed transposed, keys down and a panel of queries across, so that
// the running maximum and sum of a query are lanes of a vector, keys and values are used as they
// lie, and only the queries, once a tile, are turned.
#include <algorithm>
#include <utility>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/attention.hpp"
#include "ebb/kernels/float_dispatch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ebb/kernels/attention_forward.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ebb/kernels/attention-inl.hpp"
#include "ebb/kernels/attention_few-inl.hpp"
#include "ebb/kernels/partial-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ebb::kernels::HWY_NAMESPACE {
namespace {

constexpr size_t kKeys = kAttentionKeys;
constexpr size_t kQueries = 256;           // of a task: they share copies of the key tiles
constexpr size_t kTasks = 8;               // for each thread, or tasks stay as small as that
constexpr size_t kWidestPanel = 32;        // of any target
constexpr size_t kForkProducts = 400'000;  // multiply-adds that are worth a fork

// Queries of a task at most: they and their sums stay in L2.
constexpr size_t most_queries(size_t size) { return size <= 64 ? 2 * kQueries : kQueries; }

// What a thread works with, by element. Sizes hold for every target.
template <class T>
struct ForwardScratch {
  T* turned;   // queries: panels of [size][width]
  T* keys;     // [kKeys][size]
  T* values;   // panels of [kKeys][width]
  T* weights;  // [kKeys][width]
  T* factors;  // likewise: dropout
  T* out;      // [queries][padded]
  T* top;      // [queries]: running maximum of the scores
  T* sum;      // [queries]
  size_t elements;

  ForwardScratch(T* at, size_t size) {
    const T* begin = at;
    const auto take = [&](size_t n) { return std::exchange(at, at + round_up(n, 16)); };
    const size_t padded = round_up(size, kWidestPanel), queries = most_queries(size);
    turned = take(queries * size);
    keys = take(kKeys * size);
    values = take(kKeys * padded);
    weights = take(kKeys * kWidestPanel);
    factors = take(kKeys * kWidestPanel);
    out = take(queries * padded);
    top = take(queries);
    sum = take(queries);
    elements = static_cast<size_t>(at - begin);
  }
};

template <class T>
struct Forward {
  const Attention& a;
  const T *q, *k, *v;
  T *out, *levels;
  T* scratch;
  size_t scratch_elements;  // of each thread
  size_t queries;           // of a task

  size_t tiles() const { return ceil_div(a.queries, queries); }
  size_t tasks() const { return a.batch * a.heads * tiles(); }
};

// A panel of queries [i, i + n) against keys [first, last) of the tile that starts at `tile`.
template <class T>
struct Panel {
  size_t batch, head;
  size_t i, n;
  size_t tile;
  KeyRange keys;
};

// Scores that do not count become -inf.
template <class T>
HWY_NOINLINE void hide_scores(const Attention& a, const Panel<T>& p, T* scores) {
  const size_t width = panel_columns<T>();
  const T hidden = -std::numeric_limits<T>::infinity();
  const size_t rows = p.keys.end - p.keys.begin;
  for (size_t c = 0; c < p.n; ++c) {
    const KeyRange own = keys_seen(a, p.i + c, p.keys.begin, p.keys.end);
    const size_t begin = own.begin - p.keys.begin, end = own.end - p.keys.begin;
    for (size_t r = 0; r < begin; ++r) scores[r * width + c] = hidden;
    for (size_t r = end; r < rows; ++r) scores[r * width + c] = hidden;
  }
  if (a.mask == nullptr) return;
  for (size_t c = 0; c < p.n; ++c) {
    const size_t row = a.mask_by_query ? p.batch * a.queries + p.i + c : p.batch;
    const bool* mask = a.mask + row * a.keys + p.keys.begin;
    for (size_t r = 0; r < rows; ++r) {
      if (!mask[r]) scores[r * width + c] = hidden;
    }
  }
}

// Scores to weights, in place, going on from the maximum and the sum so far; gives in `factor` what
// the sums so far are to be multiplied by, and whether that is anything but 1.
template <class T>
HWY_NOINLINE bool weigh(T* HWY_RESTRICT weights, size_t rows, T* top, T* sum, T* factor) {
  const AttentionTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d), width = 2 * lanes;
  const V lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  V most0 = lowest, most1 = lowest;
  for (size_t r = 0; r < rows; ++r) {
    most0 = hn::Max(most0, hn::LoadU(d, weights + r * width));
    most1 = hn::Max(most1, hn::LoadU(d, weights + r * width + lanes));
  }
  const V old0 = hn::LoadU(d, top), old1 = hn::LoadU(d, top + lanes);
  most0 = hn::Max(old0, most0);
  most1 = hn::Max(old1, most1);
  hn::StoreU(most0, d, top);
  hn::StoreU(most1, d, top + lanes);
  // Where no key has been seen, any finite number does: all weights are 0.
  const V from0 = hn::IfThenZeroElse(hn::Eq(most0, lowest), most0);
  const V from1 = hn::IfThenZeroElse(hn::Eq(most1, lowest), most1);
  const V factor0 = weight_of<T>(d, hn::Sub(old0, from0));
  const V factor1 = weight_of<T>(d, hn::Sub(old1, from1));
  V sum0 = hn::Mul(hn::LoadU(d, sum), factor0), sum1 = hn::Mul(hn::LoadU(d, sum + lanes), factor1);
  for (size_t r = 0; r < rows; ++r) {
    T* at = weights + r * width;
    const V w0 = weight_of<T>(d, hn::Sub(hn::LoadU(d, at), from0));
    const V w1 = weight_of<T>(d, hn::Sub(hn::LoadU(d, at + lanes), from1));
    sum0 = hn::Add(sum0, w0);
    sum1 = hn::Add(sum1, w1);
    hn::StoreU(w0, d, at);
    hn::StoreU(w1, d, at + lanes);
  }
  hn::StoreU(sum0, d, sum);
  hn::StoreU(sum1, d, sum + lanes);
  hn::StoreU(factor0, d, factor);
  hn::StoreU(factor1, d, factor + lanes);
  const V one = hn::Set(d, T(1));
  return !hn::AllTrue(d, hn::And(hn::Eq(factor0, one), hn::Eq(factor1, one)));
}

template <class T>
HWY_NOINLINE void scale_rows(T* rows, size_t count, size_t padded, const T* factors) {
  const AttentionTag<T> d;
  for (size_t r = 0; r < count; ++r, rows += padded) {
    const auto factor = hn::Set(d, factors[r]);
    for (size_t i = 0; i < padded; i += hn::Lanes(d)) {
      hn::StoreU(hn::Mul(hn::LoadU(d, rows + i), factor), d, rows + i);
    }
  }
}

template <class T>
HWY_NOINLINE void drop_weights(const Attention& a, const Panel<T>& p, T* weights, T* factors) {
  const AttentionTag<T> d;
  const size_t width = panel_columns<T>(), rows = p.keys.end - p.keys.begin;
  for (size_t c = 0; c < p.n; ++c) {
    const size_t row = (p.batch * a.heads + p.head) * a.queries + p.i + c;
    dropout_factors(a, row, p.keys.begin, rows, factors + c, width);
  }
  for (size_t i = 0; i < rows * width; i += hn::Lanes(d)) {
    const auto kept = hn::Mul(hn::LoadU(d, weights + i), hn::LoadU(d, factors + i));
    hn::StoreU(kept, d, weights + i);
  }
}

// One key's value, which is not finite, to the queries that see it.
template <class T>
HWY_NOINLINE void add_value(const Attention& a, const ForwardScratch<T>& s, const Panel<T>& p,
                            size_t row, T* out, size_t padded) {
  const size_t width = panel_columns<T>();
  const T* weights = s.weights + (p.tile + row - p.keys.begin) * width;
  for (size_t c = 0; c < p.n; ++c, out += padded) {
    if (!sees(a, p.batch, p.i + c, p.tile + row)) continue;
    for (size_t i = 0; i < a.size; ++i)
      out[i] += weights[c] * s.values[(i / width * kKeys + row) * width + i % width];
  }
}

template <class T>
void add_keys(const Forward<T>& f, const ForwardScratch<T>& s, const Panel<T>& p, size_t panel,
              const BadRows& bad) {
  const Attention& a = f.a;
  const size_t width = panel_columns<T>(), padded = round_up(a.size, width);
  const size_t rows = p.keys.end - p.keys.begin, above = p.keys.begin - p.tile;
  const RowTiles by_key(rows), by_query(p.n);
  product<true>(by_key, 0, by_key.count, a.size, s.keys + above * a.size, a.size,
                s.turned + panel * a.size * width, width, 0, s.weights, width, width, true);
  const KeyRange all = keys_seen(a, p.i, p.keys.begin, p.keys.end);
  const KeyRange last = keys_seen(a, p.i + p.n - 1, p.keys.begin, p.keys.end);
  if (a.mask || all.end != p.keys.end || last.begin != p.keys.begin) hide_scores(a, p, s.weights);

  const size_t row = panel * width;
  HWY_ALIGN_MAX T factor[kWidestPanel];
  T* out = s.out + row * padded;
  if (weigh(s.weights, rows, s.top + row, s.sum + row, factor))
    scale_rows(out, p.n, padded, factor);
  if (a.dropout > 0) drop_weights(a, p, s.weights, s.factors);
  around_bad_rows(
      bad, above, above + rows,
      [&](size_t first, size_t last) HWY_ATTR {
        product<false>(by_query, 0, by_query.count, last - first,
                       s.weights + (first - above) * width, width, s.values + first * width, width,
                       kKeys * width, out, padded, padded, false);
      },
      [&](size_t row) HWY_ATTR { add_value(a, s, p, row, out, padded); });
}

// out and levels of one tile of queries, from sums.
template <class T>
void finish(const Forward<T>& f, const ForwardScratch<T>& s, size_t batch, size_t head, size_t i0,
            size_t n) {
  const Attention& a = f.a;
  const AttentionTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d), padded = round_up(a.size, panel_columns<T>());
  for (size_t i = 0; i < n; ++i) {
    const T sum = s.sum[i];
    const V divisor = hn::Set(d, sum == 0 ? T(1) : sum);
    const T* from = s.out + i * padded;
    T* to = f.out + ((batch * a.queries + i0 + i) * a.heads + head) * a.size;
    size_t c = 0;
    for (; c + lanes <= a.size; c += lanes) {
      hn::StoreU(hn::Div(hn::LoadU(d, from + c), divisor), d, to + c);
    }
    if (c < a.size) store_part(hn::Div(hn::LoadU(d, from + c), divisor), d, to + c, a.size - c);
  }
  T* levels = f.levels + 2 * ((batch * a.heads + head) * a.queries + i0);
  for (size_t i = 0; i < n; ++i) {
    levels[2 * i] = s.sum[i] == 0 ? T(0) : s.top[i];
    levels[2 * i + 1] = s.sum[i] == 0 ? T(0) : T(1) / s.sum[i];
  }
}

template <class T>
void forward_task(const Forward<T>& f, size_t task, const ForwardScratch<T>& s) {
  const Attention& a = f.a;
  const size_t tiles = f.tiles(), tile = tiles - 1 - task % tiles;  // the longest rows first
  const size_t head = task / tiles % a.heads, batch = task / tiles / a.heads;
  const size_t kv = head / (a.heads / a.kv_heads);
  const size_t i0 = tile * f.queries, n = std::min(f.queries, a.queries - i0);
  const size_t width = panel_columns<T>(), padded = round_up(a.size, width);
  const size_t panels = ceil_div(n, width);
  const bool few = n <= kFewQueries && a.dropout == 0;

  const T* q = f.q + (batch * a.queries + i0) * a.q_row + head * a.size;
  for (size_t p = 0; p < panels && !few; ++p) {
    pack_turned<T, T>(q + p * width * a.q_row, a.q_row, std::min(width, n - p * width), a.size,
                      s.turned + p * a.size * width, width);
  }
  std::fill_n(s.out, n * padded, T(0));
  std::fill_n(s.top, panels * width, -std::numeric_limits<T>::infinity());
  std::fill_n(s.sum, panels * width, T(0));

  BadRows bad;  // of the values
  const KeyRange seen = keys_seen(a, i0, i0 + n, 0, a.keys);
  for (size_t k0 = seen.begin / kKeys * kKeys; k0 < seen.end; k0 += kKeys) {
    const size_t first = std::max(k0, seen.begin), last = std::min(k0 + kKeys, seen.end);
    const T* k = f.k + (batch * a.keys + first) * a.k_row + kv * a.size;
    const T* v = f.v + (batch * a.keys + first) * a.v_row + kv * a.size;
    if (few) {
      add_few({a, batch, i0, n, q, s.keys, s.values, s.weights, s.out, s.top, s.sum, padded}, k, v,
              {first, last});
      continue;
    }
    copy_rows<true>(k, a.k_row, last - first, a.size, s.keys + (first - k0) * a.size, a.size,
                    score_scale<T>(a));
    for (size_t c = 0; c < a.size; c += width) {
      copy_rows(v + c, a.v_row, last - first, std::min(width, a.size - c),
                s.values + c * kKeys + (first - k0) * width, width);
    }
    find_bad_rows(a, v, a.v_row, last - first, a.size, &bad);
    for (size_t b = 0; b < bad.count; ++b) bad.row[b] += static_cast<std::uint16_t>(first - k0);
    for (size_t p = 0; p < panels; ++p) {
      const size_t i = i0 + p * width, count = std::min(width, n - p * width);
      const Panel<T> panel{batch, head, i, count, k0, keys_seen(a, i, i + count, first, last)};
      if (!panel.keys.empty()) add_keys(f, s, panel, p, bad);
    }
  }
  finish(f, s, batch, head, i0, n);
}

template <class T>
void run_forward(const Attention& a, const T* q, const T* k, const T* v, T* out, T* levels,
                 std::byte* scratch) {
  const size_t elements = ForwardScratch<T>(nullptr, a.size).elements;
  Forward<T> f{
      a, q, k, v, out, levels, reinterpret_cast<T*>(scratch), elements, most_queries(a.size)};
  if (f.tasks() < kTasks * static_cast<size_t>(pool::threads())) f.queries = kQueries;
  const size_t seen = a.window == 0 ? a.keys : std::min(a.keys, a.queries + a.window);
  const size_t products = 2 * a.batch * a.heads * a.queries * seen * a.size;
  const size_t grain = products < kForkProducts ? f.tasks() : 1;  // of one token, few are worth it
  pool::parallel_for(f.tasks(), grain, [&](size_t begin, size_t end) {
    const auto thread = static_cast<size_t>(pool::thread_index());
    const ForwardScratch<T> s(f.scratch + thread * f.scratch_elements, f.a.size);
    for (size_t task = begin; task < end; ++task) forward_task(f, task, s);
  });
}

EBB_FLOAT_TARGETS(forward, run_forward);
size_t forward_elements(size_t size) { return ForwardScratch<float>(nullptr, size).elements; }

}  // namespace
}  // namespace ebb::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::kernels {
namespace {

EBB_FLOAT_EXPORT(forward);
HWY_EXPORT(forward_elements);

}  // namespace

template <class T>
std::size_t attention_scratch(const Attention& a) {
  return HWY_DYNAMIC_DISPATCH(forward_elements)(a.size) * sizeof(T) *
         static_cast<std::size_t>(pool::threads());
}
template std::size_t attention_scratch<float>(const Attention&);
template std::size_t attention_scratch<double>(const Attention&);

template <class T>
void attention(const Attention& a, const T* q, const T* k, const T* v, T* out, T* levels,
               std::span<std::byte> scratch) {
  EBB_FLOAT_DISPATCH(T, forward)(a, q, k, v, out, levels, scratch.data());
}
template void attention(const Attention&, const float*, const float*, const float*, float*, float*,
                        std::span<std::byte>);
template void attention(const Attention&, const double*, const double*, const double*, double*,
                        double*, std::span<std::byte>);

}  // namespace ebb::kernels
#endif
