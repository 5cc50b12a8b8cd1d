#include "ebb/kernels/index.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ebb/base/half.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/kernels/element.hpp"

namespace ebb::kernels {
namespace {

constexpr std::size_t kPart = std::size_t{64} << 10;  // bytes of a thread's part
constexpr std::size_t kLine = 64;                     // bytes of a cache line

std::size_t grain_of(std::size_t item_bytes) {
  return std::max<std::size_t>(1, kPart / std::max<std::size_t>(1, item_bytes));
}

// Rows of one element: a plain loop.
template <class E, class I>
void gather_elements(const E* x, std::size_t size, const I* indices, std::size_t count, E* y,
                     std::size_t begin, std::size_t end) {
  for (std::size_t at = begin; at < end;) {
    const std::size_t o = at / count, last = std::min(end, (o + 1) * count);
    const E* row = x + o * size;
    const I* index = indices + (at - o * count);
    for (; at < last; ++at) y[at] = row[static_cast<std::size_t>(*index++)];
  }
}

template <class T, class I>
void add_rows(std::size_t size, std::size_t inner, const T* u, const I* indices, std::size_t count,
              T* y, std::size_t first_row, std::size_t last_row, std::size_t first,
              std::size_t last) {
  const bool all = first_row == 0 && last_row == size;
  for (std::size_t j = 0; j < count; ++j) {
    const auto row = static_cast<std::size_t>(indices[j]);
    if (!all && (row < first_row || row >= last_row)) continue;
    const T* from = u + j * inner;
    T* to = y + row * inner;
    for (std::size_t c = first; c < last; ++c) to[c] += from[c];
  }
}

}  // namespace

template <class I>
std::int64_t first_out_of_range(const I* indices, std::size_t count, std::int64_t size) {
  constexpr std::size_t kBlock = 1024;
  for (std::size_t b = 0; b < count; b += kBlock) {
    const std::size_t end = std::min(count, b + kBlock);
    bool bad = false;  // below zero is very large
    for (std::size_t j = b; j < end; ++j)
      bad |= static_cast<std::uint64_t>(indices[j]) >= static_cast<std::uint64_t>(size);
    if (!bad) continue;
    for (std::size_t j = b; j < end; ++j)
      if (indices[j] < 0 || indices[j] >= size) return static_cast<std::int64_t>(j);
  }
  return -1;
}

template <class I>
void gather(std::size_t outer, std::size_t size, std::size_t row, const void* x, const I* indices,
            std::size_t count, void* y) {
  if (row == 0) return;
  const auto* from = static_cast<const std::byte*>(x);
  auto* to = static_cast<std::byte*>(y);
  const bool element = row == 1 || row == 2 || row == 4 || row == 8;
  pool::parallel_for(outer * count, grain_of(row), [&](std::size_t begin, std::size_t end) {
    if (element)
      return with_bits(row, [&](auto zero) {
        using E = decltype(zero);
        gather_elements(static_cast<const E*>(x), size, indices, count, static_cast<E*>(y), begin,
                        end);
      });
    for (std::size_t at = begin; at < end; ++at) {
      const std::size_t o = at / count;
      const auto index = static_cast<std::size_t>(indices[at - o * count]);
      std::memcpy(to + at * row, from + (o * size + index) * row, row);
    }
  });
}

template <class T, class I>
void scatter_add(std::size_t outer, std::size_t size, std::size_t inner, const T* u,
                 const I* indices, std::size_t count, T* y) {
  const std::size_t bytes = outer * count * inner * sizeof(T);
  if (bytes == 0) return;
  const auto threads = static_cast<std::size_t>(pool::threads());
  const auto all = [&](std::size_t o, std::size_t r0, std::size_t r1, std::size_t c0,
                       std::size_t c1) {
    add_rows(size, inner, u + o * count * inner, indices, count, y + o * size * inner, r0, r1, c0,
             c1);
  };
  if (bytes <= kPart || threads == 1) {
    for (std::size_t o = 0; o < outer; ++o) all(o, 0, size, 0, inner);
  } else if (outer >= 2 * threads) {
    pool::parallel_for(outer, grain_of(bytes / outer), [&](std::size_t b, std::size_t e) {
      for (; b < e; ++b) all(b, 0, size, 0, inner);
    });
  } else if (const std::size_t line = kLine / sizeof(T); size < 8 * threads && inner >= 4 * line) {
    const std::size_t columns = round_up(ceil_div(inner, threads), line);
    pool::parallel_for(outer * threads, 1, [&](std::size_t b, std::size_t e) {
      for (; b < e; ++b)
        all(b / threads, 0, size, std::min(inner, b % threads * columns),
            std::min(inner, (b % threads + 1) * columns));
    });
  } else {  // every part reads all indices and adds to its own rows
    const std::size_t parts = std::min(size, 2 * threads);
    const std::size_t rows = ceil_div(size, parts);
    pool::parallel_for(outer * parts, 1, [&](std::size_t b, std::size_t e) {
      for (; b < e; ++b)
        all(b / parts, std::min(size, b % parts * rows), std::min(size, (b % parts + 1) * rows), 0,
            inner);
    });
  }
}

namespace {

// A part of y (size, inner) that a thread sums in f32.
struct HalfPart {
  std::size_t columns, rows;
  HalfPart(std::size_t size, std::size_t inner)
      : columns(std::min(inner, kHalfPart)),
        rows(std::min(size, kHalfPart / std::max<std::size_t>(1, columns))) {}
  static constexpr std::size_t kHalfPart = std::size_t{64} << 10;  // elements
};

template <class Half>
Half narrow(float x) {
  if constexpr (std::is_same_v<Half, bf16>) {
    return to_bf16(x);
  } else {
    return to_f16(x);
  }
}

}  // namespace

std::size_t scatter_add_half_scratch(std::size_t size, std::size_t inner) {
  const HalfPart part(size, inner);
  return part.rows * part.columns * sizeof(float) * static_cast<std::size_t>(pool::threads());
}

template <class Half, class I>
void scatter_add_half(std::size_t outer, std::size_t size, std::size_t inner, const Half* u,
                      const I* indices, std::size_t count, Half* y, std::span<std::byte> scratch) {
  if (outer * size * inner * count == 0) return;
  const HalfPart part(size, inner);
  const std::size_t down = ceil_div(size, part.rows), across = ceil_div(inner, part.columns);
  pool::parallel_for(outer * down * across, 1, [&](std::size_t begin, std::size_t end) {
    auto* sums = reinterpret_cast<float*>(scratch.data()) +
                 static_cast<std::size_t>(pool::thread_index()) * part.rows * part.columns;
    for (std::size_t b = begin; b < end; ++b) {
      const std::size_t o = b / (down * across), c0 = b % across * part.columns;
      const std::size_t r0 = b / across % down * part.rows;
      const std::size_t rows = std::min(part.rows, size - r0);
      const std::size_t columns = std::min(part.columns, inner - c0);
      Half* at = y + (o * size + r0) * inner + c0;
      bool any = false;
      for (std::size_t j = 0; j < count; ++j) {
        const std::size_t row = static_cast<std::size_t>(indices[j]) - r0;  // below it: very large
        if (row >= rows) continue;
        if (!any) {
          for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < columns; ++c)
              sums[r * columns + c] = to_float(at[r * inner + c]);
        }
        any = true;
        const Half* from = u + (o * count + j) * inner + c0;
        float* to = sums + row * columns;
        for (std::size_t c = 0; c < columns; ++c) to[c] += to_float(from[c]);
      }
      if (!any) continue;
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c)
          at[r * inner + c] = narrow<Half>(sums[r * columns + c]);
    }
  });
}

template <class T, class I>
void scatter_add_some(std::size_t first, std::size_t rows, std::size_t inner, const T* u,
                      const I* indices, std::size_t count, T* y) {
  for (std::size_t j = 0; j < count; ++j) {
    const std::size_t row = static_cast<std::size_t>(indices[j]) - first;  // below it: very large
    if (row >= rows) continue;
    for (std::size_t c = 0; c < inner; ++c) y[row * inner + c] += u[j * inner + c];
  }
}

template <class I>
void take_along(std::size_t outer, std::size_t size, std::size_t inner, std::size_t element,
                const void* x, const I* indices, std::size_t count, void* y) {
  with_bits(element, [&](auto zero) {
    using E = decltype(zero);
    const auto* from = static_cast<const E*>(x);
    auto* to = static_cast<E*>(y);
    pool::parallel_for(
        outer * count, grain_of(inner * (element + sizeof(I))), [&](std::size_t b, std::size_t e) {
          while (b < e) {  // what is taken of one outer row
            const std::size_t o = b / count, end = std::min(e, (o + 1) * count);
            const E* rows = from + o * size * inner;
            if (inner == 1) {
              for (; b < end; ++b) to[b] = rows[static_cast<std::size_t>(indices[b])];
            }
            for (; b < end; ++b)
              for (std::size_t i = 0; i < inner; ++i)
                to[b * inner + i] =
                    rows[static_cast<std::size_t>(indices[b * inner + i]) * inner + i];
          }
        });
  });
}

template <class T, class I>
void put_along_add(std::size_t outer, std::size_t size, std::size_t inner, const T* u,
                   const I* indices, std::size_t count, T* y) {
  // Columns of all outer rows, in pieces of a few cache lines: each is one chain over j.
  constexpr std::size_t kColumns = 4 * kLine / sizeof(T);
  const std::size_t pieces = ceil_div(inner, kColumns);
  const std::size_t work = count * std::min(inner, kColumns) * (sizeof(T) + sizeof(I));
  pool::parallel_for(outer * pieces, grain_of(work), [&](std::size_t b, std::size_t e) {
    for (; b < e; ++b) {
      const std::size_t o = b / pieces, first = b % pieces * kColumns;
      const std::size_t last = std::min(inner, first + kColumns);
      T* rows = y + o * size * inner;
      for (std::size_t j = 0; j < count; ++j) {
        const std::size_t at = (o * count + j) * inner;
        for (std::size_t i = first; i < last; ++i)
          rows[static_cast<std::size_t>(indices[at + i]) * inner + i] += u[at + i];
      }
    }
  });
}

template <class I>
void one_hot(const I* indices, std::size_t count, std::size_t depth, std::size_t element,
             const void* one, void* y) {
  auto* to = static_cast<std::byte*>(y);
  const std::size_t row = depth * element;
  if (row == 0) return;
  pool::parallel_for(count, grain_of(row), [&](std::size_t b, std::size_t e) {
    std::memset(to + b * row, 0, (e - b) * row);
    for (; b < e; ++b)
      std::memcpy(to + b * row + static_cast<std::size_t>(indices[b]) * element, one, element);
  });
}

#define EBB_SUMS(T, I)                                                                            \
  template void scatter_add<T, I>(std::size_t, std::size_t, std::size_t, const T*, const I*,      \
                                  std::size_t, T*);                                               \
  template void scatter_add_some<T, I>(std::size_t, std::size_t, std::size_t, const T*, const I*, \
                                       std::size_t, T*);                                          \
  template void put_along_add<T, I>(std::size_t, std::size_t, std::size_t, const T*, const I*,    \
                                    std::size_t, T*);
#define EBB_INDEX(I)                                                                             \
  template std::int64_t first_out_of_range<I>(const I*, std::size_t, std::int64_t);              \
  template void gather<I>(std::size_t, std::size_t, std::size_t, const void*, const I*,          \
                          std::size_t, void*);                                                   \
  template void take_along<I>(std::size_t, std::size_t, std::size_t, std::size_t, const void*,   \
                              const I*, std::size_t, void*);                                     \
  template void one_hot<I>(const I*, std::size_t, std::size_t, std::size_t, const void*, void*); \
  template void scatter_add_half<bf16, I>(std::size_t, std::size_t, std::size_t, const bf16*,    \
                                          const I*, std::size_t, bf16*, std::span<std::byte>);   \
  template void scatter_add_half<f16, I>(std::size_t, std::size_t, std::size_t, const f16*,      \
                                         const I*, std::size_t, f16*, std::span<std::byte>);     \
  EBB_SUMS(float, I)                                                                             \
  EBB_SUMS(double, I)                                                                            \
  EBB_SUMS(std::int32_t, I)                                                                      \
  EBB_SUMS(std::int64_t, I)
EBB_INDEX(std::int32_t)
EBB_INDEX(std::int64_t)
EBB_INDEX(std::uint8_t)
#undef EBB_INDEX
#undef EBB_SUMS

}  // namespace ebb::kernels
