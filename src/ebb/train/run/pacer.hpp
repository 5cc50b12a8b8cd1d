// When something is due: every so many steps, epochs or seconds. Asked at every step boundary.
//
//   train::Pacer eval(config.every.eval);              // "100 steps", "1 epoch", "10min", "never"
//   …
//   if (eval.due({.step = step, .epochs = epochs, .end_of_epoch = last_of_epoch})) evaluate();
//
// Steps and epochs are counted from the beginning of the training, not of the process, and a Pacer
// keeps no state for them: a resumed run does the same things at the same steps. Seconds are counted
// from when the Pacer was made, or from when it was last due.
#pragma once

#include <cstdint>

#include "ebb/train/run/clock.hpp"

namespace ebb::train {

// How often. Made of anything with the same `unit` and `amount`, such as a config's Period.
struct Every {
  enum class Unit : std::uint8_t { never, steps, epochs, seconds };
  Unit unit = Unit::never;
  double amount = 0;  // whole, of steps and epochs
  bool operator==(const Every&) const = default;

  Every() = default;
  Every(Unit u, double a) : unit(u), amount(a) {}
  template <class P>
  requires requires(const P& p) {
    p.unit == P::Unit::epochs;
    p.amount;
  }
  Every(const P& period)  // NOLINT: implicit, as they mean the same
      : unit(period.unit == P::Unit::steps     ? Unit::steps
             : period.unit == P::Unit::epochs  ? Unit::epochs
             : period.unit == P::Unit::seconds ? Unit::seconds
                                               : Unit::never),
        amount(period.amount) {}

  static Every never() { return {}; }
  static Every steps(std::int64_t n) { return {Unit::steps, static_cast<double>(n)}; }
  static Every epochs(std::int64_t n) { return {Unit::epochs, static_cast<double>(n)}; }
  static Every seconds(double n) { return {Unit::seconds, n}; }
};

// Where a run stands between two steps; all since the beginning of the training.
struct Boundary {
  std::int64_t step = 0;      // steps done
  std::int64_t epochs = 0;    // epochs done
  bool end_of_epoch = false;  // the step that was just done has ended one
};

class Pacer {
 public:
  // An Error where the amount is not positive, or not whole of steps and epochs.
  explicit Pacer(Every every, Clock clock = steady_seconds);

  bool due(const Boundary& at);
  const Every& every() const { return every_; }

 private:
  Every every_;
  Clock clock_;
  double last_ = 0;
};

// How often it will be due after `step` and up to `steps`; of seconds, 0: that is not known.
std::int64_t times_due(const Every& every, std::int64_t step, std::int64_t steps,
                       std::int64_t steps_per_epoch);

}  // namespace ebb::train
