// What the passes of layer_norm and rms_norm work on. For the file of the kernel.
#pragma once

#include <cstddef>

namespace ebb::kernels {

template <class T>
struct RowStats {
  T mean, rstd;  // mean is 0 for rms_norm
};
inline constexpr std::size_t kMostRows = 256;  // whose statistics wait on the stack

template <class T>
struct NormArrays {
  const T* x = nullptr;       // (rows, n)
  const T* weight = nullptr;  // (n)
  const T* bias = nullptr;    // (n)
  const T* dy = nullptr;      // (rows, n)
  T* out = nullptr;           // y or dx, (rows, n)
  T* dweight = nullptr;       // (n)
  T* dbias = nullptr;         // (n)
  std::size_t n = 0;
  T eps = 0;
  bool centered = false;  // layer_norm
  bool stream = false;
};

}  // namespace ebb::kernels
