// Rotary positions: in each head, elements i and i + size/2 are turned together, as a point of the
// plane, by the angle position * base^(-2i/size).
#pragma once

#include <cstddef>
#include <cstdint>

namespace ebb::kernels {

inline constexpr std::size_t kMaxRotarySize = 512;

// x and y (batch, positions, width): the first heads * size elements of a position are turned, the
// rest is copied. They may be the same array.
struct Rotary {
  std::size_t batch = 1, positions = 0, width = 0, heads = 1;
  std::size_t size = 0;  // even, at most kMaxRotarySize
  double base = 10000;
  std::size_t offset = 0;  // the first position
  bool back = false;       // by the negative angle: the gradient, and the inverse
};

template <class T>  // float or double
void rotary(const Rotary& r, const T* x, T* y);

}  // namespace ebb::kernels
