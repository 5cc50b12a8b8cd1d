#include "models/sweep.hpp"

#include <algorithm>
#include <cmath>

namespace ebb::zoo {
namespace {

constexpr double kNoise = 0.03;  // of a step's time
constexpr int kSettlingRounds = 3, kQuickSettlingRounds = 1;
constexpr int kTurns = 31;  // steps of each, where two budgets are compared

}  // namespace

Sweep::Sweep(std::string model, std::int64_t batch, int budgets, double seconds) {
  cell_.model = std::move(model);
  cell_.batch = batch;
  cell_.seconds = seconds;
  Cell look = cell_;
  look.steps = 0;
  plan_ = zoo::run(look);
  look.split = false;
  const Outcome whole = zoo::run(look);
  // Even steps of a factor from the least to where everything of the whole batch is kept; then
  // none.
  const auto least = static_cast<double>(plan_.minimum);
  const auto most = static_cast<double>(std::max(plan_.budget, whole.budget));
  for (int i = 0; i + 1 < budgets; ++i) {
    Cell cell = cell_;
    const double way = budgets > 2 ? static_cast<double>(i) / (budgets - 2) : 0;
    cell.budget = static_cast<std::uint64_t>(least * std::pow(most / least, way));
    if (i == 0) cell.budget = plan_.minimum;
    cells_.push_back({cell, {}});
  }
  cells_.push_back({cell_, {}});
}

void Sweep::run(const Report& report, Tally& tally) {
  for (Row& row : cells_) row.outcome = zoo::run(row.cell);
  settle(report.quick() ? kQuickSettlingRounds : kSettlingRounds);
  std::map<std::int64_t, std::set<std::string>> hashes;
  for (const Row& row : cells_) {
    judge(row, tally);
    print(row, report);
    if (row.outcome.ok()) hashes[row.outcome.parts].insert(row.outcome.hash);
  }
  for (const auto& [parts, different] : hashes) {
    ++tally.hash_sets;
    tally.hash_differs += different.size() > 1;
  }
  for (const auto& [small, large] : rises()) {
    ++tally.rises;
    const double rise = seconds(large) / seconds(small) - 1;
    tally.worst_rise = std::max(tally.worst_rise, rise);
  }
}

// What one plan took is the best of all budgets that have it: they differ by chance alone.
double Sweep::seconds(std::size_t cell) const {
  const Outcome& of = cells_[cell].outcome;
  double best = of.step_seconds;
  for (const Row& row : cells_) {
    const Outcome& o = row.outcome;
    const bool same = o.ok() && o.chosen == of.chosen && o.arena == of.arena && o.rows == of.rows &&
                      o.forecast_seconds == of.forecast_seconds;
    if (same) best = std::min(best, o.step_seconds);
  }
  return best;
}

// Each larger budget that is slower than the fastest of the smaller ones.
std::vector<std::pair<std::size_t, std::size_t>> Sweep::rises() const {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::size_t fastest = cells_.size();
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    if (!cells_[i].outcome.ok()) continue;
    const double took = seconds(i);
    if (fastest < cells_.size() && took > seconds(fastest) * (1 + kNoise))
      pairs.emplace_back(fastest, i);
    if (fastest == cells_.size() || took < seconds(fastest)) fastest = i;
  }
  return pairs;
}

// A machine that others use has slow moments: what looks like a rise is timed again, both budgets
// in turns, step by step, and the larger one is given its time in terms of the smaller one's.
void Sweep::settle(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const auto suspects = rises();
    if (suspects.empty()) return;
    for (const auto& [small, large] : suspects) {
      Outcome& slow = cells_[large].outcome;
      const auto turns = run_in_turns({cells_[small].cell, cells_[large].cell}, kTurns);
      if (!turns[0].ok() || !turns[1].ok()) continue;
      slow.step_seconds = seconds(small) * turns_ratio(turns[1], turns[0]);
    }
  }
}

void Sweep::judge(const Row& row, Tally& tally) const {
  const Outcome& out = row.outcome;
  ++tally.cells;
  if (!out.unlimited.empty()) tally.unlimited = out.unlimited;
  tally.killed += out.killed;
  tally.failed += !out.killed && !out.ok();
  if (!out.ok()) return;
  tally.over_budget += row.cell.budget && out.peak > row.cell.budget;
  tally.arena_differs += out.measured_arena != out.arena;
  const auto error = static_cast<std::int64_t>(out.peak) - static_cast<std::int64_t>(out.process);
  const double part = std::abs(static_cast<double>(error)) / static_cast<double>(out.process);
  tally.process_differs += part > 0.02 && std::abs(error) > 1 << 20;
  if (part > tally.worst_process) {
    tally.worst_process = part;
    tally.worst_process_bytes = error;
  }
}

void Sweep::print(const Row& row, const Report& report) const {
  const Outcome& out = row.outcome;
  const std::string budget = row.cell.budget ? formatted("%.2f", mib(row.cell.budget)) : "none";
  if (!out.ok()) {
    report.say("%-9s %9s  %s\n", name().c_str(), budget.c_str(),
               out.killed ? "killed" : out.error.substr(0, 150).c_str());
    return;
  }
  report.say("%-9s %9s %9.2f %9.2f %9.2f %s %9.2f %9.2f  %s\n", name().c_str(), budget.c_str(),
             mib(out.process), mib(out.peak), mib(out.arena),
             out.arena == out.measured_arena ? "=" : "≠", out.forecast_seconds * 1e3,
             out.step_seconds * 1e3, out.chosen.c_str());
  const std::string of = name() + " in " + budget + " MiB";
  report.compare(of, "peak of the process", static_cast<double>(out.peak), "B", "forecast",
                 static_cast<double>(out.process) / static_cast<double>(out.peak));
  report.metric(of, "arena", static_cast<double>(out.measured_arena), "B");
  report.compare(of, "time a step", out.step_seconds, "s", "forecast",
                 out.forecast_seconds / out.step_seconds);
}

}  // namespace ebb::zoo
