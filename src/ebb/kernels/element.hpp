// Element types as a runtime value, so that one dispatched function serves all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ebb/base/half.hpp"

namespace ebb::kernels {

enum class Element { f32, f64, bf16, f16, i32, i64, u8, boolean };

template <class T>
constexpr Element element_of() {
  if constexpr (std::is_same_v<T, float>) return Element::f32;
  if constexpr (std::is_same_v<T, double>) return Element::f64;
  if constexpr (std::is_same_v<T, ebb::bf16>) return Element::bf16;
  if constexpr (std::is_same_v<T, ebb::f16>) return Element::f16;
  if constexpr (std::is_same_v<T, std::int32_t>) return Element::i32;
  if constexpr (std::is_same_v<T, std::int64_t>) return Element::i64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return Element::u8;
  if constexpr (std::is_same_v<T, bool>) return Element::boolean;
}

}  // namespace ebb::kernels
