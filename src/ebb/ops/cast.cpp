#include "ebb/ops/cast.hpp"

#include "ebb/kernels/convert.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/tensor/with_type.hpp"

namespace ebb {

using namespace ops;

Spec Cast::shape(const Spec& x) const { return {x.shape, to}; }
Cost Cast::cost(const Spec& x) const {
  return {static_cast<double>(x.size()), static_cast<double>(x.bytes() + shape(x).bytes())};
}

void Cast::run(In x, Out y, Scratch) const {
  with_type(x.dtype(), [&](auto from) {
    with_type(to, [&](auto into) {
      kernels::convert(x.as<decltype(from)>(), y.as<decltype(into)>(),
                       static_cast<std::size_t>(x.size()));
    });
  });
}

void Cast::grad(Back& back) const {
  if (back.wants(0)) back.give(0, cast(back.d(), back.in_spec(0).dtype));
}

Tensor cast(const Tensor& x, DType to) { return x.dtype() == to ? x : apply(Cast{to}, x); }

}  // namespace ebb
