// From a DType to an element type. For the files that define ops.
#pragma once

#include "ebb/tensor/spec.hpp"

namespace ebb {

// f(T{}) for the floating types and, with kIntegers, for i32 and i64. The shape rule has refused
// the others.
template <bool kIntegers, class F>
void with_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::bf16:
      return f(bf16{});
    case DType::f16:
      return f(f16{});
    case DType::i32:
      if constexpr (kIntegers) f(std::int32_t{});
      return;
    case DType::i64:
      if constexpr (kIntegers) f(std::int64_t{});
      return;
    default:
      return;
  }
}

}  // namespace ebb
