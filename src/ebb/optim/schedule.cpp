#include "ebb/optim/schedule.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ebb/base/error.hpp"

namespace ebb::optim {
namespace {

void check(bool good, const char* what, double found) {
  if (!good) throw Error(fmt::format("schedule: {}; found {}", what, found));
}

}  // namespace

Schedule constant(double lr) {
  check(lr > 0, "lr must be above 0", lr);
  return [lr](std::int64_t) { return lr; };
}

Schedule step_decay(double lr, std::int64_t every, double factor) {
  check(lr > 0, "lr must be above 0", lr);
  check(every > 0, "every must be at least 1 step", static_cast<double>(every));
  check(factor > 0, "factor must be above 0", factor);
  return
      [=](std::int64_t taken) { return lr * std::pow(factor, static_cast<double>(taken / every)); };
}

Schedule exponential(double lr, double rate) {
  check(lr > 0, "lr must be above 0", lr);
  check(rate > 0, "rate must be above 0", rate);
  return [=](std::int64_t taken) { return lr * std::pow(rate, static_cast<double>(taken)); };
}

Schedule warmup_cosine(double lr, std::int64_t warmup, std::int64_t total, double floor) {
  check(lr > 0, "lr must be above 0", lr);
  check(warmup >= 0, "warmup must be 0 or more steps", static_cast<double>(warmup));
  check(total > warmup, "total must be above warmup", static_cast<double>(total));
  check(floor >= 0 && floor <= lr, "floor must lie between 0 and lr", floor);
  return [=](std::int64_t taken) {
    if (taken < warmup) return lr * static_cast<double>(taken + 1) / static_cast<double>(warmup);
    const double done =
        std::min(1.0, static_cast<double>(taken - warmup) / static_cast<double>(total - warmup));
    return floor + (lr - floor) * 0.5 * (1 + std::cos(std::numbers::pi * done));
  };
}

Plateau::Plateau(double lr, PlateauOptions options)
    : options_(options),
      state_("plateau", Tensor::of<double>({lr, std::numeric_limits<double>::infinity(), 0}), false,
             Category::optimizer) {
  check(lr > 0, "lr must be above 0", lr);
  check(options.factor > 0 && options.factor < 1, "factor must lie between 0 and 1",
        options.factor);
  check(options.patience >= 0, "patience must be 0 or more", options.patience);
}

Plateau::Plateau(const Plateau& other) : options_(other.options_), state_(other.state_.clone()) {}

Plateau& Plateau::operator=(const Plateau& other) {
  options_ = other.options_;
  state_ = other.state_.clone();
  return *this;
}

Plateau::Now Plateau::now() const {
  Now n;
  state_.read(std::as_writable_bytes(std::span(&n, 1)), 0);
  return n;
}

double Plateau::observe(double loss) {
  Now n = now();
  if (loss < n.best * (1 - options_.threshold) ||
      n.best == std::numeric_limits<double>::infinity()) {
    if (loss < n.best) n.best = loss;
    n.waited = 0;
  } else if (++n.waited > options_.patience) {
    n.lr = std::max(options_.floor, n.lr * options_.factor);
    n.waited = 0;
  }
  state_.write(std::as_bytes(std::span(&n, 1)), 0);
  return n.lr;
}

}  // namespace ebb::optim
