#include "ebb/tensor/spec.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "ebb/base/error.hpp"

namespace ebb {

const char* name(DType dtype) {
  static constexpr const char* names[] = {"f32", "f64", "bf16", "f16", "i32", "i64", "u8", "bool"};
  return names[static_cast<int>(dtype)];
}

std::size_t size_of(DType dtype) {
  static constexpr std::uint8_t sizes[] = {4, 8, 2, 2, 4, 8, 1, 1};
  return sizes[static_cast<int>(dtype)];
}

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank)
    throw Error(fmt::format("shape: rank {} is above the largest, {}", dims.size(), +kMaxRank));
  rank_ = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_);
  // Sizes of zero do not excuse the others: a shape is refused for what it would be without them.
  std::int64_t product = 1;
  for (const std::int64_t d : dims) {
    if (d < 0) throw Error(fmt::format("shape: {} has a negative size", to_string(*this)));
    if (__builtin_mul_overflow(product, std::max<std::int64_t>(d, 1), &product) ||
        product > std::numeric_limits<std::int64_t>::max() / 8)
      throw Error(
          fmt::format("shape: {} has more elements than can be addressed", to_string(*this)));
  }
}

std::int64_t Shape::size() const {
  std::int64_t product = 1;
  for (int i = 0; i < rank_; ++i) product *= dims_[i];
  return product;
}

Shape Shape::with_axis(int axis, std::int64_t size) const {
  std::int64_t dims[kMaxRank] = {};
  std::copy(begin(), end(), dims);
  dims[axis] = size;
  return Shape(std::span<const std::int64_t>(dims, static_cast<std::size_t>(rank_)));
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(begin(), end(), other.begin());
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i ? ", " : "", shape[i]);
  return text + ")";
}

Spec Spec::with_axis(int axis, std::int64_t size) const {
  return {shape.with_axis(axis, size), dtype};
}

std::string to_string(const Spec& spec) { return name(spec.dtype) + to_string(spec.shape); }

int axis_of(const char* op, int axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw Error(rank == 0
                    ? fmt::format("{}: axis {} of a scalar, which has none", op, axis)
                    : fmt::format("{}: axis {} is out of range for rank {}; expected {} to {}", op,
                                  axis, rank, -rank, rank - 1));
  return axis < 0 ? axis + rank : axis;
}

}  // namespace ebb
