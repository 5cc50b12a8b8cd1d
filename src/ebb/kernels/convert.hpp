// Conversion between element types.
//
// To 16-bit floats: round to nearest, ties to even, with the bits of ebb/base/half.hpp. Float to
// integer: toward zero, limited to the integer's range, NaN gives 0. Integer to integer: modulo the
// size, as in C++. To bool: whether it is nonzero (NaN is). f64 to a 16-bit float goes by f32.
#pragma once

#include <cstddef>

namespace ebb::kernels {

// to[i] = from[i], for any two of float, double, bf16, f16, int32_t, int64_t, uint8_t, bool.
template <class From, class To>
void convert(const From* from, To* to, std::size_t n);

}  // namespace ebb::kernels
