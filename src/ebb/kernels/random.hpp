// Arrays of random numbers, counted (see ebb/base/rng.hpp). T is float or double.
//
// With p = first + i, element i is made of u(p) in [0, 1):
//   f32   the upper 24 bits of draw(key, stream, p), over 2^24
//   f64   the upper 53 bits of draw64(key, stream, p), over 2^53
#pragma once

#include <cstddef>

#include "ebb/base/rng.hpp"

namespace ebb::kernels {

// low + (high - low) * u.
template <class T>
void uniform(T* out, std::size_t n, double low, double high, Draws draws);

// mean + stddev * z, z normal by Box and Muller from pairs 16 positions apart: for p with
// p / 16 even, r = sqrt(-2 log(1 - u(p))) and a = 2 pi u(p + 16) give z(p) = r cos(a) and
// z(p + 16) = r sin(a).
template <class T>
void normal(T* out, std::size_t n, double mean, double stddev, Draws draws);

}  // namespace ebb::kernels
