#include "ebb/ops/recurrent_second.hpp"

#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/ops/compare.hpp"
#include "ebb/ops/shape.hpp"
#include "ebb/ops/slice.hpp"

namespace ebb::ops::recurrent {

Tensor Taking::part(std::int64_t time) const {
  const Tensor at = Tensor::full({}, static_cast<double>(offset_ + time), DType::i32);
  return cast(expand_dims(greater(lengths_, at), 1), dtype_);
}

Tensor Taking::rest(std::int64_t time) const { return 1 - part(time); }

Tensor Taking::keep(const Tensor& x, std::int64_t time) const {
  return lengths_ ? x * part(time) : x;
}

Tensor at_time(const Tensor& x, std::int64_t t) { return squeeze(slice(x, 1, t, t + 1), 1); }

Tensor plus(const Tensor& x, const Tensor& y) { return !x ? y : !y ? x : x + y; }

}  // namespace ebb::ops::recurrent
