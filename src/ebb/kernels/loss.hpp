// Losses as sums over a batch, and the gradients of those sums. T is float or double.
//
// Every forward kernel adds to *sum: first each row's loss in the canonical order of a row, then
// the rows in one chain, starting from what *sum holds. So a batch cut into parts, each going on
// where the last one stopped, gives the bits of the whole. Gradients are those of the sum, times
// upstream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ebb/base/math_functions.hpp"

namespace ebb::kernels {

// Bytes of scratch for any forward kernel here.
template <class T>
std::size_t loss_scratch(std::size_t rows) {
  return rows * sizeof(T);
}

// Cross-entropy of softmax(logits), (rows, classes), and a label for each row.
using math::SparseTargets;

inline constexpr std::ptrdiff_t kLabelsInRange = -1;

// The first row whose label is neither a class nor ignore_index, or kLabelsInRange. The kernels
// below want none.
template <class Label>  // int32_t or int64_t
std::ptrdiff_t first_bad_label(const Label* labels, std::size_t rows, std::size_t classes,
                               std::int64_t ignore_index);

// Adds the loss to *sum and the number of rows that were not ignored to *count.
template <class T, class Label>
void sparse_cross_entropy(const T* logits, const Label* labels, std::size_t rows,
                          std::size_t classes, const SparseTargets& targets, T* sum,
                          std::int64_t* count, std::span<std::byte> scratch);

// dlogits = upstream * (softmax(logits) - target), 0 in ignored rows. It may be logits itself.
template <class T, class Label>
void sparse_cross_entropy_backward(const T* logits, const Label* labels, std::size_t rows,
                                   std::size_t classes, const SparseTargets& targets, T upstream,
                                   T* dlogits);

// Cross-entropy with a whole distribution for each row: -sum(target * log_softmax(logits)). A class
// of target 0 adds nothing, even where its logit is -inf.
template <class T>
void cross_entropy(const T* logits, const T* targets, std::size_t rows, std::size_t classes, T* sum,
                   std::span<std::byte> scratch);

// dlogits = upstream * (softmax(logits) * sum(target) - target).
template <class T>
void cross_entropy_backward(const T* logits, const T* targets, std::size_t rows,
                            std::size_t classes, T upstream, T* dlogits);

// Losses of pairs of elements.
using math::PairLoss;
struct ElementLoss {
  PairLoss kind = PairLoss::squared;
  double delta = 1;
};

// x and t are (rows, n); n is 1 for tensors of rank 1.
template <class T>
void element_loss(const ElementLoss& loss, const T* x, const T* t, std::size_t rows, std::size_t n,
                  T* sum, std::span<std::byte> scratch);
// dx = upstream * derivative, for `size` elements. It may be x or t.
template <class T>
void element_loss_backward(const ElementLoss& loss, const T* x, const T* t, std::size_t size,
                           T upstream, T* dx);

}  // namespace ebb::kernels
