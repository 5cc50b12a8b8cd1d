// Tensors for people: what it is on the first line, the values in aligned columns below.
//
//   f32(2, 3)                      (a single row stays on the first line: f32(3) [1. 2. 3.])
//   [[ 1.   2.5  3. ]
//    [-4.   5.   6. ]]
//
// Above 1000 elements only the ends of each axis are shown. Values have up to six decimals; print
// to_vector() or save_npy() for all of their bits.
#pragma once

#include <iosfwd>
#include <string>

#include "ebb/tensor/tensor.hpp"

namespace ebb {

std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Shape& shape);  // (4, 64)

}  // namespace ebb
