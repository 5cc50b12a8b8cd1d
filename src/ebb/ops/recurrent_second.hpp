// What the ways back of lstm and gru share once more, step by step in plain ops: slow, for the
// second order only. For their files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ebb/ops/recurrent.hpp"

namespace ebb::ops::recurrent {

// Whether rows take part in a step, as numbers to multiply by. Without lengths all of them do, and
// nothing is multiplied.
class Taking {
 public:
  Taking(const Tensor& lengths, const Along& along, DType dtype)
      : lengths_(lengths), offset_(along.offset), dtype_(dtype) {}
  explicit operator bool() const { return static_cast<bool>(lengths_); }

  Tensor part(std::int64_t time) const;  // (batch, 1): 1 where a row takes part, 0 where not
  Tensor rest(std::int64_t time) const;  // the other way round
  Tensor keep(const Tensor& x, std::int64_t time) const;  // x where the row takes part, or zero

 private:
  Tensor lengths_;
  std::int64_t offset_;
  DType dtype_;
};

Tensor at_time(const Tensor& x, std::int64_t t);  // (batch, steps, n) → (batch, n)

// x + y, either of which may be empty.
Tensor plus(const Tensor& x, const Tensor& y);

inline std::size_t index(std::int64_t t) { return static_cast<std::size_t>(t); }

// The time of a step, and that of the step taken before, or -1.
struct Time {
  std::int64_t now, before;
  Time(const Along& along, std::int64_t steps, std::int64_t step)
      : now(along.reverse ? steps - 1 - step : step),
        before(step == 0       ? -1
               : along.reverse ? now + 1
                               : now - 1) {}
};

}  // namespace ebb::ops::recurrent
