// Weight gradient of a convolution: dw[co, kh, kw, ci] = Σ over places (n, oh, ow) of
// dy[place, co] * x[what tap (kh, kw) of the place's window sees, ci].
#pragma once

#include <cstddef>
#include <span>

#include "ebb/kernels/conv.hpp"

namespace ebb::kernels::conv {

template <class T>
void weight_grad(const Conv2dShape& shape, const T* x, const T* dy, T* dw, bool accumulate,
                 std::span<std::byte> scratch);

template <class T>
std::size_t weight_grad_scratch_bytes(const Conv2dShape& shape);

}  // namespace ebb::kernels::conv
