// Elementwise kernels over contiguous arrays and broadcast pairs.
//
// Element types: float and double everywhere; bf16 and f16 everywhere too, computed in f32; int32
// and int64 where a function has a meaning in integers (stated below; arithmetic wraps). An output
// may be the same array as an input of the same type and shape.
//
// NaN: relu, leaky_relu, elu, clip, minimum and maximum give NaN where an input is NaN, as NumPy's
// do. Comparisons with NaN are false, but for ne, which is true.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ebb/base/math_functions.hpp"
#include "ebb/kernels/nd.hpp"

namespace ebb::kernels {

using math::Binary;
using math::Compare;
using math::Logic;
using math::Unary;
using math::UnaryGrad;

struct Scalars {  // parameters of the functions that have some
  double a = 0, b = 0;
};

// y[i] = op(x[i])
template <class T>
void unary(Unary op, const T* x, T* y, std::size_t n, Scalars scalars = {});

// dx[i] = dy[i] * op'(saved[i])
template <class T>
void unary_grad(UnaryGrad op, const T* saved, const T* dy, T* dx, std::size_t n,
                Scalars scalars = {});

// y = op(a, b), broadcast. Comparisons give bools and also take uint8_t and bool.
template <class T>
void binary(Binary op, const Broadcast<2>& walk, const T* a, const T* b, T* y);
template <class T>
void compare(Compare op, const Broadcast<2>& walk, const T* a, const T* b, bool* y);
void logic(Logic op, const Broadcast<2>& walk, const bool* a, const bool* b, bool* y);
void logical_not(const bool* x, bool* y, std::size_t n);

// y = condition ? a : b, broadcast, for elements of 1, 2, 4 or 8 bytes; the walk's operands are in
// that order.
void where(const Broadcast<3>& walk, std::size_t element_bytes, const bool* condition,
           const void* a, const void* b, void* y);

}  // namespace ebb::kernels
