// A rank that dies, stops, throws or is cut off ends the whole job within 10 s, and is named once; at random
// moments. EBB_FAILURES says how many of each (3), EBB_FAILURE_SEED which.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>

#include "tests/dist/hosts.hpp"
#include "tests/dist/job.hpp"

namespace ebb::test {
namespace {

constexpr double kMost = 10;  // seconds

std::string setting(const char* name, const std::string& otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? text : otherwise;
}

void sleep_for(double duration) {
  std::this_thread::sleep_for(std::chrono::duration<double>(duration));
}

struct Moment {
  int ranks = 3, rank = 1;
  double after = 0;  // seconds at work
};

// `count` times, with more or fewer processes, another victim, another moment.
void at_random(const char* kind, int count, const std::function<void(const Moment&)>& run) {
  if (const std::string why = no_jobs(); !why.empty()) GTEST_SKIP() << why;
  const auto seed = static_cast<unsigned>(
      std::stoul(setting("EBB_FAILURE_SEED", std::to_string(std::random_device()()))));
  std::mt19937 draw(seed);
  count = std::stoi(setting("EBB_FAILURES", std::to_string(count)));
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    Moment m;
    m.ranks = std::uniform_int_distribution(2, 4)(draw);
    m.rank = std::uniform_int_distribution(0, m.ranks - 1)(draw);
    m.after = std::uniform_real_distribution(0.0, 1.2)(draw);
    SCOPED_TRACE(fmt::format("{} {}: EBB_FAILURE_SEED={}: rank {} of {} after {:.3f} s", kind, i,
                             seed, m.rank, m.ranks, m.after));
    run(m);
  }
}

// Over in time, one line that names the rank, and not a good end.
void expect_named(Job& job, const Moment& m, const std::string& how, double since) {
  EXPECT_TRUE(job.over(kMost - (seconds() - since))) << job.err();
  const double took = seconds() - since;
  EXPECT_NE(job.code(), 0);
  std::vector<std::string> named;
  for (const std::string& line : job.lines())
    if (line.find("the job ends") != std::string::npos) named.push_back(line);
  ASSERT_EQ(named.size(), 1u) << job.err();
  EXPECT_TRUE(named[0].starts_with(fmt::format("ebb: rank {} of {} on ", m.rank, m.ranks)))
      << named[0];
  EXPECT_NE(named[0].find("at step "), std::string::npos) << named[0];
  EXPECT_NE(named[0].find(how), std::string::npos) << named[0];
  std::printf("  rank %d of %d after %.2f s: over %.2f s later\n", m.rank, m.ranks, m.after, took);
}

// A job at work for a while, then `strike`.
void struck(const Moment& m, const std::string& how, const std::function<void(Job&)>& strike,
            const std::vector<std::string>& environment = {}) {
  Job job("work", {.ranks = m.ranks, .environment = environment});
  ASSERT_TRUE(job.up()) << job.err();
  sleep_for(m.after);
  const double since = seconds();
  strike(job);
  expect_named(job, m, how, since);
}

TEST(Failures, KilledRank) {
  at_random("kill -9", 3, [](const Moment& m) {
    struck(m, "it has died", [&](Job& job) { ::kill(job.process(m.rank), SIGKILL); });
  });
}

TEST(Failures, KilledRankThatAScriptHasStarted) {
  at_random("kill -9", 1, [](const Moment& m) {
    Job job("work", {.ranks = m.ranks, .by_script = true});
    ASSERT_TRUE(job.up()) << job.err();
    sleep_for(m.after);
    const double since = seconds();
    ::kill(job.process(m.rank), SIGKILL);
    expect_named(job, m, "it has died", since);
  });
}

TEST(Failures, StoppedRank) {
  at_random("SIGSTOP", 2, [](const Moment& m) {
    struck(m, "no sign of life for 5", [&](Job& job) { ::kill(job.process(m.rank), SIGSTOP); });
  });
}

TEST(Failures, ExceptionOnOneRank) {
  at_random("exception", 3, [](const Moment& m) {
    Job job("work", {.ranks = m.ranks});
    ASSERT_TRUE(job.up()) << job.err();
    sleep_for(m.after);
    const double since = seconds();
    job.order("throw", m.rank);
    expect_named(job, m, "leaves by an exception", since);
    EXPECT_NE(job.err().find("ebb: disk full, say"), std::string::npos) << job.err();
    EXPECT_EQ(job.code(), 2);
  });
}

TEST(Failures, RankThatExits) {
  at_random("exit", 2, [](const Moment& m) {
    struck(m, "it has died", [&](Job& job) { job.order("exit", m.rank); });
  });
}

// It still beats, and nobody else makes a step: the one that is busy is named.
TEST(Failures, RankThatComputesForEver) {
  at_random("endless step", 1, [](const Moment& m) {
    struck(m, "busy with one step for 5 s", [&](Job& job) { job.order("spin", m.rank); },
           {"EBB_TEST_STEP_MS=50"});
  });
}

TEST(Failures, KilledLauncher) {
  at_random("kill -9 mpirun", 3, [](const Moment& m) {
    Job job("work", {.ranks = m.ranks});
    ASSERT_TRUE(job.up()) << job.err();
    sleep_for(m.after);
    const double since = seconds();
    ::kill(job.launcher(), SIGKILL);
    EXPECT_TRUE(job.over(kMost));
    EXPECT_EQ(job.lines().size(), 0u) << job.err();
    std::printf("  %d ranks after %.2f s: over %.2f s later\n", m.ranks, m.after,
                seconds() - since);
  });
}

// Who ends the job on purpose is not told that a rank was lost.
TEST(Failures, EndedLauncherNamesNobody) {
  at_random("SIGTERM to mpirun", 1, [](const Moment& m) {
    Job job("work", {.ranks = m.ranks});
    ASSERT_TRUE(job.up()) << job.err();
    sleep_for(m.after);
    ::kill(job.launcher(), SIGTERM);
    EXPECT_TRUE(job.over(kMost));
    EXPECT_EQ(job.lines().size(), 0u) << job.err();
    EXPECT_NE(job.code(), 0);
  });
}

TEST(Failures, PauseOfTwoSecondsIsNone) {
  at_random("pause", 1, [](const Moment& m) {
    Job job("work", {.ranks = m.ranks, .environment = {"EBB_TEST_STEPS=400"}});
    ASSERT_TRUE(job.up()) << job.err();
    sleep_for(m.after / 4);
    ::kill(job.process(m.rank), SIGSTOP);
    sleep_for(2);
    ::kill(job.process(m.rank), SIGCONT);
    EXPECT_TRUE(job.over(60)) << job.err();
    EXPECT_EQ(job.code(), 0) << job.err();
    EXPECT_EQ(job.out(), "done\n");
    EXPECT_EQ(job.err(), "");
  });
}

// Two hosts, by network namespaces: the link between them goes down.
TEST(Failures, CutLink) {
  at_random("link down", 1, [](const Moment& drawn) {
    TwoHosts hosts;
    if (!hosts.why().empty()) GTEST_SKIP() << hosts.why();
    Moment m = drawn;
    m.ranks = 2;
    m.rank = 1;  // the launcher is on the side of rank 0
    Job job("work", {.ranks = 2, .mpirun = hosts.mpirun(), .before = hosts.first()});
    ASSERT_TRUE(job.up()) << job.err();
    sleep_for(m.after);
    const double since = seconds();
    hosts.cut();
    expect_named(job, m, "on " + hosts.second_name(), since);
  });
}

TEST(Failures, StoppedRankOnAnotherHost) {
  at_random("SIGSTOP, two hosts", 1, [](const Moment& drawn) {
    TwoHosts hosts;
    if (!hosts.why().empty()) GTEST_SKIP() << hosts.why();
    Moment m = drawn;
    m.ranks = 2;
    m.rank = 1;
    Job job("work", {.ranks = 2, .mpirun = hosts.mpirun(), .before = hosts.first()});
    ASSERT_TRUE(job.up()) << job.err();
    sleep_for(m.after);
    const double since = seconds();
    ::kill(job.process(1), SIGSTOP);
    expect_named(job, m, "no sign of life", since);
    EXPECT_NE(job.err().find("on " + hosts.second_name()), std::string::npos) << job.err();
  });
}

TEST(Failures, KilledRankOnAnotherHost) {
  at_random("kill -9, two hosts", 1, [](const Moment& drawn) {
    TwoHosts hosts;
    if (!hosts.why().empty()) GTEST_SKIP() << hosts.why();
    Moment m = drawn;
    m.ranks = 2;
    m.rank %= 2;
    Job job("work", {.ranks = 2, .mpirun = hosts.mpirun(), .before = hosts.first()});
    ASSERT_TRUE(job.up()) << job.err();
    sleep_for(m.after);
    const double since = seconds();
    ::kill(job.process(m.rank), SIGKILL);
    expect_named(job, m, "it has died", since);
  });
}

}  // namespace
}  // namespace ebb::test
