#include "ebb/train/trainer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/base/process.hpp"
#include "ebb/base/timeline.hpp"
#include "ebb/exec/leave_steps.hpp"
#include "ebb/train/trainer_run.hpp"

namespace ebb::train {

void Trainer::Run::compile_test() {
  if (!held_out || test) return;
  const nn::Evaluation quiet;
  test = compile(held_out->spec(), options.compile,
                 [this](const Batch& b) { return model.measure(b); });
}

void Trainer::Run::compile_all() {
  by_first("a claim", [&] {
    if (RunDirectory::is_run(options.directory)) claim();
  });
  if (step) return;
  if (ranks)
    for (const auto& [name, text] : options.same) ranks->check_same(name, text);
  per_epoch = data.batches();
  total = options.epochs * per_epoch;
  if (options.steps > 0) total = std::min(total, options.steps);
  statistics = Statistics(variables(model));
  if (options.check_gradient) optimizer.check_gradients();
  CompileOptions how = options.compile;
  if (!how.bad_loss) how.bad_loss = BadLoss::skip;
  compile_test();  // first: what it takes is in the step's forecast and smallest budget then
  step = compile(data.spec(), how, [this](const Batch& b) {
    Loss l = optimizer.minimize(model.loss(b));
    if (ema) ema->update();
    return l;
  });
  show_plan();
}

// The step's plan, with what evaluating takes where that is more, since they share an arena; without the programs,
// which would be in memory twice.
void Trainer::Run::show_plan() {
  shown = step->plan();
  shown.programs.clear();
  const std::uint64_t arena = test ? test->plan().forecast.arena : 0;
  if (arena <= shown.forecast.arena) return;
  shown.forecast.process += arena - shown.forecast.arena;
  shown.forecast.others += arena - shown.forecast.arena;
}

void Trainer::Run::say(RunLog::Kind kind, const std::string& text) {
  if (log) log->write(kind, text);
}

Boundary Trainer::Run::boundary(const data::Position& at) const {
  return {.step = done, .epochs = at.epoch, .end_of_epoch = at.batch == 0};
}

LiveStatus Trainer::Run::status() const {
  LiveStatus s{.step = done,
               .steps = total,
               .epoch = static_cast<double>(done) / static_cast<double>(per_epoch),
               .epochs = static_cast<double>(total) / static_cast<double>(per_epoch),
               .loss = loss,
               .lr = optimizer.lr(),
               .rate = progress->examples_per_second() * options.units,
               .rate_of = options.unit,
               .budget = ebb::Budget::now(),
               .seconds_left = progress->seconds_left()};
  if (last && last->figures.size() > 1) {
    s.metric = last->figures[1].name;
    s.metric_value = last->figures[1].value;
  }
  return s;
}

bool Trainer::Run::finished() const {
  return done >= total ||
         (options.stopping.patience > 0 && without_progress >= options.stopping.patience);
}

Standing Trainer::Run::take_up() {
  compile_all();
  by_first("a claim", [&] { claim(); });
  if (!from) from = load_last();
  Standing now{.step = done, .steps = total, .saved = from_checkpoint};
  if (finished()) now.over = done >= total ? Outcome::Why::finished : Outcome::Why::stopped_early;
  return now;
}

Outcome Trainer::Run::train(const StopSignal& stop) {
  try {
    take_up();
    try {
      return loop(stop);
    } catch (const FileError& e) {  // of the data, the metrics or the log; save() says its own
      if (!progress) throw;
      throw Error(fmt::format("step {}: training stops: {}; {}", done, e.what(), last_good()));
    }
  } catch (const std::exception& e) {
    if (log) log->try_write(RunLog::Kind::error, e.what());
    throw;
  }
}

// The weights that were just measured are the best so far: they are kept, however rarely it saves, but for never.
bool Trainer::Run::best_unsaved() const {
  return options.keep_best > 0 && options.save != Period::never() && last && last->step == done &&
         last->best;
}

Outcome Trainer::Run::loop(const StopSignal& stop) {
  const data::Position begin = *std::exchange(from, std::nullopt);
  try_sample();
  progress.emplace(
      ProgressOptions{.steps = total, .steps_per_epoch = per_epoch, .from_step = done});
  if (held_out)
    progress->expect(Activity::evaluate, options.eval,
                     test->plan().forecast.seconds * static_cast<double>(held_out->batches()));
  if (directory) progress->expect(Activity::save, options.save);
  if (samples) progress->expect(Activity::sample, options.sample);
  if (options.live && first) live.emplace();
  Pacer logging(options.log), eval(options.eval), saving(options.save), sampling(options.sample);
  BatchWalk walk = data.walk(options.epochs, begin);
  data::Position at = begin;
  bool save_due = false;
  // A rank that left a step would leave the others in it.
  const exec::LeaveSteps late(
      [&] { return !ranks && stop && stop.seconds_since() > options.patience; });
  if (held_out && owed) evaluate_due();
  const auto asked = [&] { return any(static_cast<bool>(stop)); };
  bool stopped = false;
  while (!finished() && !(stopped = asked())) {
    const Batch* const batch = next(walk);
    if (!batch) break;
    bool good = false;
    try {
      good = one_step(*batch, at);
    } catch (const exec::StepLeft&) {
      break;  // `at` is still before its batch
    }
    at = walk.position();
    const Boundary here = boundary(at);
    if (live) live->step([&] { return status(); });
    if (logging.due(here)) log_step(at);
    if (held_out && due(eval, here)) evaluate_due();
    if (samples && sampling.due(here) && !stop) {
      const auto pause = progress->pause(Activity::sample);
      make_sample();
    }
    save_due = due(saving, here) || save_due || best_unsaved();
    if (good && save_due && !finished()) {  // the last one waits for the last evaluation
      const auto pause = progress->pause(Activity::save);
      save(at);
      save_due = false;
    }
  }
  stopped = stopped || asked();
  end_of_run(at, stop, stopped);
  return outcome(stop, stopped);
}

const Batch* Trainer::Run::next(BatchWalk& walk) {
  const timeline::Slice slice("a batch");
  return walk.next();
}

// What goes by the clock is due on all ranks when it is on the first.
bool Trainer::Run::due(Pacer& pacer, const Boundary& here) const {
  const bool now = pacer.due(here);
  return pacer.every().unit == Every::Unit::seconds ? of_first(now) : now;
}

void Trainer::Run::end_of_run(const data::Position& at, const StopSignal& stop, bool stopped) {
  log_step(at);
  if (held_out && !stopped && !owed && (!last || last->step != done))
    if (auto now = measure()) evaluated(std::move(*now), false);
  save(at);
  if (live) live->finish(status());
  say(RunLog::Kind::end, fmt::format("step {}: {}", done,
                                     stopped         ? stop.name()
                                     : done >= total ? "finished"
                                                     : "stopped early"));
}

Outcome Trainer::Run::outcome(const StopSignal& stop, bool stopped) const {
  return {.why = stopped         ? Outcome::Why::signal
                 : done >= total ? Outcome::Why::finished
                                 : Outcome::Why::stopped_early,
          .signal = stop.signal(),
          .step = done,
          .loss = loss,
          .not_taken = not_taken,
          .first_not_taken = first_not_taken,
          .last = last,
          .best = best,
          .seconds = progress->elapsed(),
          .forecast = shown.forecast.peak(),
          .peak = process::peak_resident()};
}

Trainer::Trainer(Model model, optim::Optimizer& optimizer, Dataset data, TrainerOptions options)
    : run_(
          std::make_unique<Run>(std::move(model), optimizer, std::move(data), std::move(options))) {
  run_->callbacks = this;
}
Trainer::~Trainer() = default;

void Trainer::evaluate_on(Dataset data) {
  run_->held_out = run_->ranks ? data.part(*run_->ranks) : std::move(data);
}
void Trainer::average(optim::Ema& ema) { run_->ema = &ema; }
void Trainer::observe(std::shared_ptr<optim::Plateau> plateau) {
  run_->plateau = std::move(plateau);
}

const plan::Plan& Trainer::plan() {
  run_->compile_all();
  return run_->shown;
}

const plan::Plan& Trainer::step_plan() {
  run_->compile_all();
  return run_->step->plan();
}

bool Trainer::holds_directory() const { return run_->checkpoints.has_value(); }
Standing Trainer::take_up() { return run_->take_up(); }
Outcome Trainer::run() {
  run_->compile_all();
  return run_->train(StopSignal());
}
Outcome Trainer::run(const StopSignal& stop) { return run_->train(stop); }

std::optional<double> Trainer::seconds_left() const {
  return run_->progress ? run_->progress->seconds_left() : std::nullopt;
}

Evaluation Trainer::evaluate() {
  run_->compile_test();
  return run_->measure().value_or(Evaluation{});
}

}  // namespace ebb::train
