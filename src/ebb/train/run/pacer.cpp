#include "ebb/train/run/pacer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "ebb/base/error.hpp"

namespace ebb::train {
namespace {

using Unit = Every::Unit;

constexpr double kMostSteps = 9e15;  // whole numbers are exact up to here

void check(const Every& every) {
  if (every.unit == Unit::never) return;
  const bool whole = every.unit == Unit::seconds || every.amount == std::floor(every.amount);
  if (every.amount > 0 && every.amount <= kMostSteps && whole) return;
  const char* name = every.unit == Unit::steps    ? "steps"
                     : every.unit == Unit::epochs ? "epochs"
                                                  : "seconds";
  throw Error(fmt::format("every {} {}: expected {} number above 0", every.amount, name,
                          every.unit == Unit::seconds ? "a" : "a whole"));
}

}  // namespace

Pacer::Pacer(Every every, Clock clock) : every_(every), clock_(std::move(clock)) {
  check(every_);
  if (every_.unit == Unit::seconds) last_ = clock_();
}

bool Pacer::due(const Boundary& at) {
  switch (every_.unit) {
    case Unit::never:
      return false;
    case Unit::steps:
      return at.step > 0 && at.step % static_cast<std::int64_t>(every_.amount) == 0;
    case Unit::epochs:
      return at.end_of_epoch && at.epochs % static_cast<std::int64_t>(every_.amount) == 0;
    case Unit::seconds: {
      const double now = clock_();
      if (now - last_ < every_.amount) return false;
      last_ = now;
      return true;
    }
  }
  return false;
}

std::int64_t times_due(const Every& every, std::int64_t step, std::int64_t steps,
                       std::int64_t steps_per_epoch) {
  double period = 0;
  if (every.unit == Unit::steps) period = every.amount;
  if (every.unit == Unit::epochs) period = every.amount * static_cast<double>(steps_per_epoch);
  if (period <= 0 || steps <= step) return 0;
  const auto times = [&](std::int64_t n) {
    return static_cast<std::int64_t>(std::floor(static_cast<double>(n) / period));
  };
  return times(steps) - times(step);
}

}  // namespace ebb::train
