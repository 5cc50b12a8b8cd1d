#include "ebb/io/text/number-inl.hpp"

#include <charconv>
#include <system_error>

namespace ebb::io {
namespace {

// Whether a number that from_chars calls out of range is too large, not too small: where its first digit
// that is not 0 stands, and the exponent.
bool beyond(const char* p, const char* end, std::int64_t exponent) {
  const char* const point = std::find_if_not(p, end, is_digit);
  const char* const first = std::find_if(p, end, [](char c) { return c >= '1' && c <= '9'; });
  const std::int64_t place = point > first ? point - first : point + 1 - first;
  return place + exponent > 0;
}

}  // namespace

NumberState rounded(const char* first, const char* end, std::int64_t exponent, float& value) {
  const auto result = std::from_chars(first, end, value);
  if (result.ec == std::errc::result_out_of_range) {
    if (beyond(first, end, exponent)) return NumberState::too_large;
    value = 0;
    return NumberState::good;
  }
  return result.ec == std::errc() && result.ptr == end ? NumberState::good : NumberState::none;
}

Number parse_number(const char* begin, const char* end) { return number_at(begin, end); }

}  // namespace ebb::io
