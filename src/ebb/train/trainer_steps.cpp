// One step, and what is done about a bad one.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ebb/base/error.hpp"
#include "ebb/base/process.hpp"
#include "ebb/train/first_bad.hpp"
#include "ebb/train/trainer_run.hpp"

namespace ebb::train {

Statistics::Statistics(const std::vector<Variable>& model) {
  std::size_t bytes = 0;
  for (const Variable& v : model) {
    if (v.trainable() || v.spec().rank() > 1) continue;
    variables_.push_back(v);
    bytes += v.spec().bytes();
  }
  before_ = memory::Buffer(bytes, "running statistics", Category::workspace);
}

void Statistics::keep() {
  std::byte* to = before_.data();
  for (const Variable& v : variables_) {
    v.read({to, v.spec().bytes()}, 0);
    to += v.spec().bytes();
  }
}

void Statistics::restore() {
  const std::byte* from = before_.data();
  for (Variable& v : variables_) {
    v.write({from, v.spec().bytes()}, 0);
    from += v.spec().bytes();
  }
}

bool Trainer::Run::one_step(const Batch& batch, const data::Position& at) {
  const std::int64_t skipped = optimizer.skipped();
  const random::State draws = random::state();
  const double loss_scale = optimizer.loss_scale();
  statistics.keep();
  if (ranks) ranks->set_step(done + 1);
  loss = (*step)(batch).item();
  ++done;
  progress->stepped(done, static_cast<double>(batch.whole_rows()));
  if (optimizer.skipped() > skipped) {
    statistics.restore();
    bad_step(batch, at, draws, loss_scale);
    return false;
  }
  bad_in_a_row = 0;
  logged_loss += loss;
  ++since_logged;
  if (callbacks->on_step) callbacks->on_step(done, loss);
  return true;
}

// Where the data itself is bad, which row of it.
std::string Trainer::Run::bad_row(const Batch& batch, const data::Position& at) const {
  const std::optional<BadInput> bad = bad_input(batch);
  if (!bad) return "";
  try {
    return fmt::format("; \"{}\" holds {} in row {} of the data, counted from 0", bad->column,
                       bad->value, data.row_at(at, bad->row));
  } catch (const OutOfMemory&) {  // of the order of the rows
    return fmt::format("; \"{}\" holds {}", bad->column, bad->value);
  }
}

// A gradient that only its loss scale has made overflow is no fault: the scale is lower in the next step.
void Trainer::Run::bad_step(const Batch& batch, const data::Position& at,
                            const random::State& draws, double loss_scale) {
  const bool scaled = std::isfinite(loss) && loss_scale > 1;
  const std::string what = fmt::format(
      "step {}: {} (loss {:.6g}{}); the step was not taken", done,
      scaled ? fmt::format("with a loss scale of {}, the gradient is too large for 16 bits",
                           loss_scale)
      : std::isfinite(loss) ? "the gradient is NaN or infinite"
                            : "the loss is NaN or infinite",
      loss, scaled ? "" : bad_row(batch, at));
  if (!scaled && not_taken++ == 0) first_not_taken = what;
  if (live) live->note(what);
  say(RunLog::Kind::warning, what);
  if (scaled || ++bad_in_a_row < std::max<std::int64_t>(1, options.bad_steps)) return;
  std::string found;
  if (batch.rows() > 0)
    found = first_bad(batch,
                      {.variables = variables(model),
                       .params = optimizer.params(),
                       .draws = draws,
                       .loss_scale = loss_scale},
                      [this](const Batch& b) { return model.loss(b); });
  if (ranks)  // the first that has found something tells it for all
    for (const std::string& theirs : ranks->gather(found))
      if (found = theirs; !found.empty()) break;
  const std::string line = fmt::format(
      "step {}: the loss or its gradient was NaN or infinite {} in a row (loss "
      "{:.6g}){}{}; {}: begin "
      "anew with a lower rate or a clipped gradient (train.lr, train.clip_norm), or "
      "look at the data",
      done, bad_in_a_row == 1 ? "1 time" : fmt::format("{} times", bad_in_a_row), loss,
      found.empty() ? "" : "; the first: ", found, last_good());
  together(ranks, "a bad step", [&] { throw NotFinite(line); });
}

void Trainer::Run::log_step(const data::Position& at) {
  if (!metrics || since_logged == 0) return;
  const double epoch = static_cast<double>(at.epoch) +
                       static_cast<double>(at.batch) / static_cast<double>(per_epoch);
  metrics->append({.step = done, .epoch = epoch},
                  {{"loss", logged_loss / static_cast<double>(since_logged)},
                   {"lr", optimizer.lr()},
                   {"examples_per_second", progress->examples_per_second()},
                   {"memory", static_cast<double>(process::resident())}});
  logged_loss = 0;
  since_logged = 0;
}

}  // namespace ebb::train
