// Sizes and steps of contiguous arrays. For the files that define ops.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "ebb/tensor/with_type.hpp"

namespace ebb::ops::layout {

using Sizes = std::array<std::int64_t, Shape::kMaxRank>;

inline Shape to_shape(const Sizes& dims, int rank) {
  return Shape(std::span(dims.data(), static_cast<std::size_t>(rank)));
}

// The steps of a contiguous array, in bytes.
inline Sizes steps_of(const Shape& shape, DType dtype) {
  Sizes steps{};
  auto step = static_cast<std::int64_t>(size_of(dtype));
  for (int d = shape.rank() - 1; d >= 0; --d) {
    steps[static_cast<std::size_t>(d)] = step;
    step *= shape[d];
  }
  return steps;
}

// Whether two shapes agree in everything but one axis.
inline bool agree_beside(const Shape& a, const Shape& b, int axis) {
  if (a.rank() != b.rank()) return false;
  for (int d = 0; d < a.rank(); ++d)
    if (d != axis && a[d] != b[d]) return false;
  return true;
}

inline std::int64_t product(const Shape& shape, int begin, int end) {
  std::int64_t n = 1;
  for (int d = begin; d < end; ++d) n *= shape[d];
  return n;
}

// An array seen along an axis: (outer, size, inner).
struct Along {
  std::size_t outer, size, inner;
  Along(const Shape& shape, int axis)
      : outer(static_cast<std::size_t>(product(shape, 0, axis))),
        size(static_cast<std::size_t>(shape[axis])),
        inner(static_cast<std::size_t>(product(shape, axis + 1, shape.rank()))) {}
};

// The bytes of one element.
struct Element {
  std::byte bytes[8];
  Element(double value, DType dtype) {
    with_type(dtype, [&](auto zero) {
      const auto element = element_of<decltype(zero)>(value);
      std::memcpy(bytes, &element, sizeof element);
    });
  }
};

}  // namespace ebb::ops::layout
