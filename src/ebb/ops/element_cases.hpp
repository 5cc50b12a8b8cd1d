// The element types a kernel takes, of all those there are. For the files that define ops, whose
// shape rules have refused the others.
#pragma once

#include <type_traits>

#include "ebb/tensor/with_type.hpp"

namespace ebb::ops {

// Throws, naming `op`, where it does not compute with elements of x's type: all floats are fine and,
// with `integers`, i32 and i64 (tensor/spec.hpp says why no narrower ones).
void check_number(const char* op, const Spec& x, bool integers);
inline void check_float(const char* op, const Spec& x) { check_number(op, x, false); }
// Throws unless both are of one type.
void check_same_type(const char* op, const Spec& a, const Spec& b);

// f(T{}) for the floating types and, with kIntegers, for i32 and i64.
template <bool kIntegers, class F>
void with_number(DType dtype, F&& f) {
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr bool integer = std::is_integral_v<T>;
    if constexpr (!integer || (kIntegers && sizeof(T) >= 4)) f(zero);
  });
}

// f(float{}) or f(double{}), for ops that take no 16-bit floats.
template <class F>
void with_float(DType dtype, F&& f) {
  dtype == DType::f64 ? f(double{}) : f(float{});
}

// f(T{}) for the types sums are kept in: f32, f64, i32 and i64.
template <class F>
void with_summable(DType dtype, F&& f) {
  with_type(dtype, [&](auto zero) {
    if constexpr (sizeof(zero) >= 4) f(zero);
  });
}

}  // namespace ebb::ops
