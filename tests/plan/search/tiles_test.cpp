// Ops that can run with less scratch: the search takes less where the load is largest, and there
// only.
#include <gtest/gtest.h>

#include "ebb/plan/search/search.hpp"
#include "tests/plan/search/graphs.hpp"
#include "tests/plan/search/sound.hpp"

namespace ebb::plan {
namespace {

// A chain there and back whose first and last nodes need scratch: 800 bytes in 1 s, 400 in 1.2 s,
// 200 in 1.5 s.
Graph tiled_chain() {
  Graph graph = graphs::chain(8);
  for (const std::size_t n : {std::size_t{0}, std::size_t{7}}) {
    graph.nodes[n].scratch = 800;
    graph.nodes[n].tiles = {{400, 1.2}, {200, 1.5}};
  }
  return graph;
}

const Step& step_of(const Schedule& schedule, Id node) {
  for (const Step& s : schedule.steps)
    if (s.node == node) return s;
  throw std::logic_error("a node that never runs");
}

TEST(Tiles, EveryPointIsSoundAndMoreMemoryCostsNoTime) {
  const Graph graph = tiled_chain();
  expect_sound(graph, search(graph, {}), {});
}

TEST(Tiles, FullScratchWhereThereIsRoom) {
  const ScheduleFront frontier = search(tiled_chain(), {});
  const Schedule all = frontier.unlimited();
  EXPECT_EQ(step_of(all, 0).scratch, 800u);
  EXPECT_EQ(step_of(all, 7).scratch, 800u);
  EXPECT_EQ(all.seconds, 24);
}

TEST(Tiles, OnlyTheNodeAtThePeakGivesUpItsScratch) {
  // The last forward node runs beside all eight values and the data: 900 + 800. The first runs
  // beside 200, and keeps its scratch.
  const ScheduleFront frontier = search(tiled_chain(), {});
  const Schedule less = frontier.at(1350);
  EXPECT_EQ(step_of(less, 7).scratch, 400u);
  EXPECT_EQ(step_of(less, 0).scratch, 800u);
  EXPECT_NEAR(less.seconds, 24.2, 1e-9);
}

TEST(Tiles, RoomBetweenTwoPointsGoesToTiles) {
  // Levels are walked four steps apart; what lies between comes with the budget.
  Graph graph = graphs::chain(8);
  Node& last = graph.nodes[7];
  last.scratch = 1600;
  last.tiles = {{1400, 1.02}, {1200, 1.04}, {1000, 1.06}, {800, 1.1},
                {700, 1.15},  {600, 1.2},   {500, 1.3},   {400, 1.5}};
  const ScheduleFront frontier = search(graph, {});
  const std::uint64_t beside = frontier.unlimited().load - 1600;
  double before = 1e9;
  for (const std::uint64_t scratch : {400, 500, 600, 700, 800, 1000, 1200, 1400, 1600}) {
    const Schedule schedule = frontier.at(beside + scratch + 50);
    EXPECT_EQ(check(graph, schedule, {}), "");
    EXPECT_EQ(step_of(schedule, 7).scratch, scratch);
    EXPECT_LE(schedule.load, beside + scratch + 50);
    EXPECT_LT(schedule.seconds, before);
    before = schedule.seconds;
  }
}

TEST(Tiles, TheLeastScratchLowersTheMinimum) {
  Graph full = tiled_chain();
  for (Node& n : full.nodes) n.tiles.clear();
  EXPECT_LT(search(tiled_chain(), {}).minimum(), search(full, {}).minimum());
}

}  // namespace
}  // namespace ebb::plan
