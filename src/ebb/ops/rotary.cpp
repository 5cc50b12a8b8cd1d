// Positions by turns: the op, and what users call (ebb/ops/attention.hpp).
#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/kernels/rotary.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/attention.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/last_axis.hpp"
#include "ebb/ops/layout.hpp"

namespace ebb {

using namespace ops;

namespace {

[[noreturn]] void refuse(const char* op, const std::string& why) {
  throw Error(fmt::format("{}: {}", op, why));
}

}  // namespace

Spec Rotary::shape(const Spec& x) const {
  check_float(name, x);
  if (x.rank() != 3 && x.rank() != 4)
    refuse(name, fmt::format("{} is not (batch, positions, heads * size)", to_string(x)));
  const std::int64_t width = layout::product(x.shape, 2, x.shape.rank());
  if (heads < 1 || heads * size > width)
    refuse(name, fmt::format("{} heads of size {} do not fit {}", heads, size, to_string(x)));
  if (size < 2 || size % 2 != 0)
    refuse(name, fmt::format("the size of a head is {}, expected an even number", size));
  if (size > static_cast<std::int64_t>(kernels::kMaxRotarySize))
    refuse(name, fmt::format("the size of a head is {}, expected at most {}", size,
                             kernels::kMaxRotarySize));
  if (!(base > 0) || offset < 0)
    refuse(name, fmt::format("base {} and offset {} are out of range", base, offset));
  return x;
}
Cost Rotary::cost(const Spec& x) const { return reduction_cost(3, x, {&x, &x}); }

void Rotary::run(In x, Out y, Scratch) const {
  const auto whole = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const kernels::Rotary r{.batch = whole(x.shape()[0]),
                          .positions = whole(x.shape()[1]),
                          .width = whole(layout::product(x.shape(), 2, x.shape().rank())),
                          .heads = whole(heads),
                          .size = whole(size),
                          .base = base,
                          .offset = whole(offset),
                          .back = back};
  with_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::rotary<T>(r, x.as<T>(), y.as<T>());
  });
}

void Rotary::grad(Back& b) const {
  if (!b.wants(0)) return;
  Rotary turned_back = *this;
  turned_back.back = !back;
  b.give(0, apply(turned_back, b.d()));
}

Tensor rotary(const Tensor& x, RotaryOptions options) {
  Rotary op{
      .heads = options.heads, .size = options.size, .offset = options.offset, .base = options.base};
  if (x.rank() == 4) {
    const std::int64_t size = x.shape()[3];
    if (op.size != 0 && op.size != size)
      refuse(op.name, fmt::format("the heads of {} are of size {}, not {}", to_string(x.spec()),
                                  size, op.size));
    op.size = size;
    if (op.heads == 0) op.heads = x.shape()[2];
  }
  if (x.rank() == 3) {
    const std::int64_t width = x.shape()[2];
    const auto parts_of = [&](std::int64_t part, const std::string& into) {
      if (part < 1 || width % part != 0)
        refuse(op.name, fmt::format("a width of {} in {} does not divide into {}", width,
                                    to_string(x.spec()), into));
      return width / part;
    };
    if (op.size == 0) {
      if (op.heads == 0) op.heads = 1;
      op.size = parts_of(op.heads, fmt::format("{} heads", op.heads));
    } else if (op.heads == 0) {
      op.heads = parts_of(op.size, fmt::format("heads of size {}", op.size));
    }
  }
  return apply(op, x);
}

}  // namespace ebb
