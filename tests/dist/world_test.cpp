// A world over a network that is late, reorders, and loses ranks; and a world of one.
#include "ebb/dist/world.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "ebb/dist/collectives.hpp"
#include "tests/dist/ranks.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

using dist::World;
using test::error_of;
using test::expect_none;
using test::in_worlds;

TEST(World, OfOneDoesEverythingAtOnce) {
  World world;
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_TRUE(world.first());
  EXPECT_FALSE(world.host().empty());
  EXPECT_EQ(world.post(), nullptr);
  EXPECT_EQ(world.footprint(), 0u);
  world.barrier();
  EXPECT_TRUE(world.agree(true));
  EXPECT_FALSE(world.agree(false));
  EXPECT_EQ(world.gather("x"), std::vector<std::string>{"x"});
  EXPECT_EQ(world.broadcast("y"), "y");
  EXPECT_EQ(world.gather_values(5), std::vector<int>{5});
  world.check_same("config", "a");
  world.set_step(3);
  world.expect_step(1);
  World another;  // of one there may be many
}

TEST(World, RanksTellEachOtherWhatTheyHave) {
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    for (const std::uint64_t seed : {1, 2}) {
      FakeNetwork network(ranks, {.seed = seed, .delay_seconds = 1e-3});
      expect_none(in_worlds(network, ranks, [&](World& world) {
        EXPECT_EQ(world.size(), ranks);
        for (int r = 0; r < ranks; ++r) EXPECT_EQ(world.host(r), "fake" + std::to_string(r));
        std::vector<std::string> expected;
        for (int r = 0; r < ranks; ++r) expected.push_back(std::string(r * 100, 'a' + r));
        EXPECT_EQ(world.gather(expected[static_cast<std::size_t>(world.rank())]), expected);
        EXPECT_EQ(world.broadcast(world.first() ? "of the first" : "other"), "of the first");
        std::vector<int> squares;
        for (int r = 0; r < ranks; ++r) squares.push_back(r * r);
        EXPECT_EQ(world.gather_values(world.rank() * world.rank()), squares);
      }));
      EXPECT_EQ(network.closed().size(), static_cast<std::size_t>(ranks)) << "in order";
      EXPECT_TRUE(network.aborted().empty());
    }
}

// All or none: one no is everybody's.
TEST(World, AgreesOnAllRanksOrOnNone) {
  for (const int ranks : {2, 3, 5, 7}) {
    FakeNetwork network(ranks, {.seed = 4, .delay_seconds = 1e-3});
    expect_none(in_worlds(network, ranks, [&](World& world) {
      EXPECT_TRUE(world.agree(true));
      for (int against = 0; against < ranks; ++against)
        EXPECT_FALSE(world.agree(world.rank() != against)) << against;
      EXPECT_TRUE(world.agree(true));
    }));
  }
}

TEST(World, ABarrierHoldsUntilTheLastIsThere) {
  constexpr int kRanks = 5;
  FakeNetwork network(kRanks, {.seed = 5, .delay_seconds = 1e-3});
  std::atomic<int> there = 0;
  expect_none(in_worlds(network, kRanks, [&](World& world) {
    for (int time = 1; time <= 5; ++time) {
      std::this_thread::sleep_for(std::chrono::milliseconds(world.rank() * time));
      ++there;
      world.barrier();
      EXPECT_GE(there, time * kRanks);
      world.barrier();
    }
  }));
}

TEST(World, WhatDiffersIsRefusedByName) {
  FakeNetwork network(4, {.seed = 6, .delay_seconds = 1e-3});
  std::mutex lock;
  int speakers = 0, refused = 0;
  const auto thrown = in_worlds(network, 4, [&](World& world) {
    world.check_same("data", "the same everywhere");
    try {
      world.check_same("config", world.rank() < 2 ? "lr = 0.1" : "lr = 0.2");
    } catch (const dist::Mismatch& e) {
      const std::lock_guard guard(lock);
      ++refused;
      speakers += e.speaks();
      throw;
    }
  });
  EXPECT_EQ(refused, 4);
  EXPECT_EQ(speakers, 1);
  for (const std::string& t : thrown)
    EXPECT_EQ(
        t,
        "dist: ranks differ in the config: ranks 0, 1 (fake0) \"lr = 0.1\", ranks 2, 3 (fake2) "
        "\"lr = 0.2\"; all must have the same");
  EXPECT_EQ(network.closed().size(), 4u) << "and all leave in order";
}

// Of a text the lines are named that differ, however long it is.
TEST(World, LinesThatDifferAreNamed) {
  FakeNetwork network(3, {.seed = 6, .delay_seconds = 1e-3});
  const auto refused = [&](const std::vector<std::string>& texts) {
    const auto thrown = in_worlds(network, 3, [&](World& world) {
      world.check_same("the config", texts[static_cast<std::size_t>(world.rank())]);
    });
    EXPECT_EQ(thrown[0], thrown[2]);
    return thrown[0];
  };
  EXPECT_EQ(refused({"a = 1\nb = 2\n", "a = 1\nb = 2\n", "a = 1\nb = 3\nc = 4\n"}),
            "dist: ranks differ in the config: ranks 0, 1 (fake0) \"b = 2\", rank 2 (fake2) \"b = "
            "3\"; all must have the same");
  EXPECT_HAS(refused({"a = 1\nb = 2\n", "a = 1\n", "a = 1\n"}),
             "rank 0 (fake0) \"b = 2\", ranks 1, 2 (fake1) none of it; all");
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += fmt::format("key {} = {}\n", i, i);
  EXPECT_EQ(refused({lines, lines, lines}), "");
  EXPECT_HAS(refused({lines, lines, "key 0 = 7\n" + lines}), "rank 2 (fake2) \"key 0 = 7\"; all");
  EXPECT_HAS(refused({lines, "short", lines}), "rank 1 (fake1) \"short\"; all");
  EXPECT_HAS(refused({lines, lines, lines + "more"}),
             "differ in the config, behind its first 65536 bytes; all");
}

// What one alone has met is told with its name; what all have met needs none.
TEST(World, WhoHasFailedIsSaidWhereOthersHaveNot) {
  FakeNetwork network(3, {.seed = 12, .delay_seconds = 1e-3});
  const auto failing = [&](const std::vector<int>& ranks, std::string& as) {
    const auto thrown = in_worlds(network, 3, [&](World& world) {
      try {
        together(&world, "a thing", [&] {
          if (std::count(ranks.begin(), ranks.end(), world.rank())) throw Error("no room");
        });
      } catch (const Error&) {
        world.barrier();
        if (world.first()) as = dist::told_as();  // of threads, one for all
        world.barrier();
        together(&world, "a good end", [] {});
        throw;
      }
    });
    EXPECT_EQ(dist::told_as(), "");
    return thrown;
  };
  std::string as;
  const auto one = failing({1}, as);
  EXPECT_EQ(as, "rank 1 of 3 on fake1: ");
  EXPECT_EQ(one[1], "no room");
  EXPECT_EQ(one[0], "rank 1 of 3 on fake1: no room");
  const auto all = failing({0, 1, 2}, as);
  EXPECT_EQ(as, "");
  EXPECT_EQ(all[2], "no room");
}

TEST(World, OtherCallsInAnotherOrderAreNamed) {
  FakeNetwork network(3, {.seed = 7});
  testing::internal::CaptureStderr();
  const auto thrown = in_worlds(network, 3, [&](World& world) {
    if (world.rank() == 1) (void)world.gather("x");
    world.barrier();
    world.barrier();
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_HAS(thrown[2], "rank 1 is at a gather (call 5), and rank 2 at a barrier (call 5)");
  EXPECT_HAS(said, "leaves by an exception");
}

TEST(World, ALostRankIsThrownAndToldOnce) {
  constexpr int kRanks = 4;
  FakeNetwork network(kRanks, {.seed = 8});
  testing::internal::CaptureStderr();
  std::atomic<int> lost = 0;
  const auto thrown = in_worlds(network, kRanks,
                                [&](World& world) {
                                  world.set_step(11);
                                  world.barrier();
                                  std::this_thread::sleep_for(std::chrono::milliseconds(100));
                                  if (world.rank() == 2) network.silence(2);
                                  try {
                                    world.barrier();
                                  } catch (const dist::RankLost& e) {
                                    ++lost;
                                    if (world.rank() == 3) {
                                      EXPECT_EQ(e.rank(), 2);
                                      EXPECT_EQ(e.host(), "fake2");
                                      EXPECT_EQ(e.step(), 11);
                                    }
                                    throw;
                                  }
                                },
                                {.beat_seconds = 0.02, .silence_seconds = 0.4});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lost, kRanks) << "nobody waits for ever";
  EXPECT_HAS(
      said,
      "ebb: rank 2 of 4 on fake2 is lost at step 11: no sign of life for 0.4 s; the job ends");
  EXPECT_FALSE(network.aborted().empty());
}

TEST(World, AnExceptionOnOneRankEndsTheOthers) {
  FakeNetwork network(3, {.seed = 9});
  testing::internal::CaptureStderr();
  const auto thrown = in_worlds(network, 3, [&](World& world) {
    world.barrier();
    world.set_step(4);
    if (world.rank() == 1) throw Error("disk full, say");
    world.barrier();
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(thrown[1], "disk full, say");
  EXPECT_HAS(thrown[0], "is lost");
  EXPECT_HAS(thrown[2], "rank 1 of 3 on fake1 is lost");
  EXPECT_EQ(said, "ebb: rank 1 of 3 on fake1 leaves by an exception at step 4; the job ends\n");
}

TEST(World, ValuesAreSmall) {
  FakeNetwork network(2);
  const std::string large(dist::kLargestValue + 1, 'x');
  expect_none(in_worlds(network, 2, [&](World& world) {
    EXPECT_HAS(error_of([&] { (void)world.gather(large); }), "values are small, at most 65536");
    EXPECT_HAS(error_of([&] { (void)world.broadcast(large); }), "values are small");
    EXPECT_EQ(world.gather(large.substr(1))[1].size(), dist::kLargestValue);
  }));
}

}  // namespace
}  // namespace ebb
