// Adafactor, in place: Adam's second moment as the product of one number for each row and one for
// each column, so that a matrix (rows, cols) keeps rows + cols numbers instead of rows * cols.
//
//   s = g^2 + eps1
//   row = beta2 * row + (1 - beta2) * mean over columns of s
//   col = beta2 * col + (1 - beta2) * mean over rows of s
//   u = g / sqrt(row * col / mean(row))         (not factored: u = g / sqrt(v), v the average of s)
//   u /= max(1, rms(u) / clip)
//   p = p * (1 - lr * decay) - u * rate * (relative ? max(eps2, rms(p)) : 1)
//
// Three passes over the gradient, because the sums come before what is made of them. Sums are cut
// into pieces by the shape alone, so that threads change no bits.
#pragma once

#include <cstddef>
#include <span>

#include "ebb/kernels/update.hpp"

namespace ebb::kernels {

// One tensor: `count` matrices (rows, cols), one after the other. Not factored: col is null, row
// holds v, and count * rows * cols is its size.
template <class T>
struct FactoredUpdate {
  T* param;
  const T* grad;
  T* row;  // (count, rows)
  T* col;  // (count, cols)
  std::size_t count, rows, cols;
  std::size_t size() const { return count * rows * cols; }
};

struct AdafactorRule {
  double lr = 1e-2, rate = 1e-2;  // of the decay; of the step
  double beta2 = 0, eps1 = 1e-30, eps2 = 1e-3, clip = 1, weight_decay = 0;
  bool relative = true;
};

// Bytes for one tensor, a multiple of 64; adafactor needs their sum over its tensors.
template <class T>
std::size_t adafactor_scratch(const FactoredUpdate<T>& tensor);

void adafactor(std::span<const FactoredUpdate<float>> tensors, const AdafactorRule& rule,
               GradientUse use, std::span<std::byte> scratch);
void adafactor(std::span<const FactoredUpdate<double>> tensors, const AdafactorRule& rule,
               GradientUse use, std::span<std::byte> scratch);

}  // namespace ebb::kernels
