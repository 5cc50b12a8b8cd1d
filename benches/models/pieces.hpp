// The bytes of variables piece by piece, wherever they are, in little memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ebb/tensor/variable.hpp"

namespace ebb::zoo {

void each_piece(const std::vector<Variable>& variables, auto&& f) {
  std::array<std::byte, InitialValue::kChunk * sizeof(double)> piece;
  for (const Variable& v : variables) {
    const std::uint64_t bytes = v.spec().bytes();
    for (std::uint64_t at = 0; at < bytes; at += piece.size()) {
      const std::span part(piece.data(), std::min<std::uint64_t>(piece.size(), bytes - at));
      v.read(part, at);
      f(std::span<const std::byte>(part));
    }
  }
}

}  // namespace ebb::zoo
