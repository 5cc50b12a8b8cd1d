// From a DType to a C++ type: the one place that lists them. For the files that touch elements.
#pragma once

#include <type_traits>

#include "ebb/tensor/spec.hpp"

namespace ebb {

// f(T{}), where T is the C++ type that `dtype` names.
template <class F>
decltype(auto) with_type(DType dtype, F&& f) {
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
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::boolean:
      break;
  }
  return f(bool{});
}

// One element from a double, and back.
template <class T>
T element_of(double value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, f16>) {
    return to_f16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
double number_of(T element) {
  if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>) {
    return to_float(element);
  } else {
    return static_cast<double>(element);
  }
}

}  // namespace ebb
