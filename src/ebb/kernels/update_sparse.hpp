// An optimizer's step for a table of which the gradient is given as rows and where they belong, as
// an embedding's is: the whole gradient, zero nearly everywhere, is never written.
//
// Bits: those of the step with the whole gradient. Rows of one index are added up in their order,
// from zero. Under a lazy rule a row whose sum is zero is left as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ebb/kernels/update.hpp"

namespace ebb::kernels {

template <class T, class I>
struct SparseUpdate {
  T* param;  // (height, width), and so is state
  T* state[2];
  const I* indices;  // (count), each below height, which is below 2^32
  const T* rows;     // (count, width)
  std::size_t count, height, width;
};

std::size_t update_sparse_scratch(std::size_t count, std::size_t width, std::size_t element);

// T: float, double; I: int32_t, int64_t, uint8_t; rules: Sgd without momentum, Adam, Adagrad,
// LazyAdam.
template <class T, class I, class Rule>
void update_sparse(const SparseUpdate<T, I>& table, const Rule& rule, GradientUse use,
                   std::span<std::byte> scratch);

// The sum of squares of the whole gradient (update.hpp), from its rows; param is not read.
std::size_t sparse_squares_scratch(std::size_t count, std::size_t width, std::size_t element);
template <class T, class I>
double sparse_squares(const SparseUpdate<T, I>& table, std::span<std::byte> scratch);

}  // namespace ebb::kernels
