// What a whole function says about bad losses, whatever its optimizers were told.
#pragma once

#include <optional>

#include "ebb/ops/loss.hpp"

namespace ebb::optim {

// For as long as it lives, the word of this thread.
class BadLossScope {
 public:
  explicit BadLossScope(std::optional<BadLoss> bad);
  ~BadLossScope();
  BadLossScope(const BadLossScope&) = delete;
  BadLossScope& operator=(const BadLossScope&) = delete;

  static std::optional<BadLoss> now();  // of this thread

 private:
  std::optional<BadLoss> outer_;
};

}  // namespace ebb::optim
