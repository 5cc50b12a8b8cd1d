// What ops along the last axis share: norms, softmax, cross-entropies. For the files that define them.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "ebb/ops/op.hpp"

namespace ebb::ops {

// An array as `count` runs of `size` elements, its last axis; a scalar is one run of one.
struct LastAxis {
  std::size_t count = 1, size = 1;
  explicit LastAxis(const Shape& shape) {
    if (shape.rank() == 0) return;
    size = static_cast<std::size_t>(shape[shape.rank() - 1]);
    for (int d = 0; d + 1 < shape.rank(); ++d) count *= static_cast<std::size_t>(shape[d]);
  }
};

// Throws, naming the op, unless x is of floats, has a last axis, and the parameter is (its size) of
// the same type.
void check_parameter(const char* op, const char* what, const Spec& parameter, const Spec& x);

// Of Work::reduction: `flops` for each element of x, and the bytes of all the specs.
Cost reduction_cost(double flops, const Spec& x, std::initializer_list<const Spec*> moved);

}  // namespace ebb::ops
