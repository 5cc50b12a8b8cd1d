// Rows picked and added to by index.
//
// An array along an axis is (outer, size, inner): x[o][index][i]. Indices are int32_t, int64_t or
// uint8_t and have been checked by `first_out_of_range`.
//
// Sums keep the bits rule: whatever is added to one element is added in the order of the indices,
// starting from what is there. Threads share out columns, or rows that are added to; never sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ebb::kernels {

// The position of the first index below 0 or not below `size`; -1 when all are in range.
template <class I>
std::int64_t first_out_of_range(const I* indices, std::size_t count, std::int64_t size);

// y[o][j] = x[o][indices[j]], rows of `row` bytes. x (outer, size, row), y (outer, count, row).
template <class I>
void gather(std::size_t outer, std::size_t size, std::size_t row, const void* x, const I* indices,
            std::size_t count, void* y);

// y[o][indices[j]] += u[o][j] for j = 0, 1, …: u (outer, count, inner), y (outer, size, inner).
// T: float, double, int32_t, int64_t.
template <class T, class I>
void scatter_add(std::size_t outer, std::size_t size, std::size_t inner, const T* u,
                 const I* indices, std::size_t count, T* y);

// The same for bf16 and f16: summed in f32, 64 Ki elements of y at a time, and rounded at the end.
std::size_t scatter_add_half_scratch(std::size_t size, std::size_t inner);
template <class Half, class I>
void scatter_add_half(std::size_t outer, std::size_t size, std::size_t inner, const Half* u,
                      const I* indices, std::size_t count, Half* y, std::span<std::byte> scratch);

// Of y[indices[j]] += u[j], what goes to `rows` rows from `first` on. y: those rows.
template <class T, class I>
void scatter_add_some(std::size_t first, std::size_t rows, std::size_t inner, const T* u,
                      const I* indices, std::size_t count, T* y);

// y[o][j][i] = x[o][indices[o][j][i]][i], elements of `element` bytes.
template <class I>
void take_along(std::size_t outer, std::size_t size, std::size_t inner, std::size_t element,
                const void* x, const I* indices, std::size_t count, void* y);

// y[o][indices[o][j][i]][i] += u[o][j][i] for j = 0, 1, …
template <class T, class I>
void put_along_add(std::size_t outer, std::size_t size, std::size_t inner, const T* u,
                   const I* indices, std::size_t count, T* y);

// y (count, depth): 1 at [j][indices[j]], 0 elsewhere. `one` is the element 1.
template <class I>
void one_hot(const I* indices, std::size_t count, std::size_t depth, std::size_t element,
             const void* one, void* y);

}  // namespace ebb::kernels
