#include "ebb/plan/search/search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <stdexcept>

#include "ebb/plan/search/ordered.hpp"
#include "tests/plan/search/graphs.hpp"
#include "tests/plan/search/sound.hpp"

namespace ebb::plan {
namespace {

ScheduleFront sound_search(const Graph& graph, const SearchOptions& options = {}) {
  ScheduleFront frontier = search(graph, options);
  expect_sound(graph, frontier, options.spill);
  return frontier;
}

SpillCost disk(double seconds_per_byte, bool state = false) {
  return {.allowed = true,
          .state_allowed = state,
          .write_seconds_per_byte = seconds_per_byte,
          .read_seconds_per_byte = seconds_per_byte,
          .seconds_per_transfer = 0.01};
}

TEST(Search, KeepsEverythingWithoutABudget) {
  const Graph graph = graphs::chain(10);
  const Schedule all = sound_search(graph).unlimited();
  EXPECT_EQ(all.recomputed, 0u);
  EXPECT_EQ(all.seconds, 30);
  EXPECT_EQ(all.load, 1200u);  // v_0 … v_10 and the first gradient
}

// A chain of ever larger values forward and back, each of which waits as a copy of half its size and
// is made wide again before it is read. Where it may be at once, an order does so: the next value
// takes more.
TEST(Search, NoOrderMovesLateNodesForward) {
  const auto widened_too_soon = [](bool late) {
    graphs::Build b;
    std::vector<Id> waiting, wide;  // buffers; nodes
    Id x = b.buffer(100, Origin::given);
    for (int i = 0; i < 4; ++i) {
      x = b.node(1, {x}, 100u << i);
      waiting.push_back(b.node(0.1, {x}, 50u << i));
      b.graph.nodes.back().early = true;
    }
    const auto turn = static_cast<Id>(b.graph.nodes.size());
    for (int i = 3; i >= 0; --i) {
      x = b.node(2, {x}, 100u << i);
      wide.push_back(static_cast<Id>(b.graph.nodes.size()));
      const Id again = b.node(0.1, {waiting[static_cast<std::size_t>(i)]}, 100u << i);
      b.graph.nodes.back().late = late;
      x = b.node(2, {x, again}, 100u << i);
    }
    b.keep(x);
    int count = 0;
    for (const std::vector<Id>& order : orders(b.graph, true)) {
      const auto place = [&](Id node) { return std::find(order.begin(), order.end(), node); };
      for (const Id node : wide) count += place(node) < place(turn);
    }
    return count;
  };
  EXPECT_GT(widened_too_soon(false), 0);
  EXPECT_EQ(widened_too_soon(true), 0);
}

TEST(Search, RefusesABudgetBelowTheMinimum) {
  const ScheduleFront frontier = search(graphs::chain(10), {});
  EXPECT_EQ(frontier.at(frontier.minimum()).load, frontier.minimum());
  EXPECT_THROW(frontier.at(frontier.minimum() - 1), std::out_of_range);
}

TEST(Search, ChainNeedsTwoRootsForOneMoreForward) {
  for (const int layers : {16, 64, 100, 400}) {
    const Graph graph = graphs::chain(layers);
    const ScheduleFront frontier = sound_search(graph);
    const auto roots = static_cast<std::uint64_t>(std::ceil(2 * std::sqrt(layers)) + 2) * 100;
    EXPECT_LE(frontier.at(roots).seconds, 4.0 * layers * 1.02) << layers;
  }
}

TEST(Search, ChainGoesFarBelowTheRoot) {
  const Graph graph = graphs::chain(100);
  const ScheduleFront frontier = sound_search(graph);
  EXPECT_LE(frontier.minimum(), 800u);  // log2(100) ≈ 7 buffers and the data
  EXPECT_LE(frontier.at(1000).seconds, 3 * 100 + 300);
}

TEST(Search, LongStretchesRunAgainFromStatesInTheFile) {
  const Graph graph = graphs::stretches(800);
  const ScheduleFront kept = sound_search(graph);
  // All states, two stretches, and one more way forward.
  EXPECT_LE(kept.at(800 * 10 + 2100).seconds, 4.0 * 800);
  const ScheduleFront frontier = sound_search(graph, {.spill = disk(1e-3)});
  EXPECT_LE(frontier.minimum(), 2000u);        // one stretch, some states
  EXPECT_LE(frontier.at(2500).seconds, 2450);  // two stretches: the file takes what is saved
}

TEST(Search, MinimumOfASmallChainIsTheLargestNode) {
  // A backward node holds its two inputs and its output, and the data is given.
  EXPECT_EQ(sound_search(graphs::chain(6)).minimum(), 400u);
}

TEST(Search, SkipsOfAUnetAreRecomputed) {
  const Graph graph = graphs::unet(5);
  const ScheduleFront frontier = sound_search(graph);
  EXPECT_LT(frontier.minimum(), frontier.points().back().load * 3 / 4);
}

// A value that is dear to make, one that is wide until it is narrowed, and with `cheap` a third; then
// all of them together.
Graph diamond(bool cheap) {
  graphs::Build b;
  const Id x = b.buffer(10, Origin::given);
  std::vector<Id> sides{b.node(100, {x}, 50)};
  if (cheap) sides.push_back(b.node(1, {x}, 50));
  const Id wide = b.node(1, {x}, 200);
  sides.push_back(b.node(1, {wide}, 1));
  b.keep(b.node(1, sides, 1));
  return b.graph;
}

TEST(Search, DiamondRecomputesTheCheapSide) {
  SearchOptions options;
  options.reorder = false;
  const ScheduleFront frontier = sound_search(diamond(true), options);
  const Schedule tight = frontier.at(frontier.points().back().load - 50);
  EXPECT_EQ(tight.recomputed, 1u);
  EXPECT_EQ(tight.seconds, 105);
}

TEST(Search, OrderAloneCanSave) {
  const ScheduleFront frontier = sound_search(diamond(false));
  EXPECT_EQ(frontier.points().size(), 1u);
  EXPECT_EQ(frontier.minimum(), 211u);  // wide is gone before dear is made
}

TEST(Search, UpdatesRunEarlyAndStateIsReadBefore) {
  const Graph graph = graphs::training(8, false);
  const ScheduleFront frontier = sound_search(graph);
  // One gradient at a time: eight would be 32,000 bytes on top of weights and activations.
  EXPECT_LE(frontier.points().back().load, 8u * 4000 + 9 * 1000 + 4000 + 2000);
  EXPECT_LT(frontier.minimum(), frontier.points().back().load);
}

TEST(Search, ClippingKeepsOrRepeatsOrSpillsGradients) {
  const Graph graph = graphs::training(8, true);
  const ScheduleFront repeat = sound_search(graph);
  const std::uint64_t all = repeat.points().back().load;
  EXPECT_GE(all, 8u * 4000 + 8 * 4000);
  EXPECT_LE(repeat.minimum(), all - 4 * 4000);  // at most half of the gradients are held
  SearchOptions fast;
  fast.spill = disk(1e-6);
  const ScheduleFront spilled = sound_search(graph, fast);
  const Schedule schedule = spilled.at(repeat.minimum());
  EXPECT_GT(schedule.written, 0u);
  EXPECT_LT(schedule.seconds, repeat.smallest().seconds);
}

TEST(Search, SpillsWhereNothingMayRunAgain) {
  const Graph graph = graphs::chain(30);
  SearchOptions options;
  options.recompute = false;
  options.spill = disk(1e-3);
  const ScheduleFront frontier = sound_search(graph, options);
  const Schedule half = frontier.at(frontier.points().back().load / 2);
  EXPECT_EQ(half.recomputed, 0u);
  EXPECT_GT(half.written, 0u);
  EXPECT_EQ(half.written, half.read);
  EXPECT_LT(half.seconds, 90 * 1.02);  // hidden behind the nodes
  EXPECT_LE(frontier.minimum(), 800u);
}

TEST(Search, StateLivesInTheFile) {
  const Graph graph = graphs::training(8, false);
  SearchOptions options;
  options.spill = disk(1e-5, true);
  const ScheduleFront frontier = sound_search(graph, options);
  EXPECT_LE(frontier.minimum(), 16000u);  // of 32,000 bytes of weights
  EXPECT_EQ(frontier.unlimited().written, 0u);
}

TEST(Search, NodesThatMayNotRunAgainAreRespected) {
  Graph graph = graphs::chain(12);
  for (Node& node : graph.nodes) node.again = false;
  EXPECT_EQ(sound_search(graph).points().size(), 1u);
}

TEST(Search, ReuseTakesTheBytesOfTheInput) {
  graphs::Build b;
  const Id x = b.buffer(10, Origin::given);
  const Id h = b.node(1, {x}, 100);
  const Id y = b.node(1, {h}, 100);
  b.graph.nodes.back().reuse = h;
  b.keep(y);
  const Schedule schedule = sound_search(b.graph).unlimited();
  EXPECT_EQ(schedule.load, 110u);
}

TEST(Search, SameAnswerEveryTime) {
  const Graph graph = graphs::unet(5);
  SearchOptions options;
  options.spill = disk(1e-3);
  const ScheduleFront a = search(graph, options), b = search(graph, options);
  ASSERT_EQ(a.points(), b.points());
  for (std::size_t k = 0; k < a.points().size(); ++k) {
    const Schedule x = a.schedule(k), y = b.schedule(k);
    ASSERT_EQ(x.steps.size(), y.steps.size());
    for (std::size_t s = 0; s < x.steps.size(); ++s) {
      ASSERT_EQ(x.steps[s].node, y.steps[s].node);
      ASSERT_EQ(x.steps[s].kind, y.steps[s].kind);
    }
  }
}

TEST(Search, FloorStopsTheDescent) {
  const Graph graph = graphs::chain(200);
  SearchOptions options;
  options.floor = 10000;
  const ScheduleFront frontier = sound_search(graph, options);
  EXPECT_LE(frontier.minimum(), 10000u);
  EXPECT_GT(frontier.minimum(), 2 * search(graph, {}).minimum());
}

// With updates, scratch, reuse, nodes that run once, kept buffers and all ways of spilling.
TEST(Search, RandomGraphsAreSound) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 rng(seed);
    const int nodes = 4 + static_cast<int>(rng() % 60);
    Graph graph =
        seed % 2 ? graphs::random_training(rng, nodes / 2 + 1) : graphs::random_dag(rng, nodes);
    const std::size_t plain = graph.nodes.size();
    for (std::size_t k = 0; k < plain; ++k) {
      Node& node = graph.nodes[k];
      node.scratch = rng() % 3 == 0 ? rng() % 20 : 0;
      node.again = rng() % 8 != 0;
      if (rng() % 4 == 0) node.reuse = node.in[rng() % node.in.size()];
      if (rng() % 4 == 0) {
        graph.buffers.push_back({1 + rng() % 20, Origin::state, false, rng() % 4 != 0});
        const Id state = static_cast<Id>(graph.buffers.size()) - 1;
        graph.nodes[k].in.push_back(state);
        if (rng() % 3 == 0) continue;
        Node update;  // at the end; the search may move it forward
        update.seconds = 1;
        update.in = {graph.nodes[k].out[0]};
        update.updates = {state};
        update.again = false;
        graph.nodes.push_back(update);
      }
    }
    for (Buffer& buffer : graph.buffers) {
      if (buffer.origin == Origin::made && rng() % 16 == 0) buffer.kept = true;
    }
    SearchOptions options;
    options.effort = 0.2;
    options.recompute = rng() % 4 != 0;
    if (rng() % 2) options.spill = disk(static_cast<double>(rng() % 100) * 1e-2, rng() % 2);
    const ScheduleFront frontier = search(graph, options);
    expect_sound(graph, frontier, options.spill);
    if (HasFailure()) return;
  }
}

TEST(Check, FindsWhatIsWrong) {
  const Graph graph = graphs::training(4, false);
  const ScheduleFront frontier = search(graph, {});
  const Schedule good = frontier.smallest();
  ASSERT_EQ(check(graph, good, {}), "");
  Schedule bad = good;
  bad.load -= 1;
  EXPECT_NE(check(graph, bad, {}), "");
  bad = good;
  bad.seconds *= 1.01;
  EXPECT_NE(check(graph, bad, {}), "");
  bad = good;
  bad.steps.pop_back();
  EXPECT_NE(check(graph, bad, {}), "");
  bad = good;
  std::swap(bad.steps[1], bad.steps[2]);
  EXPECT_NE(check(graph, bad, {}), "");
  for (std::size_t k = 0; k < good.instances.size(); ++k) {
    if (good.instances[k].last == good.instances[k].first) continue;
    bad = good;
    --bad.instances[k].last;
    EXPECT_NE(check(graph, bad, {}), "") << "instance " << k;
  }
}

TEST(Search, RefusesWhatIsNoGraph) {
  Graph graph = graphs::chain(3);
  graph.nodes[0].in[0] = graph.nodes[2].out[0];
  EXPECT_THROW(search(graph, {}), std::invalid_argument);
  graph = graphs::training(2, false);
  std::swap(graph.nodes.front(), graph.nodes.back());
  EXPECT_THROW(search(graph, {}), std::invalid_argument);
}

TEST(Search, EmptyGraph) {
  const ScheduleFront frontier = search({}, {});
  EXPECT_EQ(frontier.minimum(), 0u);
  EXPECT_EQ(frontier.unlimited().steps.size(), 0u);
}

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Bars of 50 ms and 1 s, four times as much for noise.
TEST(Search, IsQuick) {
  for (const auto& [layers, bar] : {std::pair(500, 0.2), std::pair(5000, 4.0)}) {
    const Graph graph = graphs::chain(layers);
    const std::clock_t start = std::clock();  // of this process: others may be busy
    const ScheduleFront frontier = search(graph, {});
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, bar) << graph.nodes.size() << " nodes";
    EXPECT_LT(frontier.minimum(), frontier.points().back().load / 10);
  }
}
#endif

}  // namespace
}  // namespace ebb::plan
