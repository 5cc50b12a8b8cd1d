// Adam with its state in 8 bits, in place: about 2.03 bytes of state for each parameter.
//
// State is cut into blocks of 256 elements, each with one f32 scale for m and one for sqrt(v); an
// element is 8 bits of a code that is fine near zero and coarse near the largest of its block: that
// of |x| / scale + 2^-8 read as the bits of a float. m has a sign, 8 octaves and 16 codes in each;
// sqrt(v), which is what divides the step, has no sign and 32 codes in each of 8 octaves.
//
// A moving average with a long memory changes by less than a code at a time and would stand still
// if it were rounded to the nearest. So sqrt(v) is rounded up or down at random, with chances that
// keep its mean; the randomness is a hash of step and position, the same however the work is cut.
// Where v is not zero its code is not zero either: nothing is divided by eps alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ebb/kernels/update.hpp"

namespace ebb::kernels {

inline constexpr std::size_t kStateBlock = 256;  // elements that share a scale

// Bytes of state for `size` elements: codes of m, codes of v, then (at a multiple of 4) the scales
// of m and those of v. All zero is the state before the first step.
std::size_t adam8_state_bytes(std::size_t size);

struct Update8 {
  float* param;
  const float* grad;
  std::uint8_t* m;  // codes
  std::uint8_t* v;
  float* m_scale;  // one for each block
  float* v_scale;
  std::size_t size;
  std::size_t first = 0;  // where the element 0 stands in its tensor: a multiple of kStateBlock
};
Update8 update8(float* param, const float* grad, std::byte* state, std::size_t size);
// Elements [from, from + count) of it; `from` is a multiple of kStateBlock.
Update8 part_of(const Update8& tensor, float* param, const float* grad, std::size_t from,
                std::size_t count);

struct Adam8Rule {
  AdamRule adam;
  std::int64_t step = 1;  // what the rounding's randomness is drawn from
};

void adam8(std::span<const Update8> tensors, const Adam8Rule& rule, GradientUse use = {});

// What a state stands for, for tests and for those who want to look.
void adam8_read(const Update8& tensor, float* m, float* v);

}  // namespace ebb::kernels
