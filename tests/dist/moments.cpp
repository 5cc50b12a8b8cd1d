#include "tests/dist/moments.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

namespace ebb::test {
namespace {

std::string setting(const char* name, const std::string& otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? text : otherwise;
}

std::vector<double> taken;  // seconds, of this kind

void tell_times(const char* kind) {
  if (taken.empty()) return;
  std::sort(taken.begin(), taken.end());
  std::printf("  %s: %zu times, over after %.2f to %.2f s, median %.2f s\n", kind, taken.size(),
              taken.front(), taken.back(), taken[taken.size() / 2]);
}

}  // namespace

void sleep_for(double duration) {
  std::this_thread::sleep_for(std::chrono::duration<double>(duration));
}

void at_random(const char* kind, int count, const std::function<void(const Moment&)>& run) {
  if (const std::string why = no_jobs(); !why.empty()) GTEST_SKIP() << why;
  const auto seed = static_cast<unsigned>(
      std::stoul(setting("EBB_FAILURE_SEED", std::to_string(std::random_device()()))));
  std::mt19937 draw(seed);
  const bool many = std::getenv("EBB_FAILURES") != nullptr;
  count = std::stoi(setting("EBB_FAILURES", std::to_string(count)));
  taken.clear();
  for (int i = 0; i < count && !testing::Test::HasFailure() && !testing::Test::IsSkipped(); ++i) {
    const auto from = [&](int least, int most) {
      return std::uniform_int_distribution(least, most)(draw);
    };
    Moment m;
    m.ranks = from(2, 4);
    m.rank = from(0, m.ranks - 1);
    m.after = std::uniform_real_distribution(0.0, 1.2)(draw);
    m.step = from(0, 120);
    m.then = from(1, 3);
    if (m.then >= m.ranks) ++m.then;
    m.same = many || i % 2 == 1;
    m.other = many || i % 2 == 0;
    SCOPED_TRACE(
        fmt::format("{} {}: EBB_FAILURE_SEED={}: rank {} of {} after {:.3f} s, step {}, then {}",
                    kind, i, seed, m.rank, m.ranks, m.after, m.step, m.then));
    run(m);
  }
  tell_times(kind);
}

void expect_over(Job& job, const Moment& m, double since) {
  EXPECT_TRUE(job.over(kMostSeconds - (seconds() - since)))
      << job.left().size() << " processes are left\n"
      << job.err();
  taken.push_back(seconds() - since);
  std::printf("  rank %d of %d: over %.2f s later\n", m.rank, m.ranks, taken.back());
  EXPECT_NE(job.code(), 0);
}

void expect_named(Job& job, const Moment& m, const std::string& how, double since) {
  expect_over(job, m, since);
  std::vector<std::string> named;
  for (const std::string& line : job.lines())
    if (line.find("the job ends") != std::string::npos) named.push_back(line);
  ASSERT_EQ(named.size(), 1u) << job.err();
  EXPECT_TRUE(named[0].starts_with(fmt::format("ebb: rank {} of {} on ", m.rank, m.ranks)))
      << named[0];
  EXPECT_NE(named[0].find("at step "), std::string::npos) << named[0];
  EXPECT_NE(named[0].find(how), std::string::npos) << named[0];
}

}  // namespace ebb::test
