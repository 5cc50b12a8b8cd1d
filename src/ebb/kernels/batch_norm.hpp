// Normalisation of channels: (rows, channels), statistics over rows. T is float or double.
//
//   y = (x - mean) * rstd * weight + bias,  rstd = 1 / sqrt(var + eps)
//
// The rows of a batch depend on each other here, so no plan ever splits them. Sums over rows take
// blocks of rows that depend on the sizes alone: each block has its own mean and sum of squared
// distances from it, and the blocks are joined in f64. So the data is read once, no cancellation
// hurts, and the number of threads shows nowhere.
#pragma once

#include <cstddef>
#include <span>

namespace ebb::kernels {

// Bytes of scratch for batch_norm_stats and batch_norm_backward.
template <class T>
std::size_t batch_norm_scratch(std::size_t rows, std::size_t channels);

// mean and var (biased: divided by rows) of each channel.
template <class T>
void batch_norm_stats(const T* x, T* mean, T* var, std::size_t rows, std::size_t channels,
                      std::span<std::byte> scratch);

// y from statistics of the batch (training) or running ones (inference).
template <class T>
void batch_norm_apply(const T* x, const T* mean, const T* var, const T* weight, const T* bias, T* y,
                      std::size_t rows, std::size_t channels, double eps);

// The gradients where mean and var are those of x. With xh = (x - mean) * rstd, over rows:
//   dbias = sum(dy),  dweight = sum(dy * xh),
//   dx = weight * rstd * (dy - dbias / rows - xh * dweight / rows)
// All three are written. dx may be null or dy.
template <class T>
void batch_norm_backward(const T* x, const T* mean, const T* var, const T* weight, const T* dy,
                         T* dx, T* dweight, T* dbias, std::size_t rows, std::size_t channels,
                         double eps, std::span<std::byte> scratch);

}  // namespace ebb::kernels
