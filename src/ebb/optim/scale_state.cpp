#include "ebb/optim/scale_state.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"

namespace ebb::optim {
namespace {

// A scale beyond these says that something else is wrong than its size.
constexpr double kLeast = 0x1p-24, kMost = 0x1p60;

}  // namespace

ScaleState::ScaleState(const std::string& rule, const LossScale& scale) : rule_(scale) {
  if (!(scale.first > 0 && scale.first <= kMost))
    throw Error(
        fmt::format("{}: a loss scale of {}; expected a number above 0", rule, scale.first));
  if (!(scale.growth >= 1 && scale.backoff > 0 && scale.backoff <= 1 && scale.patience >= 0))
    throw Error(
        fmt::format("{}: a loss scale that grows by {} and falls by {}; expected at least 1 "
                    "and at most 1",
                    rule, scale.growth, scale.backoff));
  if (!used()) return;
  state_ = Variable(rule + ".loss_scale", Tensor::of<double>({scale.first, 0, 0}), false,
                    Category::optimizer);
}

double ScaleState::now() const { return used() ? state_.value().data<double>()[0] : 1; }

std::int64_t ScaleState::skipped() const {
  return used() ? static_cast<std::int64_t>(state_.value().data<double>()[2]) : 0;
}

void ScaleState::own() {
  if (used()) state_.own();
}

void ScaleState::record(bool finite) {
  if (!used()) return;
  auto* s = reinterpret_cast<double*>(state_.bytes());
  if (!finite) {
    s[0] = std::max(kLeast, s[0] * rule_.backoff);
    s[1] = 0;
    s[2] += 1;
  } else if (++s[1] >= static_cast<double>(rule_.patience) && rule_.growth > 1) {
    s[0] = std::min(kMost, s[0] * rule_.growth);
    s[1] = 0;
  }
}

}  // namespace ebb::optim
