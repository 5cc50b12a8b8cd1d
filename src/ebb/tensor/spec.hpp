// What a tensor is before it has a value: DType, Shape, and both together, Spec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>

#include "ebb/base/half.hpp"

namespace ebb {

// The narrow integers, u8 and bool, are for keeping and for telling apart: whatever moves elements
// (concat, gather, pad, …), compares them or chooses by them (where, masks, indices) takes them.
// What computes with numbers, sums and minima among them, takes floats and most of it i32 and i64;
// narrow ones it refuses, because what comes out seldom fits: cast them first.
enum class DType : std::uint8_t { f32, f64, bf16, f16, i32, i64, u8, boolean };

const char* name(DType dtype);
std::size_t size_of(DType dtype);  // bytes of one element
inline bool is_float(DType d) { return d <= DType::f16; }
inline bool is_half(DType d) { return d == DType::bf16 || d == DType::f16; }

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::f32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::f64> {};
template <>
struct DTypeOf<bf16> : std::integral_constant<DType, DType::bf16> {};
template <>
struct DTypeOf<f16> : std::integral_constant<DType, DType::f16> {};
template <>
struct DTypeOf<std::int32_t> : std::integral_constant<DType, DType::i32> {};
template <>
struct DTypeOf<std::int64_t> : std::integral_constant<DType, DType::i64> {};
template <>
struct DTypeOf<std::uint8_t> : std::integral_constant<DType, DType::u8> {};
template <>
struct DTypeOf<bool> : std::integral_constant<DType, DType::boolean> {};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

// Rank 0 to 8, sizes from 0. The product of the sizes times 8 bytes always fits in 63 bits: that is
// checked here, once, so that nobody has to check it again.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[axis]; }  // 0 <= axis < rank
  std::int64_t size() const;                                       // elements
  const std::int64_t* begin() const { return dims_; }
  const std::int64_t* end() const { return dims_ + rank_; }
  std::span<const std::int64_t> dims() const { return {dims_, static_cast<std::size_t>(rank_)}; }
  Shape with_axis(int axis, std::int64_t size) const;  // 0 <= axis < rank; all else as it is

  bool operator==(const Shape& other) const;

 private:
  std::int64_t dims_[kMaxRank] = {};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // (4, 64)

struct Spec {
  Shape shape;
  DType dtype = DType::f32;
  bool operator==(const Spec&) const = default;

  std::int64_t size() const { return shape.size(); }
  int rank() const { return shape.rank(); }
  std::size_t bytes() const { return static_cast<std::size_t>(size()) * size_of(dtype); }
  // The same with another size of one axis, 0 <= axis < rank.
  Spec with_axis(int axis, std::int64_t size) const;
};

std::string to_string(const Spec& spec);  // f32(4, 64)

// Turns an axis counted from the back (-1 is the last) into one counted from the front. Throws,
// naming `op`, where there is no such axis.
int axis_of(const char* op, int axis, int rank);

}  // namespace ebb
