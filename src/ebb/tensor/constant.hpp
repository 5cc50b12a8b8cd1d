// Numbers a program gives as doubles, made elements: the one place that knows the rule stated at
// Tensor::full.
#pragma once

#include "ebb/tensor/spec.hpp"

namespace ebb {

// Throws, naming `op`, where `value` is no element of an integer type; of floats all are.
void check_constant(const char* op, double value, DType dtype);

}  // namespace ebb
