// What the ops over matrix products share. For the files that define them.
#pragma once

#include "ebb/kernels/gemm.hpp"
#include "ebb/ops/op.hpp"

namespace ebb::ops::products {

kernels::Storage storage(DType dtype);

// The result's type; throws, naming the op, where a and b do not go together.
DType result_type(const char* op, const Spec& a, const Spec& b);

// As kernels::gemm, where c (and then bias, but not pre) may also be of 16 bits: the sum is made in
// f32, a piece at a time, and rounded once.
std::size_t scratch(const kernels::Gemm& product);
void run(const kernels::Gemm& product, Scratch scratch);

}  // namespace ebb::ops::products
