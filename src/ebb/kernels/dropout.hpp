// Dropout without a mask in memory: what is kept is drawn anew from (seed, step, stream, position).
#pragma once

#include <cstddef>

#include "ebb/base/rng.hpp"

namespace ebb::kernels {

// Element i has 16 bits of its own, half a word: with p = first + i, its draw is the low (p even)
// or high (p odd) half of draw(key, stream, p / 2). It is kept where that is at least rate * 2^16.
//
//   y[i] = x[i] * (1 / (1 - rate)) where kept, else 0;   0 <= rate <= 1, taken to 1 in 65536
//
// Its own gradient: dx is dropout(dy) with the same draws. x and y may be the same array.
template <class T>  // float or double
void dropout(const T* x, T* y, std::size_t n, double rate, Draws draws);

}  // namespace ebb::kernels
