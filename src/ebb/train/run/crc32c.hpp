// CRC-32C (Castagnoli), as TensorBoard's records carry it. A byte at a time: a row has a few hundred.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ebb::train {

inline std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t remainder = i;
      for (int bit = 0; bit < 8; ++bit)
        remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82f63b78u : 0u);
      table[i] = remainder;
    }
    return table;
  }();
  std::uint32_t crc = ~0u;
  for (const char c : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

}  // namespace ebb::train
