// Labels of i32 or i64 as a loss takes them. For the files of the losses.
#pragma once

#include "ebb/kernels/loss.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops {

[[noreturn]] void refuse_label(const char* op, std::int64_t label, std::ptrdiff_t row,
                               std::size_t classes);

// f(labels) in their own type, all of them in range.
template <class F>
void with_labels(const char* op, In labels, std::size_t classes, std::int64_t ignore, F&& f) {
  const auto checked = [&](auto zero) {
    using L = decltype(zero);
    const L* all = labels.as<L>();
    const auto bad =
        kernels::first_bad_label(all, static_cast<std::size_t>(labels.size()), classes, ignore);
    if (bad != kernels::kLabelsInRange)
      refuse_label(op, static_cast<std::int64_t>(all[bad]), bad, classes);
    f(all);
  };
  labels.dtype() == DType::i32 ? checked(std::int32_t{}) : checked(std::int64_t{});
}

}  // namespace ebb::ops
