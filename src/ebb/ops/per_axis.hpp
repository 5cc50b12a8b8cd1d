// A number for each axis or side: `.stride = 2` is the same for all, `.stride = {2, 1}` names each.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>

namespace ebb {

template <std::size_t N>
struct PerAxis : std::array<std::int64_t, N> {
  constexpr PerAxis(std::int64_t all) { this->fill(all); }
  template <std::integral... T>
  requires(sizeof...(T) == N) constexpr PerAxis(T... each)
      : std::array<std::int64_t, N>{static_cast<std::int64_t>(each)...} {}
};

}  // namespace ebb
