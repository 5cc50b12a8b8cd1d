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

// f(E{}), E the unsigned integer of 1, 2, 4 or 8 bytes: elements that are only moved.
template <class F>
void with_bits(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}

}  // namespace ebb::kernels
