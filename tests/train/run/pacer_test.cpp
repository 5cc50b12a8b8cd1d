#include "ebb/train/run/pacer.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/error_of.hpp"

namespace ebb::train {
namespace {

// The shape that a config's period has, in another order.
struct Period {
  enum class Unit { seconds, epochs, steps, never };
  Unit unit;
  double amount;
};

std::vector<std::int64_t> due_steps(Every every, std::int64_t from, std::int64_t to,
                                    std::int64_t per_epoch) {
  Pacer pacer(every);
  std::vector<std::int64_t> steps;
  for (std::int64_t step = from + 1; step <= to; ++step)
    if (pacer.due(
            {.step = step, .epochs = step / per_epoch, .end_of_epoch = step % per_epoch == 0}))
      steps.push_back(step);
  return steps;
}

TEST(Pacer, StepsAndEpochsAreAbsolute) {
  EXPECT_EQ(due_steps(Every::steps(4), 0, 13, 5), (std::vector<std::int64_t>{4, 8, 12}));
  EXPECT_EQ(due_steps(Every::steps(4), 6, 13, 5), (std::vector<std::int64_t>{8, 12}));
  EXPECT_EQ(due_steps(Every::epochs(2), 0, 24, 5), (std::vector<std::int64_t>{10, 20}));
  EXPECT_EQ(due_steps(Every::epochs(2), 13, 24, 5), (std::vector<std::int64_t>{20}));
  EXPECT_EQ(due_steps(Every::never(), 0, 100, 5), std::vector<std::int64_t>{});
}

// Stopped anywhere and taken up again, the same things are done at the same steps.
TEST(Pacer, AResumedRunDoesTheSameAtTheSameSteps) {
  for (const Every every : {Every::steps(3), Every::steps(1), Every::epochs(1), Every::epochs(3)}) {
    const auto whole = due_steps(every, 0, 60, 7);
    for (std::int64_t stop = 0; stop <= 60; ++stop) {
      auto steps = due_steps(every, 0, stop, 7);
      for (const std::int64_t s : due_steps(every, stop, 60, 7)) steps.push_back(s);
      EXPECT_EQ(steps, whole);
    }
  }
}

TEST(Pacer, SecondsGoByTheClock) {
  double now = 50;
  Pacer pacer(Every::seconds(10), [&] { return now; });
  std::vector<double> due;
  for (; now < 100; now += 3)
    if (pacer.due({.step = 1})) due.push_back(now);
  EXPECT_EQ(due, (std::vector<double>{62, 74, 86, 98}));
}

TEST(Pacer, IsMadeOfAConfigsPeriod) {
  EXPECT_EQ(Every(Period{Period::Unit::steps, 7}), Every::steps(7));
  EXPECT_EQ(Every(Period{Period::Unit::epochs, 2}), Every::epochs(2));
  EXPECT_EQ(Every(Period{Period::Unit::seconds, 0.5}), Every::seconds(0.5));
  EXPECT_EQ(Every(Period{Period::Unit::never, 0}), Every::never());
  Pacer pacer(Period{Period::Unit::steps, 2});
  EXPECT_TRUE(pacer.due({.step = 2}));
}

TEST(Pacer, RefusesWhatIsNoPeriod) {
  EXPECT_HAS(test::error_of([] { Pacer p(Every::steps(0)); }), "every 0 steps");
  EXPECT_HAS(test::error_of([] { Pacer p(Every{Every::Unit::epochs, 1.5}); }), "a whole number");
  EXPECT_HAS(test::error_of([] { Pacer p(Every::seconds(-1)); }), "every -1 seconds");
  EXPECT_HAS(test::error_of([] { Pacer p(Every{Every::Unit::steps, 0. / 0.}); }), "nan");
}

TEST(Pacer, TimesDueCountsThem) {
  for (const Every every : {Every::steps(3), Every::epochs(1), Every::epochs(3)})
    for (std::int64_t from = 0; from < 30; ++from)
      for (std::int64_t to = from; to < 60; ++to)
        EXPECT_EQ(times_due(every, from, to, 7),
                  static_cast<std::int64_t>(due_steps(every, from, to, 7).size()));
}

}  // namespace
}  // namespace ebb::train
