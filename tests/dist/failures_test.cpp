// A rank that dies, stops, throws or is cut off ends the whole job within 10 s, and is named once; at random
// moments. EBB_FAILURES says how many of each, EBB_FAILURE_SEED which. (Of training, and what else: training_failures_test.cpp.)
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <functional>

#include "tests/dist/hosts.hpp"
#include "tests/dist/moments.hpp"

namespace ebb::test {
namespace {

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
  at_random("kill -9", 1, [](const Moment& m) {
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

TEST(Failures, ExceptionOnOneRank) {
  at_random("exception", 1, [](const Moment& m) {
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
  at_random("exit", 1, [](const Moment& m) {
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

// Who ends the job on purpose is not told that a rank was lost.
TEST(Failures, EndedLauncherNamesNobody) {
  at_random("SIGTERM to mpirun", 1, [](const Moment& m) {
    Job job("work", {.ranks = m.ranks});
    ASSERT_TRUE(job.up()) << job.err();
    sleep_for(m.after);
    ::kill(job.launcher(), SIGTERM);
    EXPECT_TRUE(job.over(kMostSeconds));
    EXPECT_EQ(job.lines().size(), 0u) << job.err();
    EXPECT_NE(job.code(), 0);
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
