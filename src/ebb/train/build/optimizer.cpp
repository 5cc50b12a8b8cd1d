#include "ebb/train/build/optimizer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ebb/base/error.hpp"
#include "ebb/train/config/names.hpp"

namespace ebb::train {
namespace {

// The fields that optimizers have in common, and the ones of them that this one has.
template <class Options>
Options options_of(const TrainConfig& t) {
  Options o;
  o.lr = first_rate(t);
  o.weight_decay = t.weight_decay.value_or(o.weight_decay);
  for (const GroupConfig& g : t.groups)
    o.groups.push_back(
        {g.names, {.lr_scale = g.lr_scale, .weight_decay = g.weight_decay, .frozen = g.frozen}});
  if constexpr (requires { o.half; })
    if (t.precision == Precision::f16) o.half.loss_scale = optim::dynamic;
  if constexpr (requires { o.beta2; }) {
    o.beta1 = t.beta1.value_or(o.beta1);
    o.beta2 = t.beta2.value_or(o.beta2);
  }
  if constexpr (requires { o.eps; }) o.eps = t.eps.value_or(o.eps);
  if constexpr (requires { o.momentum; }) o.momentum = t.momentum;
  if constexpr (requires { o.lazy; }) o.lazy = t.lazy;
  return o;
}

std::unique_ptr<optim::Optimizer> rule_of(const Config& config, std::vector<Variable> params) {
  const TrainConfig& t = config.train;
  switch (t.optimizer) {
    case OptimizerKind::sgd: {
      auto o = options_of<optim::SgdOptions>(t);
      o.dampening = t.dampening;
      o.nesterov = t.nesterov;
      return std::make_unique<optim::Sgd>(std::move(params), o);
    }
    case OptimizerKind::adam:
      return std::make_unique<optim::Adam>(std::move(params), options_of<optim::AdamOptions>(t));
    case OptimizerKind::rmsprop: {
      auto o = options_of<optim::RmspropOptions>(t);
      o.alpha = t.alpha;
      return std::make_unique<optim::Rmsprop>(std::move(params), o);
    }
    case OptimizerKind::adagrad:
      return std::make_unique<optim::Adagrad>(std::move(params),
                                              options_of<optim::AdagradOptions>(t));
    case OptimizerKind::lion:
      return std::make_unique<optim::Lion>(std::move(params), options_of<optim::LionOptions>(t));
    case OptimizerKind::adafactor: {
      auto o = options_of<optim::AdafactorOptions>(t);
      o.relative = o.decaying = !t.lr;  // a rate of the user's is taken as it is
      return std::make_unique<optim::Adafactor>(std::move(params), o);
    }
    case OptimizerKind::adamw:
      break;
  }
  const auto o = options_of<optim::AdamWOptions>(t);
  if (config.memory.optimizer_state == StateForm::eight_bit)
    return std::make_unique<optim::AdamW8bit>(std::move(params), o);
  return std::make_unique<optim::AdamW>(std::move(params), o);
}

// As many as there can be, where there would be more.
std::int64_t times(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return a > kMost / b ? kMost : a * b;
}

std::int64_t warmup_steps(const TrainConfig& t, const Length& length) {
  const double steps =
      t.warmup < 1 ? std::floor(t.warmup * static_cast<double>(length.steps)) : t.warmup;
  if (steps >= static_cast<double>(length.steps))
    throw Error(fmt::format("train.warmup is {} steps, and the run has {}", steps, length.steps));
  return static_cast<std::int64_t>(steps);
}

// Up in a line to the first rate of `then`, which begins behind the warm-up.
optim::Schedule warmed(std::int64_t warmup, optim::Schedule then) {
  if (warmup == 0) return then;
  return [warmup, then = std::move(then)](std::int64_t taken) {
    if (taken >= warmup) return then(taken - warmup);
    return then(0) * static_cast<double>(taken + 1) / static_cast<double>(warmup);
  };
}

}  // namespace

Length length_of(const Config& config, std::int64_t rows) {
  const std::int64_t batch = config.train.batch;
  const std::int64_t per_epoch =
      config.data.drop_last ? rows / batch : rows / batch + (rows % batch != 0);
  if (per_epoch == 0)
    throw Error(fmt::format("the data has {} rows to train on, {}", rows,
                            rows == 0 ? "expected at least one"
                                      : "fewer than train.batch, and data.drop_last is true"));
  const std::int64_t steps = config.train.steps;
  return {per_epoch, steps > 0 ? steps : times(per_epoch, config.train.epochs)};
}

std::int64_t steps_of(const Period& period, const Length& length) {
  const auto amount = static_cast<std::int64_t>(period.amount);
  if (period.unit == Period::Unit::steps) return amount;
  if (period.unit == Period::Unit::epochs) return times(amount, length.per_epoch);
  throw Error(fmt::format("\"{}\" is no number of steps", to_string(period)));
}

double first_rate(const TrainConfig& t) {
  if (t.lr) return *t.lr;
  switch (t.optimizer) {
    case OptimizerKind::sgd:
      return optim::SgdOptions{}.lr;
    case OptimizerKind::adam:
      return optim::AdamOptions{}.lr;
    case OptimizerKind::rmsprop:
      return optim::RmspropOptions{}.lr;
    case OptimizerKind::adagrad:
      return optim::AdagradOptions{}.lr;
    case OptimizerKind::lion:
      return optim::LionOptions{}.lr;
    case OptimizerKind::adafactor:
      return optim::AdafactorOptions{}.lr;
    case OptimizerKind::adamw:
      break;
  }
  return optim::AdamWOptions{}.lr;
}

Rates make_rates(const Config& config, const Length& length) {
  const TrainConfig& t = config.train;
  const double lr = first_rate(t);
  if (t.lr_floor > lr)
    throw Error(fmt::format("train.lr_floor is {}, above the learning rate {}", t.lr_floor, lr));
  const std::int64_t warmup = warmup_steps(t, length);
  switch (t.schedule) {
    case ScheduleKind::cosine:
      return {optim::warmup_cosine(lr, warmup, length.steps, t.lr_floor), nullptr};
    case ScheduleKind::step:
      return {
          warmed(warmup, optim::step_decay(lr, steps_of(t.decay_every, length), t.decay_factor)),
          nullptr};
    case ScheduleKind::exponential: {
      const auto every = static_cast<double>(steps_of(t.decay_every, length));
      return {warmed(warmup, optim::exponential(lr, std::pow(t.decay_factor, 1 / every))), nullptr};
    }
    case ScheduleKind::plateau: {
      const auto plateau = std::make_shared<optim::Plateau>(
          lr, optim::PlateauOptions{.factor = t.decay_factor,
                                    .patience = static_cast<int>(t.plateau_patience),
                                    .threshold = t.plateau_threshold,
                                    .floor = t.lr_floor});
      return {warmed(warmup, [plateau](std::int64_t) { return plateau->lr(); }), plateau};
    }
    case ScheduleKind::constant:
      break;
  }
  return {warmed(warmup, optim::constant(lr)), nullptr};
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config, std::vector<Variable> params,
                                                 const Rates& rates) {
  const TrainConfig& t = config.train;
  auto optimizer = rule_of(config, std::move(params));
  optimizer->set_schedule(rates.schedule);
  if (t.clip_norm > 0) optimizer->clip_norm(t.clip_norm);
  if (t.clip_value > 0) optimizer->clip_value(t.clip_value);
  if (t.check_gradient) optimizer->check_gradients();
  optimizer->on_bad_loss(BadLoss::skip);
  return optimizer;
}

std::unique_ptr<optim::Ema> make_ema(const Config& config, std::vector<Variable> params) {
  if (config.train.ema == 0) return nullptr;
  return std::make_unique<optim::Ema>(std::move(params), config.train.ema);
}

CompileOptions compile_options(const Config& config) {
  const MemoryConfig& m = config.memory;
  CompileOptions o{.allow = m.allow,
                   .recompute = m.recompute,
                   .spill = m.spill,
                   .independent_micro_batches = m.independent_micro_batches,
                   .micro_batch = m.micro_batch,
                   .spill_directory = m.spill_directory};
  if (m.budget.kind == BudgetConfig::Kind::automatic) o.memory = Memory::from_machine();
  if (m.budget.kind == BudgetConfig::Kind::bytes) o.memory = ByteSize{m.budget.bytes};
  if (m.activations == Precision::bf16) o.approximate.activations = DType::bf16;
  if (m.activations == Precision::f16) o.approximate.activations = DType::f16;
  return o;
}

}  // namespace ebb::train
