#include "ebb/ops/cast.hpp"

#include "ebb/kernels/convert.hpp"
#include "ebb/ops/apply.hpp"

namespace ebb {
namespace {

template <class F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::bf16:
      return f(bf16{});
    case DType::f16:
      return f(f16{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::boolean:
      return f(bool{});
  }
}

}  // namespace

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
