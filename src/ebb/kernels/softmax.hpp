// Softmax and its logarithm over rows: (rows, n), normalised over n. T is float or double.
//
// The row's maximum is subtracted first, so no finite row overflows. -inf entries get probability
// 0; a row that is all -inf, or holds +inf or NaN, is NaN throughout.
#pragma once

#include <cstddef>

namespace ebb::kernels {

// y may be x itself in all four.

template <class T>
void softmax(const T* x, T* y, std::size_t rows, std::size_t n);
template <class T>
void log_softmax(const T* x, T* y, std::size_t rows, std::size_t n);

// From the result y and dy:  softmax  dx = y * (dy - sum(y * dy)),
//                            log_softmax  dx = dy - e^y * sum(dy).   dx may be y or dy.
template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, std::size_t rows, std::size_t n);
template <class T>
void log_softmax_backward(const T* y, const T* dy, T* dx, std::size_t rows, std::size_t n);

}  // namespace ebb::kernels
