#include "ebb/train/run/progress.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <utility>
#include <vector>

namespace ebb::train {
namespace {

struct Course {
  std::int64_t steps = 400, per_epoch = 50;
  Every eval = Every::never(), save = Every::never();
  double eval_seconds = 0, save_seconds = 0, eval_guess = 0, save_guess = 0;
  std::function<double(std::int64_t)> step_seconds = [](std::int64_t) { return 0.2; };
};

// Plays a run with a clock of its own; of every step from `from` on, how far the time left was from
// what was left.
double worst_error(const Course& run, std::int64_t from = 20) {
  double now = 1000;
  const Clock clock = [&] { return now; };
  Progress progress({.steps = run.steps, .steps_per_epoch = run.per_epoch, .clock = clock});
  if (run.eval_seconds > 0) progress.expect(Activity::evaluate, run.eval, run.eval_guess);
  if (run.save_seconds > 0) progress.expect(Activity::save, run.save, run.save_guess);
  Pacer eval(run.eval, clock), save(run.save, clock);
  std::vector<std::pair<double, double>> told;  // when, and how much
  for (std::int64_t step = 1; step <= run.steps; ++step) {
    now += run.step_seconds(step);
    progress.stepped(step, 32);
    const Boundary at{
        .step = step, .epochs = step / run.per_epoch, .end_of_epoch = step % run.per_epoch == 0};
    if (eval.due(at) || (step == run.steps && run.eval_seconds > 0)) {
      const auto pause = progress.pause(Activity::evaluate);
      now += run.eval_seconds;
    }
    if (save.due(at) || (step == run.steps && run.save_seconds > 0)) {
      const auto pause = progress.pause(Activity::save);
      now += run.save_seconds;
    }
    if (step >= from && step < run.steps * 4 / 5)
      told.emplace_back(now, progress.seconds_left().value());
  }
  double worst = 0;
  for (const auto& [when, left] : told)
    worst = std::max(worst, std::abs(left - (now - when)) / (now - when));
  EXPECT_EQ(progress.seconds_left().value(), 0);
  return worst;
}

TEST(Progress, ASteadyRunIsKnownExactly) { EXPECT_LT(worst_error({}), 1e-9); }

TEST(Progress, OneThatBeginsSlowly) {
  Course run;
  run.step_seconds = [](std::int64_t step) { return step == 1 ? 30 : step < 4 ? 0.4 : 0.2; };
  EXPECT_LT(worst_error(run), 0.02);
}

TEST(Progress, NoiseAndHiccups) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(1, 0.15);
  Course run;
  run.step_seconds = [&](std::int64_t step) {
    return 0.2 * std::max(0.5, noise(random)) + (step % 97 == 11 ? 1 : 0);
  };
  EXPECT_LT(worst_error(run), 0.15);
}

TEST(Progress, StepsOfSeveralLengths) {
  std::mt19937 random(5);
  Course run;
  run.steps = 1000;
  run.step_seconds = [&](std::int64_t) { return 0.1 + 0.1 * static_cast<double>(random() % 4); };
  EXPECT_LT(worst_error(run, 100), 0.15);
}

TEST(Progress, EvaluatingAndSavingAreIncluded) {
  Course run;
  run.eval = Every::epochs(1);
  run.save = Every::steps(15);
  run.eval_seconds = 8;
  run.save_seconds = 1;
  EXPECT_LT(worst_error(run, 50), 0.02);  // once both were seen
  run.eval_guess = 7;                     // or with a guess, before
  EXPECT_LT(worst_error(run, 20), 0.15);
}

TEST(Progress, SavingByTheClock) {
  Course run;
  run.steps = 2000;
  run.save = Every::seconds(20);
  run.save_seconds = 5;
  EXPECT_LT(worst_error(run, 150), 0.15);
  run.save_guess = 5;
  EXPECT_LT(worst_error(run, 20), 0.15);
}

TEST(Progress, ShortStepsAreTakenTogether) {
  std::mt19937 random(9);
  Course run;
  run.steps = 20000;
  run.step_seconds = [&](std::int64_t) { return random() % 10 == 0 ? 0.006 : 0.0005; };
  EXPECT_LT(worst_error(run, 2000), 0.15);
}

TEST(Progress, RateLeavesPausesOut) {
  double now = 0;
  Progress progress({.clock = [&] { return now; }});
  EXPECT_EQ(progress.examples_per_second(), 0);
  EXPECT_EQ(progress.seconds_left(), std::nullopt);
  for (std::int64_t step = 1; step <= 100; ++step) {
    now += step == 1 ? 9 : 0.5;
    progress.stepped(step, 16);
    const auto pause = progress.pause(Activity::save);
    now += 3;
  }
  EXPECT_NEAR(progress.examples_per_second(), 32, 1e-9);
  EXPECT_EQ(progress.seconds_left(), std::nullopt);  // nobody said how many steps there are
  EXPECT_EQ(progress.elapsed(), now);
}

TEST(Progress, AResumedRunCountsFromItsStep) {
  double now = 0;
  Progress progress({.steps = 1000, .from_step = 900, .clock = [&] { return now; }});
  EXPECT_EQ(progress.seconds_left(), std::nullopt);
  for (std::int64_t step = 901; step <= 920; ++step) {
    now += 2;
    progress.stepped(step, 1);
  }
  EXPECT_DOUBLE_EQ(progress.seconds_left().value(), 160);
}

}  // namespace
}  // namespace ebb::train
