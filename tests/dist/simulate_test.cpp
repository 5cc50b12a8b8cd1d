// The simulation of a step against what is known in closed form, and against ranks that are threads.
#include "ebb/dist/simulate.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/rng.hpp"
#include "tests/dist/ranks.hpp"
#include "tests/error_of.hpp"

namespace ebb::dist {
namespace {

using test::error_of;

using Kind = Timetable::Entry::Kind;

constexpr double kAlpha = 1e-3, kSpeed = 1e6;  // seconds; bytes a second
const Cluster kApart{.between = {kAlpha, kSpeed}};

double moved(std::uint64_t bytes) { return static_cast<double>(bytes) / kSpeed; }

// Ranks that do nothing yet.
std::vector<Timetable> idle(int ranks) {
  std::vector<Timetable> all(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    all[static_cast<std::size_t>(r)].rank = r;
    all[static_cast<std::size_t>(r)].size = ranks;
  }
  return all;
}
// Started; which of its letters that is.
int start(Timetable& t, bool sent, int peer, int tag, std::uint64_t bytes) {
  t.letters.push_back({sent, peer, tag, bytes});
  const int letter = static_cast<int>(t.letters.size()) - 1;
  t.entries.push_back({Kind::start, 0, letter, ""});
  return letter;
}
void wait(Timetable& t, int letter) { t.entries.push_back({Kind::wait, 0, letter, ""}); }
void vote(Timetable& t) { t.entries.push_back({Kind::vote, 0, -1, "this"}); }

// Each rank adds to `groups` sums of so many bytes, `seconds` for each, and hands them on.
std::vector<Timetable> chain(int ranks, int groups, double seconds, std::uint64_t bytes) {
  std::vector<Timetable> all = idle(ranks);
  for (int r = 0; r < ranks; ++r) {
    Timetable& t = all[static_cast<std::size_t>(r)];
    std::vector<int> in, out;
    if (r > 0)
      for (int g = 0; g < groups; ++g) in.push_back(start(t, false, r - 1, g, bytes));
    for (int g = 0; g < groups; ++g) {
      if (r > 0) wait(t, in[static_cast<std::size_t>(g)]);
      t.compute(seconds);
      if (r + 1 < ranks) out.push_back(start(t, true, r + 1, g, bytes));
    }
    for (const int letter : out) wait(t, letter);
  }
  return all;
}

void expect_near(double found, double expected) {
  EXPECT_NEAR(found, expected, 1e-9 * (1 + expected));
}

TEST(Simulate, OneMessageTakesAlphaAndItsBytes) {
  std::vector<Timetable> ranks = idle(2);
  wait(ranks[0], start(ranks[0], true, 1, 3, 5000));
  wait(ranks[1], start(ranks[1], false, 0, 3, 5000));
  const Simulated step = simulate(ranks, kApart);
  expect_near(step.seconds, kAlpha + 5e-3);
  EXPECT_EQ(step.messages, 1u);
  EXPECT_EQ(step.ranks[0].sent, 5000u);
  expect_near(step.ranks[1].waiting, kAlpha + 5e-3);
  expect_near(step.ranks[1].exposed, kAlpha + 5e-3);
  EXPECT_EQ(step.ranks[1].busy, 0);
}

TEST(Simulate, AMessageBeginsWhenBothSidesHaveStartedIt) {
  std::vector<Timetable> ranks = idle(2);
  wait(ranks[0], start(ranks[0], true, 1, 0, 1000));
  ranks[1].compute(0.5);
  wait(ranks[1], start(ranks[1], false, 0, 0, 1000));
  const Simulated step = simulate(ranks, kApart);
  expect_near(step.seconds, 0.5 + 1e-3 + kAlpha);
  // The sender waits for the other to compute; its bytes are on their way for a thousandth only.
  expect_near(step.ranks[0].exposed, 1e-3);
  expect_near(step.ranks[0].waiting, step.seconds);
  expect_near(step.ranks[1].busy, 0.5);
}

TEST(Simulate, ComputingHidesMessages) {
  std::vector<Timetable> ranks = idle(2);
  const int out = start(ranks[0], true, 1, 0, 1000), in = start(ranks[1], false, 0, 0, 1000);
  for (Timetable& t : ranks) t.compute(0.5);
  wait(ranks[0], out);
  wait(ranks[1], in);
  const Simulated step = simulate(ranks, kApart);
  expect_near(step.seconds, 0.5);
  EXPECT_EQ(step.waiting(), 0);
}

TEST(Simulate, AChainOfRanksIsAsLongAsAllHops) {
  for (const int ranks : {2, 3, 7, 64})
    expect_near(simulate(chain(ranks, 1, 0.01, 2000), kApart).seconds,
                ranks * 0.01 + (ranks - 1) * (kAlpha + moved(2000)));
}

// (W − 1) hops until the last rank has its first sum; then all of its sums, one after the other.
TEST(Simulate, SumsOfAChainGoOneBehindTheOther) {
  for (const int ranks : {2, 5, 33})
    for (const int groups : {1, 4, 100}) {
      const double seconds = 0.01;  // longer than a sum is on its way
      expect_near(simulate(chain(ranks, groups, seconds, 2000), kApart).seconds,
                  (ranks - 1) * (seconds + kAlpha + moved(2000)) + groups * seconds);
    }
}

// Where the network is slower than the sums come, the last one arrives when all bytes are through.
TEST(Simulate, ASlowNetworkMovesAllBytesOneAfterTheOther) {
  const int groups = 50;
  const double seconds = 1e-4;
  const double through = seconds + moved(2000) * groups + kAlpha;
  const double found = simulate(chain(2, groups, seconds, 2000), kApart).seconds;
  EXPECT_GE(found, through + seconds - 1e-9);
  EXPECT_LE(found, through + groups * seconds + 1e-9);
}

TEST(Simulate, WhatComesToOneHostSharesItsLink) {
  std::vector<Timetable> ranks = idle(3);
  std::vector<int> in;
  for (const int from : {0, 1}) {
    wait(ranks[static_cast<std::size_t>(from)],
         start(ranks[static_cast<std::size_t>(from)], true, 2, from, 4000));
    in.push_back(start(ranks[2], false, from, from, 4000));
  }
  for (const int letter : in) wait(ranks[2], letter);
  expect_near(simulate(ranks, kApart).seconds, 8e-3 + kAlpha);
}

// 2 messages at half speed until the short one is through, then one at full speed.
TEST(Simulate, WhoGoesOnAloneIsFaster) {
  std::vector<Timetable> ranks = idle(3);
  std::vector<int> in;
  for (const auto& [from, bytes] : {std::pair(0, 2000), std::pair(1, 6000)}) {
    Timetable& t = ranks[static_cast<std::size_t>(from)];
    wait(t, start(t, true, 2, from, static_cast<std::uint64_t>(bytes)));
    in.push_back(start(ranks[2], false, from, from, static_cast<std::uint64_t>(bytes)));
  }
  for (const int letter : in) wait(ranks[2], letter);
  const Simulated step = simulate(ranks, kApart);
  expect_near(step.seconds, 8e-3 + kAlpha);
  expect_near(step.ranks[0].exposed, 4e-3);
  expect_near(step.ranks[0].waiting, step.seconds);  // it waits for the end, too
}

TEST(Simulate, BothWaysAtOnceDoNotDisturbEachOther) {
  std::vector<Timetable> ranks = idle(2);
  for (const int r : {0, 1}) {
    Timetable& t = ranks[static_cast<std::size_t>(r)];
    const int out = start(t, true, 1 - r, 0, 4000), in = start(t, false, 1 - r, 0, 4000);
    wait(t, in);
    wait(t, out);
  }
  expect_near(simulate(ranks, kApart).seconds, 4e-3 + kAlpha);
}

TEST(Simulate, AVoteIsAnExchangeForEachDoubling) {
  for (const auto& [ranks, rounds] : {std::pair(2, 1), std::pair(5, 3), std::pair(8, 3)}) {
    std::vector<Timetable> all = idle(ranks);
    for (Timetable& t : all) vote(t);
    all.back().compute(0.0);
    const Simulated step = simulate(all, {.between = {kAlpha, 1e15}});
    EXPECT_NEAR(step.seconds, rounds * kAlpha, 1e-9) << ranks;
    EXPECT_EQ(step.messages, static_cast<std::uint64_t>(ranks * rounds));
  }
}

TEST(Simulate, NoneGoesOnFromAVoteBeforeTheLastHasCome) {
  std::vector<Timetable> all = idle(4);
  all[2].compute(0.25);
  for (Timetable& t : all) vote(t);
  const Simulated step = simulate(all, {.between = {kAlpha, 1e15}});
  EXPECT_GE(step.seconds, 0.25 + kAlpha);
  EXPECT_LE(step.seconds, 0.25 + 2 * kAlpha + 1e-9);
}

TEST(Simulate, MoreThreadsThanCoresShareThem) {
  std::vector<Timetable> all = idle(4);
  for (Timetable& t : all) t.compute(1);
  const Cluster one_host{.ranks_per_host = 4, .threads = 1, .cores = 2};
  expect_near(simulate(all, one_host).seconds, 2);
  all[0].compute(
      1);  // two seconds of it; the others are done when it has half, and leave it a core
  expect_near(simulate(all, one_host).seconds, 3);
  Cluster two_hosts = one_host;
  two_hosts.ranks_per_host = 2;
  expect_near(simulate(all, two_hosts).seconds, 2);
}

// A pair copies one message after the other; two pairs share the memory; a copy takes a core.
TEST(Simulate, RanksOfOneHostShareItsMemory) {
  const auto pairs = [](int count) {
    std::vector<Timetable> all = idle(2 * count);
    for (int p = 0; p < count; ++p)
      for (const int tag : {0, 1}) {
        Timetable &a = all[static_cast<std::size_t>(2 * p)],
                  &b = all[static_cast<std::size_t>(2 * p + 1)];
        wait(a, start(a, true, 2 * p + 1, tag, 3000));
        wait(b, start(b, false, 2 * p, tag, 3000));
      }
    return all;
  };
  Cluster host{.within = {0, kSpeed}, .memory_bytes = 1.5 * kSpeed, .ranks_per_host = 8};
  expect_near(simulate(pairs(1), host).seconds, 6e-3);
  expect_near(simulate(pairs(3), host).seconds, 12e-3);
  std::vector<Timetable> busy = pairs(1);
  busy.push_back(Timetable{.rank = 2, .size = 3, .letters = {}, .entries = {}});
  busy.back().compute(6e-3);
  host.cores = 1;
  expect_near(simulate(busy, host).seconds, 12e-3);
}

TEST(Simulate, WhatCannotEndIsNamed) {
  std::vector<Timetable> ranks = idle(2);
  wait(ranks[1], start(ranks[1], false, 0, 0, 8));
  EXPECT_HAS(error_of([&] { simulate(ranks, kApart); }),
             "rank 1 waits for ever for a letter that comes of 8 bytes");
  ranks = idle(2);
  start(ranks[0], true, 1, 0, 8);
  start(ranks[1], false, 0, 0, 16);
  EXPECT_HAS(error_of([&] { simulate(ranks, kApart); }), "do not agree on a letter");
  ranks = idle(2);
  start(ranks[0], true, 2, 0, 8);
  EXPECT_HAS(error_of([&] { simulate(ranks, kApart); }), "a letter for rank 2 of 2");
}

TEST(Simulate, IsTheSameEveryTime) {
  const std::vector<Timetable> all = chain(17, 20, 1e-4, 3000);
  EXPECT_EQ(simulate(all, kApart), simulate(all, kApart));
}

// Draws ranks that compute and exchange at random; however they do, nobody computes less or more, all bytes arrive,
// and it takes no less than the longest rank and no more than all one after the other.
TEST(Simulate, KeepsItsBoundsAtRandom) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::uint64_t draws = 0;
    const auto below = [&](std::uint64_t n) { return draw({seed, 0}, 1, draws++) % n; };
    const int ranks = 2 + static_cast<int>(below(6));
    std::vector<Timetable> all = idle(ranks);
    std::vector<std::vector<int>> open(static_cast<std::size_t>(ranks));
    double computed = 0, through = 0;
    for (int i = 0; i < 40; ++i) {
      const int from = static_cast<int>(below(static_cast<std::uint64_t>(ranks)));
      const int to =
          (from + 1 + static_cast<int>(below(static_cast<std::uint64_t>(ranks - 1)))) % ranks;
      const std::uint64_t bytes = below(5000);
      const double seconds = static_cast<double>(below(100)) * 1e-4;
      for (const int r : {from, to}) {
        Timetable& t = all[static_cast<std::size_t>(r)];
        t.compute(seconds);
        computed += seconds;
        const int letter = start(t, r == from, r == from ? to : from, i % 3, bytes);
        open[static_cast<std::size_t>(r)].push_back(letter);
      }
      through += kAlpha + moved(bytes);
    }
    double longest = 0;
    for (int r = 0; r < ranks; ++r) {
      for (const int letter : open[static_cast<std::size_t>(r)])
        wait(all[static_cast<std::size_t>(r)], letter);
      longest = std::max(longest, all[static_cast<std::size_t>(r)].computed());
    }
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Simulated step = simulate(all, kApart);
    EXPECT_EQ(step.messages, 40u);
    EXPECT_GE(step.seconds, longest - 1e-9);
    EXPECT_LE(step.seconds, computed + through + 1e-9);
    for (int r = 0; r < ranks; ++r) {
      const Simulated::Rank& of = step.ranks[static_cast<std::size_t>(r)];
      expect_near(of.busy, all[static_cast<std::size_t>(r)].computed());
      expect_near(of.busy + of.waiting, step.seconds);
      EXPECT_LE(of.exposed, of.waiting + 1e-9);
    }
  }
}

// ---- beside ranks that are threads

// Does what a timetable says, with letters of bytes that nobody reads; computing is sleep.
void play(World& world, const Timetable& table) {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::unique_ptr<Ranks::Letter>> letters;
  for (const Timetable::Letter& l : table.letters) {
    bytes.emplace_back(l.bytes);
    letters.push_back(l.sent ? world.letter_to(l.peer, l.tag, bytes.back())
                             : world.letter_from(l.peer, l.tag, bytes.back()));
  }
  for (const Timetable::Entry& e : table.entries) {
    switch (e.kind) {
      case Kind::compute:
        std::this_thread::sleep_for(std::chrono::duration<double>(e.seconds));
        break;
      case Kind::start:
        letters[static_cast<std::size_t>(e.letter)]->start();
        break;
      case Kind::wait:
        letters[static_cast<std::size_t>(e.letter)]->wait();
        break;
      case Kind::vote:
        world.together(e.what, nullptr);
        break;
    }
  }
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Sleep is never short, and messages never early: threads are no faster than the simulation of a network that costs
// nothing; on a machine with others at work they are a little slower.
TEST(Simulate, IsWhatThreadsDo) {
  const int ranks = 3;
  std::vector<Timetable> all = chain(ranks, 5, 0.03, 20000);
  all[0].compute(0.02);
  for (Timetable& t : all) vote(t);
  all[1].compute(0.04);
  for (Timetable& t : all) vote(t);
  const double expected = simulate(all, {.between = {0, 1e15}}).seconds;
  expect_near(expected, 2 * 0.03 + 5 * 0.03 + 0.04);
  double best = 1e9;
  for (int attempt = 0; attempt < 5 && best > 1.1 * expected; ++attempt) {
    FakeNetwork network(ranks);
    std::vector<double> took(ranks);
    test::expect_none(test::in_worlds(network, ranks, [&](World& world) {
      world.barrier();
      const double begin = seconds_now();
      play(world, all[static_cast<std::size_t>(world.rank())]);
      took[static_cast<std::size_t>(world.rank())] = seconds_now() - begin;
      world.barrier();
    }));
    best = std::min(best, *std::max_element(took.begin(), took.end()));
  }
  // They do not leave the barrier in the same moment.
  EXPECT_GE(best, 0.95 * expected);
  EXPECT_LE(best, 1.3 * expected);
}

}  // namespace
}  // namespace ebb::dist
