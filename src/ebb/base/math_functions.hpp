// The functions that ops are named after and kernels compute: one list for both, apart from either,
// so that the headers of ops need none of the kernels'.
#pragma once

#include <cstdint>

namespace ebb {

// What a product of matrices may end with (ebb/ops/matmul.hpp).
enum class Activation : std::uint8_t { none, relu, tanh, sigmoid, gelu, gelu_tanh, silu };

}  // namespace ebb

namespace ebb::math {

// Integers have neg, abs, sign, square, relu and clip.
enum class Unary {
  neg,
  abs,
  sign,
  exp,
  log,
  log1p,
  expm1,
  sqrt,
  rsqrt,
  square,
  reciprocal,
  sin,
  cos,
  tanh,
  erf,
  sigmoid,
  softplus,
  relu,
  leaky_relu,  // a: slope below zero
  elu,         // a: alpha
  gelu,
  gelu_tanh,
  silu,
  clip,  // a, b: the limits; of integers the whole numbers within them
};

// dx from dy and one saved array: y (the output) where that suffices, else x (the input).
enum class UnaryGrad {
  relu,        // y
  leaky_relu,  // y, slope a >= 0
  elu,         // y, alpha a
  tanh,        // y
  sigmoid,     // y
  softplus,    // x
  gelu,        // x
  gelu_tanh,   // x
  silu,        // x
  erf,         // x
  abs,         // x
  clip,        // x, limits a, b: dy inside and at the limits
};

enum class Binary {
  add,
  sub,
  mul,
  div,
  pow,
  minimum,
  maximum
};  // integers: all but pow; div
    // truncates, x / 0 is 0
enum class Compare { eq, ne, lt, le, gt, ge };
enum class Logic { and_, or_, xor_ };

enum class Reduce { sum, mean, max, min, prod, logsumexp, var };

// Losses of element pairs, prediction x and target t, with d = x - t:
//   binary_cross_entropy   log(1 + e^x) - x * t, x a logit     derivative  sigmoid(x) - t
//   squared                d^2                                 2 d
//   absolute               |d|                                 sign(d), 0 at 0
//   huber                  d^2 / 2 where |d| <= delta,         min(max(d, -delta), delta)
//                          delta * (|d| - delta / 2) elsewhere
enum class PairLoss { binary_cross_entropy, squared, absolute, huber };

// A label as a distribution over classes: (1 - s) at the label plus s / classes everywhere, with
// smoothing s. Rows whose label is ignore_index count for nothing.
struct SparseTargets {
  std::int64_t ignore_index = -100;
  double smoothing = 0;
  bool operator==(const SparseTargets&) const = default;
};

}  // namespace ebb::math
