// What ops over rows share. For the files that define them.
#pragma once

#include <cstddef>

#include "ebb/ops/op.hpp"

namespace ebb::ops::rows {

// Throws, naming the op, unless x is of a floating type.
void check_float(const char* op, const Spec& x);
// Throws unless both are of one type.
void check_same_type(const char* op, const Spec& a, const Spec& b);
// Throws unless x has a last axis and the parameter is (that size) of the same type.
void check_parameter(const char* op, const char* what, const Spec& parameter, const Spec& x);

inline std::int64_t product_from(const Shape& shape, int axis) {
  std::int64_t n = 1;
  for (int d = axis; d < shape.rank(); ++d) n *= shape[d];
  return n;
}

// An array as rows of its last axis; a scalar is one row of one.
struct RowsOf {
  std::size_t count = 1, size = 1;
  explicit RowsOf(const Shape& shape) {
    if (shape.rank() == 0) return;
    size = static_cast<std::size_t>(shape[shape.rank() - 1]);
    for (int d = 0; d + 1 < shape.rank(); ++d) count *= static_cast<std::size_t>(shape[d]);
  }
};

// f(float{}) or f(double{}).
template <class F>
void with_float(DType dtype, F&& f) {
  dtype == DType::f64 ? f(double{}) : f(float{});
}

// `flops` for each element of x, and the bytes of all the specs.
Cost cost(double flops, const Spec& x, std::initializer_list<const Spec*> moved);

}  // namespace ebb::ops::rows
