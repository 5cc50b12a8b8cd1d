#include "ebb/kernels/reduce.hpp"

#include <algorithm>
#include <cmath>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/convert.hpp"
#include "ebb/kernels/elementwise.hpp"
#include "ebb/kernels/grain.hpp"
#include "ebb/kernels/reduce_leaf.hpp"

namespace ebb::kernels {

std::size_t Reduction::Loops::size() const {
  std::size_t n = 1;
  for (int r = 0; r < rank; ++r) n *= dim[r];
  return n;
}

std::size_t Reduction::Loops::offset(std::size_t index) const {
  std::size_t sum = 0;
  for (int r = rank - 1; r >= 0 && index != 0; --r) {
    sum += index % dim[r] * step[r];
    index /= dim[r];
  }
  return sum;
}

void Reduction::Loops::append(std::size_t n, std::size_t s) {
  if (n == 1) return;
  dim[rank] = n;
  step[rank++] = s;
}

Reduction reduction(std::span<const std::int64_t> shape, std::uint32_t axes) {
  Reduction r;
  const int rank = static_cast<int>(shape.size());
  const auto is_reduced = [&](int axis) { return (axes >> axis & 1u) != 0; };
  std::size_t step[kMaxDims], total = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    step[axis] = total;
    const auto n = static_cast<std::size_t>(shape[axis]);
    total *= n;
    (is_reduced(axis) ? r.count : r.outputs) *= n;
  }
  if (rank == 0) return r;
  r.inner_reduced = is_reduced(rank - 1);
  int first = rank - 1;  // of the innermost stretch
  const int stop = r.inner_reduced ? 1 : 0;
  while (first > stop && is_reduced(first - 1) == r.inner_reduced) --first;
  for (int axis = first; axis < rank; ++axis) r.inner *= static_cast<std::size_t>(shape[axis]);
  for (int axis = 0; axis < first; ++axis)
    (is_reduced(axis) ? r.reduced : r.kept)
        .append(static_cast<std::size_t>(shape[axis]), step[axis]);
  return r;
}

namespace {

constexpr std::size_t kPieces = 512;                             // block results held at a time
constexpr std::size_t kTile = 512;                               // columns accumulated at a time
constexpr std::size_t kLongPart = std::size_t{1} << 18;          // elements
constexpr std::size_t kGroupBytes = std::size_t{32} << 10;       // of short runs taken together
constexpr std::size_t kLongGroupBytes = std::size_t{256} << 10;  // where passes over them overlap

// A fold over all that makes up output element o, where the inner stretch is reduced.
template <class T, class A>
A fold_runs(Fold fold, const Reduction& r, const T* x, A start, const A* centre) {
  if (r.count == 0) return start;
  const Element element = element_of<T>();
  const std::size_t blocks = ceil_div(r.inner, kReduceBlock);  // of one run
  const std::size_t pieces = r.reduced.size() * blocks;
  A part[kPieces], chain = start, run = identity<A>(fold);
  for (std::size_t first = 0; first < pieces; first += kPieces) {
    const std::size_t some = std::min(kPieces, pieces - first);
    const std::size_t length = std::min(r.inner, kReduceBlock);
    const auto fold_pieces = [&](std::size_t begin, std::size_t end) {
      for (std::size_t p = begin; p < end;) {
        const std::size_t block = (first + p) % blocks, at = block * kReduceBlock;
        // Whole blocks of one run go together.
        const std::size_t whole = std::min(end - p, r.inner / kReduceBlock - block);
        const Stretches here{std::max<std::size_t>(1, whole), std::min(kReduceBlock, r.inner - at),
                             kReduceBlock, true};
        const T* from = x + r.reduced.offset((first + p) / blocks) + at;
        fold_blocks(element, fold, from, here, centre, &part[p]);
        p += here.count;
      }
    };
    pool::parallel_for(some, grain_for(length), fold_pieces);
    for (std::size_t p = 0; p < some; ++p) {
      run = combine<A>(fold, run, part[p]);
      if ((first + p) % blocks + 1 == blocks) {
        chain = combine<A>(fold, chain, run);
        run = identity<A>(fold);
      }
    }
  }
  return chain;
}

// The same for n neighbouring output elements where the inner stretch is kept.
template <class T, class A>
void fold_tile(Fold fold, const Reduction& r, const T* x, std::size_t n, const A* centre, A* acc) {
  if (r.count == 0) return;
  Reduction::Loops outer = r.reduced;  // its last loop is the rows of a leaf call
  std::size_t rows = 1, step = 0;
  if (outer.rank > 0) {
    rows = outer.dim[--outer.rank];
    step = outer.step[outer.rank];
  }
  const std::size_t times = outer.size();
  for (std::size_t i = 0; i < times; ++i)
    fold_rows(element_of<T>(), fold, x + outer.offset(i), rows, step, n, centre, acc);
}

Fold fold_of(Reduce op) {
  switch (op) {
    case Reduce::max:
      return Fold::max;
    case Reduce::min:
      return Fold::min;
    case Reduce::prod:
      return Fold::prod;
    case Reduce::logsumexp:
      return Fold::exps;
    case Reduce::var:
      return Fold::squares;
    default:
      return Fold::sum;
  }
}

// What var and logsumexp subtract first: from the sums, the means; from the maxima, a shift.
template <class A>
void to_centres(Reduce op, double count, A* c, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    if (op == Reduce::var) c[j] /= static_cast<A>(count);
    if (op == Reduce::logsumexp && c[j] == identity<A>(Fold::max)) c[j] = 0;
  }
}

template <class A>
void finish(Reduce op, double count, const ReduceOptions& options, const A* c, A* acc,
            std::size_t n) {
  if constexpr (std::is_floating_point_v<A>) {
    const double divisor = op == Reduce::var ? std::max(0.0, count - options.correction) : count;
    if (op == Reduce::mean || op == Reduce::var)
      for (std::size_t j = 0; j < n; ++j) acc[j] /= static_cast<A>(divisor);
    if (op == Reduce::logsumexp) {
      unary(Unary::log, acc, acc, n);
      for (std::size_t j = 0; j < n; ++j) acc[j] = std::isinf(c[j]) ? c[j] : acc[j] + c[j];
    }
  }
}

// Whether an output is made of one run of one block, so that several are taken together.
bool is_short(const Reduction& r) {
  return r.inner_reduced && r.count == r.inner && r.inner <= kReduceBlock && r.inner > 0;
}

// Output elements y[0 .. n) whose inputs start at x: where the inner stretch is reduced, n is 1,
// or, of short runs, they are `step` apart.
template <class T>
void reduce_outputs(Reduce op, const Reduction& r, const T* x, std::size_t step, T* y,
                    std::size_t n, const ReduceOptions& options) {
  using A = AccumulatorOf<T>;
  using Fetch = Stretches::Fetch;
  alignas(64) A acc[kTile], centre[kTile];
  const double count = static_cast<double>(r.count);
  const auto fold_all = [&](Fold fold, Fetch fetch, const A* c, A* to) {
    if (is_short(r)) {
      A part[kTile];
      fold_blocks(element_of<T>(), fold, x, {n, r.inner, step, false, fetch}, c, part);
      for (std::size_t j = 0; j < n; ++j)
        to[j] = combine<A>(fold, to[j], combine<A>(fold, identity<A>(fold), part[j]));
    } else if (r.inner_reduced) {
      to[0] = fold_runs(fold, r, x, to[0], c);
    } else {
      fold_tile(fold, r, x, n, c, to);
    }
  };
  const Fold fold = fold_of(op);
  const bool centred = op == Reduce::var || op == Reduce::logsumexp;
  if constexpr (std::is_floating_point_v<A>) {
    if (centred) {
      const Fold first = op == Reduce::var ? Fold::sum : Fold::max;
      std::fill_n(centre, n, identity<A>(first));
      fold_all(first, Fetch::even_lines_after, nullptr, centre);
      to_centres(op, count, centre, n);
    }
  }
  if (!options.accumulate) {
    std::fill_n(acc, n, identity<A>(fold));
  } else if constexpr (std::is_same_v<A, T>) {
    std::copy_n(y, n, acc);
  } else {
    convert(y, acc, n);
  }
  fold_all(fold, centred ? Fetch::odd_lines_after : Fetch::soon, centred ? centre : nullptr, acc);
  finish(op, count, options, centre, acc, n);
  if constexpr (std::is_same_v<A, T>) {
    std::copy_n(acc, n, y);
  } else {
    convert(acc, y, n);
  }
}

// logsumexp of n short runs, `step` apart: the largest element and the sum in one walk.
template <class T>
void log_sums_of_runs(const Reduction& r, const T* x, std::size_t step, T* y, std::size_t n) {
  T max[kTile], log_sum[kTile];
  fold_log_sums(element_of<T>(), x, {n, r.inner, step}, max, log_sum);
  for (std::size_t j = 0; j < n; ++j) {
    y[j] = max[j] + log_sum[j];
    if (!std::isinf(max[j])) continue;
    const T* run = x + j * step;  // no sum of differences from infinity; a NaN beside it wins
    y[j] = std::any_of(run, run + r.inner, [](T v) { return v != v; }) ? log_sum[j] : max[j];
  }
}

// Columns a task takes: as many as fit, but few enough for every thread to have some.
std::size_t tile_width(const Reduction& r) {
  const auto threads = static_cast<std::size_t>(pool::threads());
  std::size_t width = std::min(r.inner, kTile);
  if (r.kept.size() < threads)
    width = std::min(width, std::max<std::size_t>(64, round_up(r.inner / threads, 64)));
  return std::max<std::size_t>(1, width);
}

// Calls task(x offset, step, y offset, n) for stretches of outputs, on all threads.
template <class T, class Task>
void each_output(const Reduction& r, Task task, std::size_t group_bytes = kGroupBytes) {
  if (r.outputs == 0) return;
  if (r.inner_reduced) {
    // Few outputs of many elements each: one after the other, the threads work inside.
    const bool inside = r.count >= 2 * kGrain && r.outputs < 64;
    // Of large arrays parts are long: what is fetched ahead of a part's end is another's.
    const std::size_t part = r.outputs * r.count >= 32 * kLongPart ? kLongPart : kGrain;
    const std::size_t grain = inside ? r.outputs : std::max<std::size_t>(1, part / (r.count + 16));
    // Runs that lie evenly go together, as many as stay in the core's own cache.
    const std::size_t loop = r.kept.rank == 0 ? 1 : r.kept.dim[r.kept.rank - 1];
    const std::size_t step = r.kept.rank == 0 ? 0 : r.kept.step[r.kept.rank - 1];
    const std::size_t most =
        is_short(r) ? std::clamp<std::size_t>(group_bytes / (r.inner * sizeof(T)), 4, kTile) : 1;
    pool::parallel_for(r.outputs, grain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t o = begin; o < end;) {
        const std::size_t n = std::min({most, end - o, loop - o % loop});
        task(r.kept.offset(o), step, o, n);
        o += n;
      }
    });
    return;
  }
  const std::size_t width = tile_width(r), tiles = ceil_div(r.inner, width);
  const std::size_t grain = grain_for(width * (r.count + 1));
  pool::parallel_for(r.kept.size() * tiles, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      const std::size_t outer = t / tiles, column = t % tiles * width;
      task(r.kept.offset(outer) + column, 1, outer * r.inner + column,
           std::min(width, r.inner - column));
    }
  });
}

// Equal, or both NaN.
template <class A>
bool same(A a, A b) {
  return a == b || (a != a && b != b);
}

// Whether a takes the place of b as the largest so far.
template <class A>
bool larger(A a, A b) {
  return a > b || (a != a && b == b);
}

}  // namespace

template <class T>
void reduce(Reduce op, const Reduction& r, const T* x, T* y, ReduceOptions options) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == Reduce::logsumexp && is_short(r)) {
      return each_output<T>(
          r,
          [&](std::size_t from, std::size_t step, std::size_t to, std::size_t n) {
            log_sums_of_runs(r, x + from, step, y + to, n);
          },
          kLongGroupBytes);
    }
  }
  each_output<T>(r, [&](std::size_t from, std::size_t step, std::size_t to, std::size_t n) {
    reduce_outputs(op, r, x + from, step, y + to, n, options);
  });
}

template <class T>
void argmax(const Reduction& r, const T* x, std::int64_t* y) {
  using A = AccumulatorOf<T>;
  const auto value = [](T v) -> A {
    if constexpr (sizeof(T) == 2) {
      return to_float(v);
    } else {
      return v;
    }
  };
  each_output<T>(r, [&](std::size_t from, std::size_t step, std::size_t to, std::size_t n) {
    if (r.inner_reduced) {
      for (std::size_t o = 0; o < n; ++o) {
        // The largest by vectors, then the first place that holds it.
        const T* start = x + from + o * step;
        const A best = fold_runs<T, A>(Fold::max, r, start, identity<A>(Fold::max), nullptr);
        std::int64_t place = 0;
        for (std::size_t i = 0;; ++i) {
          const T* run = start + r.reduced.offset(i);
          std::size_t j = 0;
          while (j < r.inner && !same(value(run[j]), best)) ++j;
          place += static_cast<std::int64_t>(j);
          if (j < r.inner) break;
        }
        y[to + o] = place;
      }
      return;
    }
    A best[kTile];
    for (std::size_t j = 0; j < n; ++j) best[j] = value(x[from + j]), y[to + j] = 0;
    for (std::size_t i = 1; i < r.count; ++i) {
      const T* row = x + from + r.reduced.offset(i);
      for (std::size_t j = 0; j < n; ++j) {
        const A v = value(row[j]);
        const bool better = larger(v, best[j]);
        best[j] = better ? v : best[j];
        y[to + j] = better ? static_cast<std::int64_t>(i) : y[to + j];
      }
    }
  });
}

namespace {

template <class T>
T running_sum(AccumulatorOf<T>& acc, T x) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(acc += to_float(x));
  } else if constexpr (std::is_same_v<T, f16>) {
    return to_f16(acc += to_float(x));
  } else {
    return acc = combine<AccumulatorOf<T>>(Fold::sum, acc, x);
  }
}

// Several rows side by side, a cache line of each in turn: a sum waits for the one before it, but
// not for those of other rows.
template <class T>
void cumsum_rows(const T* x, T* y, std::size_t rows, std::size_t n, bool reverse) {
  constexpr std::size_t kMost = 8, kLine = 64 / sizeof(T);
  for (std::size_t first = 0; first < rows; first += kMost) {
    const std::size_t last = std::min(rows, first + kMost);
    AccumulatorOf<T> sums[kMost] = {};
    for (std::size_t i = 0; i < n; i += kLine) {
      const std::size_t m = std::min(kLine, n - i);
      for (std::size_t r = first; r < last; ++r) {
        AccumulatorOf<T> acc = sums[r - first];
        const T* from = x + r * n;
        T* to = y + r * n;
        if (reverse) {
          for (std::size_t k = n - i; k-- > n - i - m;) to[k] = running_sum(acc, from[k]);
        } else {
          for (std::size_t k = i; k < i + m; ++k) to[k] = running_sum(acc, from[k]);
        }
        sums[r - first] = acc;
      }
    }
  }
}

}  // namespace

template <class T>
void cumsum(const T* x, T* y, std::size_t outer, std::size_t n, std::size_t inner, bool reverse) {
  using A = AccumulatorOf<T>;
  if (outer * n * inner == 0) return;
  if (inner == 1) {
    return pool::parallel_for(outer, grain_for(n), [&](std::size_t row, std::size_t end) {
      cumsum_rows(x + row * n, y + row * n, end - row, n, reverse);
    });
  }
  const std::size_t width = std::min(inner, kTile), tiles = ceil_div(inner, width);
  const std::size_t grain = grain_for(width * n);
  pool::parallel_for(outer * tiles, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      const std::size_t column = t % tiles * width, m = std::min(width, inner - column);
      const std::size_t base = t / tiles * n * inner + column;
      A acc[kTile] = {};
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t at = base + (reverse ? n - 1 - i : i) * inner;
        for (std::size_t j = 0; j < m; ++j) y[at + j] = running_sum(acc[j], x[at + j]);
      }
    }
  });
}

#define EBB_REDUCE(T)                                                             \
  template void reduce<T>(Reduce, const Reduction&, const T*, T*, ReduceOptions); \
  template void argmax<T>(const Reduction&, const T*, std::int64_t*);             \
  template void cumsum<T>(const T*, T*, std::size_t, std::size_t, std::size_t, bool);
EBB_REDUCE(float)
EBB_REDUCE(double)
EBB_REDUCE(bf16)
EBB_REDUCE(f16)
EBB_REDUCE(std::int32_t)
EBB_REDUCE(std::int64_t)
#undef EBB_REDUCE

}  // namespace ebb::kernels
