#include "ebb/train/run/stop_signal.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>
#include <vector>

#include "tests/error_of.hpp"

namespace ebb::train {
namespace {

// How a child that runs `f` ended: as a shell would tell, 1000 more where by a signal.
int ended(const std::function<int()>& f) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 1128 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(StopSignal, TheFirstAsks) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const StopSignal stop;
    EXPECT_FALSE(stop);
    EXPECT_EQ(stop.exit_code(), 0);
    EXPECT_EQ(stop.seconds_since(), 0);
    ::raise(signal);
    EXPECT_TRUE(stop);
    EXPECT_EQ(stop.signal(), signal);
    EXPECT_EQ(stop.exit_code(), 128 + signal);
    EXPECT_GE(stop.seconds_since(), 0);
    EXPECT_LT(stop.seconds_since(), 5);
  }
  EXPECT_FALSE(StopSignal());  // a new one knows nothing of it
}

TEST(StopSignal, TheSecondEndsAtOnce) {
  const auto twice = [](int a, int b) {
    return ended([=] {
      const StopSignal stop;
      ::raise(a);
      if (!stop) return 1;
      ::raise(b);
      return 2;
    });
  };
  EXPECT_EQ(twice(SIGINT, SIGINT), 1130);
  EXPECT_EQ(twice(SIGTERM, SIGTERM), 1143);
  EXPECT_EQ(twice(SIGINT, SIGTERM), 1143);
  EXPECT_EQ(twice(SIGHUP, SIGINT), 1130);
  EXPECT_EQ(twice(SIGHUP, SIGHUP), 2);  // a closed terminal may say so twice
  EXPECT_EQ(twice(SIGINT, SIGHUP), 2);
}

TEST(StopSignal, HandlersAreAsBeforeAfterwards) {
  EXPECT_EQ(ended([] {
              { const StopSignal stop; }
              ::raise(SIGINT);
              return 0;
            }),
            1130);
  struct sigaction mine {
  }, after{};
  mine.sa_handler = [](int) {};
  struct sigaction original {};
  ::sigaction(SIGTERM, &mine, &original);
  { const StopSignal stop; }
  ::sigaction(SIGTERM, &original, &after);
  EXPECT_EQ(after.sa_handler, mine.sa_handler);
}

TEST(StopSignal, WhatIsIgnoredStaysIgnored) {
  EXPECT_EQ(ended([] {
              ::signal(SIGHUP, SIG_IGN);
              const StopSignal stop;
              ::raise(SIGHUP);
              return stop ? 1 : 0;
            }),
            0);
}

TEST(StopSignal, ThereIsOne) {
  const StopSignal stop;
  EXPECT_HAS(test::error_of([] { const StopSignal another; }), "there is one already");
}

TEST(StopSignal, SystemCallsGoOnAndErrnoStays) {
  const StopSignal stop;
  errno = ENOTTY;
  ::raise(SIGINT);
  EXPECT_EQ(errno, ENOTTY);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(ended([&] {
              const pid_t parent = ::getpid();
              std::thread other([&] {
                ::usleep(50000);
                ::kill(parent, SIGHUP);
                ::usleep(50000);
                if (::write(ends[1], "x", 1) != 1) ::_exit(3);
              });
              char c = 0;
              const auto n = ::read(ends[0], &c, 1);
              other.join();
              return n == 1 && c == 'x' ? 0 : 1;
            }),
            0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(StopSignal, ALoopInAnotherProcessEndsBetweenSteps) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const StopSignal stop;
    if (::write(ends[1], "r", 1) != 1) ::_exit(9);
    std::atomic<int> work{0};
    std::vector<std::thread> threads;  // whichever thread it comes to
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        while (!stop) ++work;
      });
    for (std::thread& t : threads) t.join();
    ::_exit(stop.exit_code());
  }
  char ready = 0;
  ASSERT_EQ(::read(ends[0], &ready, 1), 1);
  ::kill(child, SIGTERM);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 143);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace ebb::train
