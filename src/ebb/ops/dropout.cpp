#include "ebb/ops/dropout.hpp"

#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/kernels/dropout.hpp"
#include "ebb/ops/apply.hpp"
#include "ebb/ops/element_cases.hpp"
#include "ebb/ops/random.hpp"

namespace ebb {

using namespace ops;

Spec Dropout::shape(const Spec& x, const Spec& key) const {
  check_float(name, x);
  if (!(rate >= 0 && rate <= 1))
    throw Error(fmt::format("dropout: the rate is {}, expected 0 to 1", rate));
  if (key != Spec{{random::kKeySize}, DType::i64})
    throw Error(fmt::format("dropout: the key is {}, expected i64({}): seed, step, first row, rows",
                            to_string(key), random::kKeySize));
  return x;
}

Cost Dropout::cost(const Spec& x, const Spec&) const {
  return {10.0 * static_cast<double>(x.size()), 2.0 * static_cast<double>(x.bytes())};
}

void Dropout::run(In x, In key, Out y, Scratch) const {
  const std::int64_t* k = key.as<std::int64_t>();
  const std::int64_t rows = x.shape().rank() == 0 ? 1 : x.shape()[0];
  const Draws draws{{static_cast<std::uint64_t>(k[0]), static_cast<std::uint64_t>(k[1])},
                    stream,
                    random::first_position(k, x.size(), rows)};
  ops::with_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::dropout(x.as<T>(), y.as<T>(), static_cast<std::size_t>(x.size()),
                     static_cast<double>(rate), draws);
  });
}

void Dropout::grad(Back& b) const {
  if (b.wants(0)) b.give(0, apply(*this, b.d(), b.in(1)));
}

Tensor dropout(const Tensor& x, double rate) {
  return apply(Dropout{static_cast<float>(rate), random::next_stream()}, x, random::key());
}

}  // namespace ebb
