// A loss scale from step to step.
#pragma once

#include <cstdint>
#include <string>

#include "ebb/optim/loss_scale.hpp"
#include "ebb/tensor/variable.hpp"

namespace ebb::optim {

// Saved with the rule's state.
class ScaleState {
 public:
  ScaleState() = default;
  ScaleState(const std::string& rule, const LossScale& scale);
  bool used() const { return rule_.used(); }
  double now() const;            // 1 where it is not used
  void own();                    // makes sure that `record` cannot fail
  void record(bool finite);      // how a step went
  std::int64_t skipped() const;  // steps so far
  const Variable& state() const { return state_; }

 private:
  LossScale rule_;
  Variable state_;  // f64 (3): scale, steps since it changed, steps skipped
};

}  // namespace ebb::optim
