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

#include "ebb/tensor/variable.hpp"

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

// The scale from step to step; saved with the rule's state.
class ScaleState {
 public:
  ScaleState() = default;
  ScaleState(const std::string& rule, const LossScale& scale);
  bool used() const { return rule_.used(); }
  double now() const;             // 1 where it is not used
  void own();                     // makes sure that `record` cannot fail
  void record(bool finite);       // how a step went
  std::int64_t skipped() const;   // steps so far
  const Variable& state() const { return state_; }

 private:
  LossScale rule_;
  Variable state_;  // f64 (3): scale, steps since it changed, steps skipped
};

}  // namespace ebb::optim
