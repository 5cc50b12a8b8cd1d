// What every frontier of the search is to be.
#pragma once

#include <gtest/gtest.h>

#include "ebb/plan/search/search.hpp"

namespace ebb::plan {

// Every point, composed and checked; loads rise and seconds fall.
inline void expect_sound(const Graph& graph, const ScheduleFront& frontier,
                         const SpillCost& spill) {
  ASSERT_FALSE(frontier.points().empty());
  for (std::size_t k = 0; k < frontier.points().size(); ++k) {
    const Schedule schedule = frontier.schedule(k);
    EXPECT_EQ(check(graph, schedule, spill), "") << "point " << k;
    EXPECT_EQ(schedule.load, frontier.points()[k].load);
    EXPECT_EQ(schedule.seconds, frontier.points()[k].seconds);
    EXPECT_EQ(schedule.recomputed, frontier.points()[k].recomputed);
    EXPECT_EQ(schedule.written, frontier.points()[k].written);
    EXPECT_EQ(schedule.read, frontier.points()[k].read);
    if (k == 0) continue;
    EXPECT_LT(frontier.points()[k - 1].load, frontier.points()[k].load);
    EXPECT_GT(frontier.points()[k - 1].seconds, frontier.points()[k].seconds);
  }
}

}  // namespace ebb::plan
