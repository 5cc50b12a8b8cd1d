// 16-bit floats, as storage only: arithmetic on them is done in f32.
#pragma once

#include <bit>
#include <cstdint>

namespace ebb {

struct bf16 {
  std::uint16_t bits = 0;
  bool operator==(const bf16&) const = default;
};

struct f16 {
  std::uint16_t bits = 0;
  bool operator==(const f16&) const = default;
};

inline float to_float(bf16 h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h.bits) << 16);
}

// Round to nearest, ties to even; a NaN stays a (quiet) NaN.
inline bf16 to_bf16(float f) {
  const auto u = std::bit_cast<std::uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

inline float to_float(f16 h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (h.bits >> 10) & 0x1fu, mantissa = h.bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float value = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  if (exponent == 31) {  // infinity, or a NaN, which becomes a quiet one as in hardware
    const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

// Round to nearest, ties to even; overflow becomes infinity, a NaN stays a (quiet) NaN.
inline f16 to_f16(float f) {
  const auto u = std::bit_cast<std::uint32_t>(f);
  const auto sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
  const std::uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return {static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu))};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {  // subnormal or zero: adding 0.5 rounds at the right bit
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {
        static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u;
  return {static_cast<std::uint16_t>(sign | (rounded >> 13))};
}

}  // namespace ebb
