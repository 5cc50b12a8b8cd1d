// From [train] and [memory] to an optimizer, its rate over time, averaged weights and compile options.
//
//   const train::Length length = train::length_of(config, facts.rows);
//   const train::Rates rates = train::make_rates(config, length);
//   const auto adam = train::make_optimizer(config, params(model), rates);
//   const auto ema = train::make_ema(config, adam->params());         // null: none is asked for
#pragma once

#include <memory>
#include <vector>

#include "ebb/optim/ema.hpp"
#include "ebb/optim/optimizer.hpp"
#include "ebb/plan/options.hpp"
#include "ebb/train/config/config.hpp"

namespace ebb::train {

struct Length {
  std::int64_t per_epoch = 0;  // steps
  std::int64_t steps = 0;      // of the whole run
};
Length length_of(const Config& config, std::int64_t rows);

// Steps of a period that is said in steps or epochs.
std::int64_t steps_of(const Period& period, const Length& length);

struct Rates {
  optim::Schedule schedule;
  // With schedule = plateau: it is to observe the held-out loss of each evaluation, and to be saved with
  // the run. The schedule asks it for the rate.
  std::shared_ptr<optim::Plateau> plateau;
};
double first_rate(const TrainConfig& config);  // train.lr, or the optimizer's own
Rates make_rates(const Config& config, const Length& length);

// With its groups, clipping and loss scale. A step whose loss or gradient is bad is skipped, and whoever runs
// the steps counts them (train.bad_steps).
std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config, std::vector<Variable> params,
                                                 const Rates& rates);
std::unique_ptr<optim::Ema> make_ema(const Config& config, std::vector<Variable> params);

CompileOptions compile_options(const Config& config);

}  // namespace ebb::train
