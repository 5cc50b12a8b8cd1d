#include "ebb/tensor/constant.hpp"

#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "ebb/base/error.hpp"
#include "ebb/tensor/with_type.hpp"

namespace ebb {

void check_constant(const char* op, double value, DType dtype) {
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      if (value != 0 && value != 1)
        throw Error(
            fmt::format("{}: {} is no element of {}; expected 0 or 1, or a tensor of "
                        "another type",
                        op, value, name(dtype)));
    } else if constexpr (std::is_integral_v<T>) {
      constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
      // One above the most is a power of two: a double, which the most of i64 is not.
      constexpr double end = 2.0 * (most / 2 + 1);
      if (!(value >= static_cast<double>(least) && value < end) || value != std::floor(value))
        throw Error(
            fmt::format("{}: {} is no element of {}; expected a whole number from {} to "
                        "{}, or a tensor of another type",
                        op, value, name(dtype), least, most));
    }
  });
}

}  // namespace ebb
