// Normalisation of rows: (rows, n), statistics over n.
//
//   layer_norm   y = (x - mean) * rstd * weight + bias,  rstd = 1 / sqrt(mean((x - mean)^2) + eps)
//   rms_norm     y = x * rstd * weight,                  rstd = 1 / sqrt(mean(x^2) + eps)
//
// The backward kernels need x only: a row's statistics are cheaper to compute again than to keep.
// With xh = (x - mean) * rstd, g = dy * weight and means over n:
//
//   layer_norm   dx = rstd * (g - mean(g) - xh * mean(g * xh))
//   rms_norm     dx = rstd * (g - xh * mean(g * xh))
//   both         dweight += dy * xh,  dbias += dy: one chain over the rows for each element
#pragma once

#include <cstddef>

namespace ebb::kernels {

// T is float or double throughout.

template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, T* y, std::size_t rows, std::size_t n,
                double eps);
template <class T>
void rms_norm(const T* x, const T* weight, T* y, std::size_t rows, std::size_t n, double eps);

// Results that are null are not computed. dx is written, dweight and dbias are added to. dx may be
// dy itself when neither dweight nor dbias is wanted.
template <class T>
void layer_norm_backward(const T* x, const T* weight, const T* dy, T* dx, T* dweight, T* dbias,
                         std::size_t rows, std::size_t n, double eps);
template <class T>
void rms_norm_backward(const T* x, const T* weight, const T* dy, T* dx, T* dweight,
                       std::size_t rows, std::size_t n, double eps);

}  // namespace ebb::kernels
