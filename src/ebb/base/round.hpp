// Sizes in whole parts.
#pragma once

#include <concepts>
#include <type_traits>

namespace ebb {

// How many parts of `part` hold n.
template <std::integral I>
constexpr I ceil_div(I n, std::type_identity_t<I> part) {
  return (n + part - 1) / part;
}

// n, or the next multiple of `part`.
template <std::integral I>
constexpr I round_up(I n, std::type_identity_t<I> part) {
  return ceil_div(n, part) * part;
}

}  // namespace ebb
