// Optimizer steps, in place, one pass over memory for all tensors of a model.
//
// In every rule the gradient used is  g = clip(scale * grad),  where the caller's scale holds
// 1 / count of the loss and the factor of a clip by global norm, and  clip(v) = min(max(v, -c), c).
// Scalars are doubles; what is derived from them is rounded once to the element type.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace ebb::kernels {

// One tensor. `state` holds what the rule keeps per element; pointers a rule does not use are null.
template <class T>
struct Update {
  T* param;
  const T* grad;
  T* state[2];
  std::size_t size;
};

struct GradientUse {
  double scale = 1;
  double clip = std::numeric_limits<double>::infinity();
};

// g += decay * p;  b = momentum * b + (1 - dampening) * g  (b = g when first);
// p -= lr * (nesterov ? g + momentum * b : b).  Without momentum p -= lr * g. state[0]: b.
struct SgdRule {
  double lr = 0.01, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  bool first = false;
};

// g += decay * p (Adam), p *= 1 - lr * decay (AdamW, decoupled);
// m += (1 - beta1) * (g - m);  v = beta2 * v + (1 - beta2) * g^2;
// p -= lr / correction1 * m / (sqrt(v) / sqrt(correction2) + eps).
// correction = 1 - beta^t at step t = 1, 2, …  state[0]: m, state[1]: v.
struct AdamRule {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  double correction1 = 1, correction2 = 1;
  bool decoupled = false;
};

// Adam for tables of which few rows have a gradient at a time: a row in which the gradient is zero
// is left as it is, its m and v too, instead of coasting on them. Another rule than Adam's, not a
// quicker way to the same result. The kernels take it for tables given as rows (update_sparse.hpp).
struct LazyAdamRule : AdamRule {};

// g += decay * p;  v = alpha * v + (1 - alpha) * g^2;  u = g / (sqrt(v) + eps);
// with momentum b = momentum * b + u; p -= lr * b, else p -= lr * u.  state[0]: v, state[1]: b.
struct RmspropRule {
  double lr = 0.01, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
};

// g += decay * p;  s += g^2;  p -= lr * g / (sqrt(s) + eps).  state[0]: s.
struct AdagradRule {
  double lr = 0.01, eps = 1e-10, weight_decay = 0;
};

// p *= 1 - lr * decay;  p -= lr * sign(m + (1 - beta1) * (g - m));  m += (1 - beta2) * (g - m).
// state[0]: m.
struct LionRule {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};

// An average that moves: param += (1 - decay) * (grad - param), where `grad` points to the values
// that are averaged. Scale and clip play no part.
struct EmaRule {
  double decay = 0.999;
};

// T is float or double, Rule one of those above.
template <class T, class Rule>
void update(std::span<const Update<T>> tensors, const Rule& rule, GradientUse use = {});

// Sum of squares over the gradients of all tensors (only grad and size are read), in f64: 16 lanes
// within pieces of kSquaresPiece elements, then one chain over the pieces.
inline constexpr std::size_t kSquaresPiece = 16384;
std::size_t sum_of_squares_scratch(std::span<const Update<float>> tensors);
std::size_t sum_of_squares_scratch(std::span<const Update<double>> tensors);
double sum_of_squares(std::span<const Update<float>> tensors, std::span<std::byte> scratch);
double sum_of_squares(std::span<const Update<double>> tensors, std::span<std::byte> scratch);

}  // namespace ebb::kernels
