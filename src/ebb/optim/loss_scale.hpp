// Training with 16-bit floats: what an optimizer does about their short range and short mantissa.
//
//   optim::AdamW adam(params(model), {.half = {.loss_scale = optim::dynamic}});
//
// A parameter of 16 bits is too coarse to take small steps, so an optimizer keeps a master copy of
// it in f32, unless it is told not to. Gradients in f16 vanish below 6e-8, so the loss is multiplied
// by a large number before the walk back, and the step divides by it: a dynamic one is halved, and
// the step is not taken, when a gradient overflows, and grows again after a while without.
#pragma once

#include <cstdint>

namespace ebb::optim {

struct LossScale {
  double first = 1;  // what the loss is multiplied by in the first step
  double growth = 1, backoff = 1;
  std::int64_t patience = 0;  // steps without overflow before it grows
  bool used() const { return first != 1 || growth != 1; }
};
inline constexpr LossScale dynamic{65536, 2, 0.5, 2000};

struct Half {
  bool master = true;      // an f32 copy of each 16-bit parameter is what is updated
  LossScale loss_scale{};  // none
};

}  // namespace ebb::optim
