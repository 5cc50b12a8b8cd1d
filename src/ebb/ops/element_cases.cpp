#include "ebb/ops/element_cases.hpp"

#include <fmt/core.h>

#include "ebb/base/error.hpp"

namespace ebb {

void ops::check_number(const char* op, const Spec& x, bool integers) {
  const bool integer = x.dtype == DType::i32 || x.dtype == DType::i64;
  if (is_float(x.dtype) || (integers && integer)) return;
  throw Error(fmt::format("{}: {} is not a {} type; cast it first", op, to_string(x),
                          integers ? "floating, i32 or i64" : "floating"));
}

void ops::check_same_type(const char* op, const Spec& a, const Spec& b) {
  if (a.dtype != b.dtype)
    throw Error(
        fmt::format("{}: {} and {} differ in type; cast one", op, to_string(a), to_string(b)));
}

}  // namespace ebb
