// The codes of moments in 8 bits. For the file of the kernel.
#pragma once

#include <bit>
#include <cstdint>

namespace ebb::kernels {

// Codes are the bits of y = |x| / scale + kFloor from bit `shift` on, counted from kFloor's; scale
// is such that the largest |x| of the block has the last code.
inline constexpr float kFloor = 0x1p-8f;
template <int kShift, int kCodes>
struct Code {
  static constexpr int shift = kShift, last = kCodes - 1;
  static constexpr std::int32_t base = std::bit_cast<std::int32_t>(kFloor) >> kShift;
  static constexpr float top = std::bit_cast<float>((base + last) << kShift) - kFloor;
};
using CodeOfM = Code<19, 128>;
using CodeOfV = Code<18, 256>;

// Below this a block is as good as zero; 1 / scale stays a number.
inline constexpr float kTiny = 0x1p-100f;

inline constexpr std::uint32_t kMix = 0x9e3779b1u;

}  // namespace ebb::kernels
