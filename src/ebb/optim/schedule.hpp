// Learning rates over time: a Schedule gives the rate of the step that follows `taken` steps.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ebb/tensor/variable.hpp"

namespace ebb::optim {

using Schedule = std::function<double(std::int64_t taken)>;

Schedule constant(double lr);
Schedule step_decay(double lr, std::int64_t every, double factor);  // lr * factor^(taken / every)
Schedule exponential(double lr, double rate);                       // lr * rate^taken
// Up in a line over `warmup` steps, then down along half a cosine to `floor` at step `total`.
Schedule warmup_cosine(double lr, std::int64_t warmup, std::int64_t total, double floor = 0);

struct PlateauOptions {
  double factor = 0.1;      // what the rate is multiplied by
  int patience = 10;        // observations without progress that are borne
  double threshold = 1e-4;  // progress is a loss below best * (1 - threshold)
  double floor = 0;         // the rate never goes below
};

// Lowers the rate when what it is shown has stopped getting better.
class Plateau {
 public:
  explicit Plateau(double lr, PlateauOptions options = {});
  Plateau(const Plateau& other);  // with a state of its own
  Plateau& operator=(const Plateau& other);

  double observe(double loss);  // gives the rate from here on
  double lr() const { return now().lr; }
  std::vector<Variable> state() const { return {state_}; }  // what a later run needs to go on

 private:
  struct Now {
    double lr, best, waited;
  };
  Now now() const;
  PlateauOptions options_;
  Variable state_;  // f64 (3): Now
};

}  // namespace ebb::optim
