// Decimal numbers of text files → f32, rounded once, to the nearest.
#pragma once

#include <cstdint>

namespace ebb::io {

enum class NumberState { good, none, too_large };

struct Number {
  NumberState state = NumberState::none;
  float value = 0;
  const char* end = nullptr;  // behind what belongs to the number
  bool whole = false;         // no point, no exponent, at most 18 digits:
  std::int64_t integer = 0;   // what it is
};

// The number that text from `begin` on starts with: a sign, digits, a point, an exponent. What is too
// small to tell from 0 is 0; there is no inf and no nan.
Number parse_number(const char* begin, const char* end);

}  // namespace ebb::io
