// What is done between steps: evaluations and samples.
#include <fmt/core.h>

#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/promises.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/base/timeline.hpp"
#include "ebb/exec/leave_steps.hpp"
#include "ebb/nn/layers.hpp"
#include "ebb/tape/tape.hpp"
#include "ebb/train/trainer_run.hpp"

namespace ebb::train {
namespace {

// With averaged weights where there are any.
template <class F>
auto averaged(optim::Ema* ema, F&& f) {
  if (!ema || ema->updates() == 0) return f();
  const auto averages = ema->apply();
  return f();
}

}  // namespace

std::string listed(const std::vector<Figure>& figures) {
  std::string text;
  for (const Figure& f : figures)
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", f.name, f.value);
  return text;
}

bool Trainer::Run::higher_is_better(const std::string& metric) const {
  if (options.stopping.mode && metric == options.stopping.metric)
    return *options.stopping.mode == Mode::max;
  for (const Metric& m : model.metrics())
    if (m.name == metric) return m.best == Mode::max;
  return false;
}

std::optional<Evaluation> Trainer::Run::measure() {
  Evaluation now;
  now.step = done;
  if (!held_out) return now;
  const timeline::Slice slice("an evaluation");
  const std::vector<Metric>& figures = model.metrics();
  std::vector<double> sums(figures.size()), counts(figures.size());
  runtime::drop_code();  // of steps; and below of this, so that both are never in memory together
  const bool whole = averaged(ema, [&] {
    for (const Batch& b : held_out->epoch(0)) {
      if (any(StopSignal::asked())) return false;
      std::vector<Loss> all;
      try {
        all = (*test)(b);
      } catch (const exec::StepLeft&) {
        return false;
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        sums[i] += all[i].sum.item();
        counts[i] += all[i].count.item();
      }
    }
    return true;
  });
  runtime::drop_code();
  if (!whole) return std::nullopt;
  for (std::size_t i = 0; i < figures.size(); ++i)
    now.figures.push_back({figures[i].name, figures[i].value(sums[i], counts[i])});
  return now;
}

void Trainer::Run::evaluate_due() {
  const auto pause = progress->pause(Activity::evaluate);
  owed = true;
  auto now = measure();
  if (!now) return;
  owed = false;
  evaluated(std::move(*now), true);
}

// Only one that was due moves what decides about the training: a run that ends and is taken up again, to go on for
// longer, is one that was never interrupted.
void Trainer::Run::evaluated(Evaluation now, bool due) {
  for (const Figure& f : now.figures) {
    if (f.name != options.stopping.metric) continue;
    const bool higher = higher_is_better(f.name);
    const double gain = !best_value ? 1 : higher ? f.value - *best_value : *best_value - f.value;
    now.best = std::isfinite(f.value) && (!best_value || gain > options.stopping.min_change);
    if (now.best) best_value = f.value;
    if (!due) break;
    without_progress = now.best ? 0 : without_progress + 1;
    if (plateau) plateau->observe(higher ? -f.value : f.value);
  }
  last = now;
  if (now.best) best = now;
  if (metrics) {
    std::vector<MetricValue> row;
    std::vector<std::string> names;
    for (const Figure& f : now.figures) names.push_back("eval/" + f.name);
    for (std::size_t i = 0; i < names.size(); ++i) row.push_back({names[i], now.figures[i].value});
    metrics->append(
        {.step = done, .epoch = static_cast<double>(done) / static_cast<double>(per_epoch)}, row);
  }
  say(RunLog::Kind::eval, fmt::format("step {}: {}", done, listed(now.figures)));
  if (live)
    live->note(
        fmt::format("step {}: {}{}", done, listed(now.figures), now.best ? " (best so far)" : ""));
  if (callbacks->on_evaluation) callbacks->on_evaluation(now);
}

namespace {

// Random draws and tapes know nothing of it, and its memory is what steps do not need just now.
std::string sampled(optim::Ema* ema, const std::function<std::string()>& text) {
  const memory::Borrowing between_steps;
  const nn::Evaluation quiet;
  const Tape::Pause pause;
  const random::State before = random::state();
  struct Restore {
    const random::State& state;
    ~Restore() { random::restore(state); }
  } restore{before};
  return averaged(ema, text);
}

}  // namespace

void Trainer::Run::try_sample() {
  samples = false;
  if (!first || !callbacks->sample || options.sample == Period::never()) return;
  try {
    sampled(ema, [this] { return callbacks->sample(done, true); });
    samples = true;
  } catch (const OutOfMemory&) {
    const std::string why = "the budget has no room to make samples; there will be none";
    say(RunLog::Kind::warning, why);
    if (options.live) LiveLine().note(why);
  }
}

void Trainer::Run::make_sample() {
  const timeline::Slice slice("a sample");
  std::string text;
  try {
    text = sampled(ema, [this] { return callbacks->sample(done, false); });
  } catch (const OutOfMemory&) {  // the program holds more than it did before the first step
    samples = false;
    say(RunLog::Kind::warning, fmt::format("step {}: no room for samples any more", done));
    return;
  }
  if (StopSignal::asked()) return;  // it was cut short
  if (metrics)
    metrics->append_text(
        {.step = done, .epoch = static_cast<double>(done) / static_cast<double>(per_epoch)},
        "sample", text);
  say(RunLog::Kind::sample, fmt::format("step {}: {}", done, text));
  if (live) live->note(fmt::format("step {}, a sample:\n{}", done, text));
  if (callbacks->on_sample) callbacks->on_sample(done, text);
}

}  // namespace ebb::train
