#include "ebb/kernels/copy.hpp"

#include <algorithm>
#include <cstring>

#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/element.hpp"
#include "ebb/kernels/grain.hpp"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

namespace ebb::kernels {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kPart = std::size_t{128} << 10;  // bytes of a thread's part
constexpr std::int64_t kChunk = 64 << 10;              // bytes of a piece of a long run

struct Bytes16 {
  std::uint64_t half[2];
};

template <class F>
void with_element(std::size_t bytes, F&& f) {
  if (bytes == sizeof(Bytes16)) return f(Bytes16{});
  with_bits(bytes, f);
}

// Elements may lie at any byte: a run of small ones is moved as one large one.
template <class T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <class T>
void store(std::byte* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

void drop(Walk& walk, int d) {
  for (--walk.rank; d < walk.rank; ++d) {
    walk.dim[d] = walk.dim[d + 1];
    walk.from[d] = walk.from[d + 1];
    walk.to[d] = walk.to[d + 1];
  }
}

// Dimensions of one element go, neighbours that are one on both sides become one.
void collapse(Walk& walk) {
  for (int d = walk.rank - 1; d >= 0; --d)
    if (walk.dim[d] == 1) drop(walk, d);
  for (int d = walk.rank - 2; d >= 0; --d) {
    if (walk.from[d] != walk.from[d + 1] * walk.dim[d + 1]) continue;
    if (walk.to[d] != walk.to[d + 1] * walk.dim[d + 1]) continue;
    walk.dim[d + 1] *= walk.dim[d];
    drop(walk, d);
  }
}

// Offsets of the items of a walk, one after the other from any start.
class Cursor {
 public:
  Cursor(const Walk& walk, std::int64_t item) : walk_(walk) {
    for (int d = walk.rank - 1; d >= 0; --d) {
      index_[d] = item % walk.dim[d];
      item /= walk.dim[d];
      from += index_[d] * walk.from[d];
      to += index_[d] * walk.to[d];
    }
  }
  void next() {
    for (int d = walk_.rank - 1; d >= 0; --d) {
      from += walk_.from[d];
      to += walk_.to[d];
      if (++index_[d] < walk_.dim[d]) return;
      from -= index_[d] * walk_.from[d];
      to -= index_[d] * walk_.to[d];
      index_[d] = 0;
    }
  }
  std::int64_t from = 0, to = 0;

 private:
  const Walk& walk_;
  std::int64_t index_[Walk::kMaxRank];
};

// Calls f(from offset, to offset) for every item of the walk, on all threads.
template <class F>
void for_each(const Walk& walk, std::size_t item_bytes, F&& f) {
  const std::size_t grain = std::max<std::size_t>(1, kPart / std::max<std::size_t>(1, item_bytes));
  pool::parallel_for(static_cast<std::size_t>(walk.size()), grain,
                     [&](std::size_t b, std::size_t e) {
                       Cursor at(walk, static_cast<std::int64_t>(b));
                       for (; b < e; ++b, at.next()) f(at.from, at.to);
                     });
}

// Cuts the last dimension off a walk.
struct Inner {
  std::int64_t dim = 1, from = 0, to = 0;
  explicit Inner(Walk& walk) {
    if (walk.rank == 0) return;
    const int last = --walk.rank;
    dim = walk.dim[last];
    from = walk.from[last];
    to = walk.to[last];
  }
};

// A short run stored past the caches, where `to` allows it. (Long ones memcpy stores that way.)
void stream(const std::byte* from, std::byte* to, std::int64_t bytes) {
  const hn::FixedTag<std::uint8_t, 16> d;
  std::int64_t i = 0;
  if (reinterpret_cast<std::uintptr_t>(to) % 16 == 0)
    for (; i + 16 <= bytes; i += 16)
      hn::Stream(hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(from + i)), d,
                 reinterpret_cast<std::uint8_t*>(to + i));
  std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}

// The last dimension is a run of bytes on both sides; long runs are moved in pieces.
void copy_runs(Walk walk, std::int64_t run, const std::byte* from, std::byte* to) {
  if (run <= 2048 && static_cast<std::size_t>(walk.size() * run) >= kStreamBytes) {
    for_each(walk, static_cast<std::size_t>(run),
             [&](std::int64_t f, std::int64_t t) { stream(from + f, to + t, run); });
    hwy::FlushStream();
    return;
  }
  if (run <= kChunk) {
    for_each(walk, static_cast<std::size_t>(run), [&](std::int64_t f, std::int64_t t) {
      std::memcpy(to + t, from + f, static_cast<std::size_t>(run));
    });
    return;
  }
  const std::int64_t pieces = ceil_div(run, kChunk);
  const auto count = static_cast<std::size_t>(walk.size() * pieces);
  pool::parallel_for(count, kPart / kChunk, [&](std::size_t b, std::size_t e) {
    for (; b < e; ++b) {
      const auto item = static_cast<std::int64_t>(b);
      const Cursor at(walk, item / pieces);
      const std::int64_t piece = item % pieces * kChunk;
      std::memcpy(to + at.to + piece, from + at.from + piece,
                  static_cast<std::size_t>(std::min(kChunk, run - piece)));
    }
  });
}

// N rows of N elements, N * sizeof(T) == 16, into N columns: rows i and i + N/2 are interleaved,
// log2(N) times.
template <class T>
void transpose_block(const std::byte* from, std::int64_t from_step, std::byte* to,
                     std::int64_t to_step) {
  constexpr int kN = 16 / sizeof(T);
  const hn::FixedTag<T, kN> d;
  using V = hn::Vec<decltype(d)>;
  V a[kN], b[kN];
  for (int i = 0; i < kN; ++i)
    a[i] = hn::LoadU(d, reinterpret_cast<const T*>(from + i * from_step));
  for (int n = kN; n > 1; n /= 2) {
    for (int i = 0; i < kN / 2; ++i) {
      b[2 * i] = hn::InterleaveLower(d, a[i], a[i + kN / 2]);
      b[2 * i + 1] = hn::InterleaveUpper(d, a[i], a[i + kN / 2]);
    }
    for (int i = 0; i < kN; ++i) a[i] = b[i];
  }
  for (int i = 0; i < kN; ++i) hn::StoreU(a[i], d, reinterpret_cast<T*>(to + i * to_step));
}

// to[i][j] = from[j][i] for i < rows, j < columns; elements of a row of `to`, and of a row of
// `from`, are neighbours.
template <class T>
void transpose_tile(const std::byte* from, std::int64_t from_step, std::byte* to,
                    std::int64_t to_step, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kSize = sizeof(T);
  std::int64_t whole_rows = 0, whole_columns = 0;
  if constexpr (kSize < 16) {
    constexpr std::int64_t kN = 16 / kSize;
    whole_rows = rows / kN * kN;
    whole_columns = columns / kN * kN;
    for (std::int64_t i = 0; i < whole_rows; i += kN)
      for (std::int64_t j = 0; j < whole_columns; j += kN)
        transpose_block<T>(from + j * from_step + i * kSize, from_step,
                           to + i * to_step + j * kSize, to_step);
  }
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j)
      store(to + i * to_step + j * kSize, load<T>(from + j * from_step + i * kSize));
}

// Dimension `t` is the run of the from side, the last one that of the to side: 2-D transposes in
// tiles that stay in the first cache.
template <class T>
void copy_transposed(Walk walk, int t, const std::byte* from, std::byte* to) {
  constexpr std::int64_t kSize = sizeof(T), kSide = std::clamp<std::int64_t>(256 / kSize, 16, 64);
  const Inner columns(walk);
  const std::int64_t rows = walk.dim[t], to_step = walk.to[t];
  drop(walk, t);
  const std::int64_t tiles_down = ceil_div(rows, kSide);
  const std::int64_t tiles_across = ceil_div(columns.dim, kSide);
  const std::int64_t tiles = tiles_down * tiles_across;
  const auto tile_bytes =
      static_cast<std::size_t>(std::min(rows, kSide) * std::min(columns.dim, kSide) * kSize);
  const std::size_t grain = std::max<std::size_t>(1, kPart / tile_bytes);
  pool::parallel_for(
      static_cast<std::size_t>(walk.size() * tiles), grain, [&](std::size_t b, std::size_t e) {
        for (; b < e; ++b) {
          const auto item = static_cast<std::int64_t>(b);
          const Cursor at(walk, item / tiles);
          const std::int64_t i = item % tiles / tiles_across * kSide,
                             j = item % tiles_across * kSide;
          transpose_tile<T>(from + at.from + j * columns.from + i * kSize, columns.from,
                            to + at.to + i * to_step + j * kSize, to_step,
                            std::min(kSide, rows - i), std::min(kSide, columns.dim - j));
        }
      });
}

// n elements, from and to a number of elements apart that the compiler knows.
template <int kFrom, int kTo, class T>
void move_apart(const std::byte* from, std::byte* to, std::int64_t n) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = 0; i < n; ++i)
    store(to + i * (kTo * kSize), load<T>(from + i * (kFrom * kSize)));
}

// n elements of one row.
template <class T>
void move_elements(const std::byte* from, std::int64_t from_step, std::byte* to,
                   std::int64_t to_step, std::int64_t n) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  if (to_step == kSize) {
    if (from_step == -kSize) return move_apart<-1, 1, T>(from, to, n);  // flip
    if (from_step == 2 * kSize) return move_apart<2, 1, T>(from, to, n);
  } else if (to_step == 2 * kSize && from_step == kSize) {  // one of two that are stacked
    return move_apart<1, 2, T>(from, to, n);
  }
  for (std::int64_t i = 0; i < n; ++i) store(to + i * to_step, load<T>(from + i * from_step));
}

// n elements of one value, to neighbours; with `past`, past the caches.
template <class T>
void repeat(T value, std::byte* to, std::int64_t n, bool past) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  std::int64_t i = 0;
  if (past) {
    while (i < n && reinterpret_cast<std::uintptr_t>(to + i * kSize) % 16 != 0 && i * kSize < 16)
      store(to + i++ * kSize, value);
    if (reinterpret_cast<std::uintptr_t>(to + i * kSize) % 16 == 0) {
      const hn::FixedTag<std::uint8_t, 16> d;
      HWY_ALIGN std::uint8_t pattern[16];
      for (std::int64_t k = 0; k < 16; k += kSize) std::memcpy(pattern + k, &value, sizeof value);
      const auto v = hn::Load(d, pattern);
      for (; i + 16 / kSize <= n; i += 16 / kSize)
        hn::Stream(v, d, reinterpret_cast<std::uint8_t*>(to + i * kSize));
    }
  }
  for (; i < n; ++i) store(to + i * kSize, value);
}

// The last dimension is no run on either side, or one value to all; long ones are moved in pieces.
template <class T>
void copy_strided(Walk walk, const std::byte* from, std::byte* to) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const bool past = static_cast<std::size_t>(walk.size() * kSize) >= kStreamBytes;
  const Inner all(walk);
  const std::int64_t piece = std::min(all.dim, kChunk / kSize);
  const std::int64_t pieces = ceil_div(all.dim, piece);
  const bool one_value = all.from == 0 && all.to == kSize;
  const auto grain = std::max<std::size_t>(1, kPart / static_cast<std::size_t>(piece * kSize));
  pool::parallel_for(static_cast<std::size_t>(walk.size() * pieces), grain,
                     [&](std::size_t b, std::size_t e) {
                       const Inner row = all;
                       const auto first = static_cast<std::int64_t>(b);
                       Cursor at(walk, first / pieces);
                       std::int64_t begin = first % pieces * piece;
                       for (; b < e; ++b) {
                         const std::int64_t n = std::min(piece, row.dim - begin);
                         const std::byte* source = from + at.from + begin * row.from;
                         std::byte* target = to + at.to + begin * row.to;
                         if (one_value) {
                           repeat(load<T>(source), target, n, past);
                         } else {
                           move_elements<T>(source, row.from, target, row.to, n);
                         }
                         begin += piece;
                         if (begin < row.dim) continue;
                         begin = 0;
                         at.next();
                       }
                       if (one_value && past) hwy::FlushStream();
                     });
}

}  // namespace

void copy(Walk walk, std::size_t element, const void* from, void* to) {
  if (walk.size() == 0) return;
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  collapse(walk);
  const auto is_run = [&](const std::int64_t* step, int d) {
    return step[d] == static_cast<std::int64_t>(element);
  };
  int last = walk.rank - 1;
  if (last < 0) return std::memcpy(target, source, element), void();
  if (is_run(walk.from, last) && is_run(walk.to, last)) {
    const std::int64_t run = walk.dim[last] * static_cast<std::int64_t>(element);
    const bool small = run == 2 || run == 4 || run == 8 || run == 16;
    if (!small || last == 0) {
      const Inner cut(walk);
      return copy_runs(walk, run, source, target);
    }
    element = static_cast<std::size_t>(run);
    last = --walk.rank - 1;
  }
  int t = -1;
  if (is_run(walk.to, last))
    for (int d = 0; d < last; ++d)
      if (is_run(walk.from, d)) t = d;
  with_element(element, [&](auto zero) {
    using T = decltype(zero);
    if (t >= 0 && walk.dim[t] > 1) {
      copy_transposed<T>(walk, t, source, target);
    } else {
      copy_strided<T>(walk, source, target);
    }
  });
}

void fill(Walk walk, std::size_t element, const void* value, void* to) {
  for (int d = 0; d < walk.rank; ++d) walk.from[d] = 0;
  if (walk.size() == 0) return;
  collapse(walk);
  with_element(element, [&](auto zero) {
    copy_strided<decltype(zero)>(walk, static_cast<const std::byte*>(value),
                                 static_cast<std::byte*>(to));
  });
}

template <class T>
void accumulate(Walk walk, const T* from, T* to) {
  if (walk.size() == 0) return;
  collapse(walk);
  const auto* source = reinterpret_cast<const std::byte*>(from);
  auto* target = reinterpret_cast<std::byte*>(to);
  const Inner inner(walk);
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  for_each(walk, static_cast<std::size_t>(inner.dim * kSize), [&](std::int64_t f, std::int64_t t) {
    const T* x = reinterpret_cast<const T*>(source + f);
    T* y = reinterpret_cast<T*>(target + t);
    if (inner.from == kSize && inner.to == kSize) {
      for (std::int64_t i = 0; i < inner.dim; ++i) y[i] += x[i];
    } else {
      const std::int64_t x_step = inner.from / kSize, y_step = inner.to / kSize;
      for (std::int64_t i = 0; i < inner.dim; ++i) y[i * y_step] += x[i * x_step];
    }
  });
}
template void accumulate<float>(Walk, const float*, float*);
template void accumulate<double>(Walk, const double*, double*);
template void accumulate<std::int32_t>(Walk, const std::int32_t*, std::int32_t*);
template void accumulate<std::int64_t>(Walk, const std::int64_t*, std::int64_t*);

void copy_bytes(const void* from, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  copy_runs({}, static_cast<std::int64_t>(bytes), static_cast<const std::byte*>(from),
            static_cast<std::byte*>(to));
}

void zero_bytes(void* to, std::size_t bytes) {
  pool::parallel_for(bytes, std::size_t{512} << 10, [&](std::size_t b, std::size_t e) {
    std::memset(static_cast<std::byte*>(to) + b, 0, e - b);
  });
}

}  // namespace ebb::kernels
