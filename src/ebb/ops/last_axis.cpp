#include "ebb/ops/last_axis.hpp"

#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/ops/element_cases.hpp"

namespace ebb::ops {

void check_parameter(const char* op, const char* what, const Spec& parameter, const Spec& x) {
  check_float(op, x);
  if (x.rank() == 0)
    throw Error(fmt::format("{}: {} has no last axis to normalise", op, to_string(x)));
  const std::int64_t n = x.shape[x.rank() - 1];
  if (parameter.shape != Shape{n})
    throw Error(fmt::format("{}: the {} is {}, expected ({}) to go with {}", op, what,
                            to_string(parameter), n, to_string(x)));
  check_same_type(op, x, parameter);
}

Cost reduction_cost(double flops, const Spec& x, std::initializer_list<const Spec*> moved) {
  Cost c{flops * static_cast<double>(x.size()), 0, Work::reduction};
  for (const Spec* spec : moved) c.bytes += static_cast<double>(spec->bytes());
  return c;
}

}  // namespace ebb::ops
