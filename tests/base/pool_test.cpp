#include "ebb/base/pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ebb/base/error.hpp"

namespace ebb {
namespace {

class PoolTest : public testing::Test {
 protected:
  ~PoolTest() override { pool::set_threads(before_); }
  const int before_ = pool::threads();
};

double process_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

TEST_F(PoolTest, CoversEveryIndexExactlyOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    pool::set_threads(threads);
    ASSERT_EQ(pool::threads(), threads);
    for (const std::size_t count : {0, 1, 2, 7, 64, 1000, 1001}) {
      for (const std::size_t grain : {0, 1, 3, 64, 999, 1000, 5000}) {
        std::vector<std::atomic<int>> hits(count);
        pool::parallel_for(count, grain, [&](std::size_t begin, std::size_t end) {
          ASSERT_LT(begin, end);
          ASSERT_LE(end, count);
          for (std::size_t i = begin; i < end; ++i) hits[i].fetch_add(1);
        });
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(hits[i].load(), 1) << i << " of " << count << ", grain " << grain;
      }
    }
  }
}

TEST_F(PoolTest, RangesAreNoLongerThanTheGrain) {
  pool::set_threads(2);
  std::atomic<std::size_t> longest{0};
  pool::parallel_for(1000, 16, [&](std::size_t begin, std::size_t end) {
    std::size_t seen = longest.load();
    while (end - begin > seen && !longest.compare_exchange_weak(seen, end - begin)) {
    }
  });
  EXPECT_EQ(longest.load(), 16u);
}

TEST_F(PoolTest, AllThreadsTakePartAndKnowTheirIndex) {
  pool::set_threads(3);
  std::mutex lock;
  std::set<int> indices;
  std::set<std::thread::id> ids;
  std::atomic<int> waiting{0};
  pool::parallel_for(3, 1, [&](std::size_t, std::size_t) {
    // Each waits for the others, so that none can do the work of two.
    waiting.fetch_add(1);
    while (waiting.load() < 3) std::this_thread::yield();
    std::lock_guard hold(lock);
    indices.insert(pool::thread_index());
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(indices, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(pool::thread_index(), 0);
}

TEST_F(PoolTest, TheFirstExceptionReachesTheCaller) {
  for (const int threads : {1, 2, 4}) {
    pool::set_threads(threads);
    for (int repeat = 0; repeat < 50; ++repeat) {
      try {
        pool::parallel_for(100, 1, [&](std::size_t begin, std::size_t end) {
          if (begin <= 42 && 42 < end) throw std::runtime_error("forty-two");
        });
        FAIL() << "no exception";
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "forty-two");
      }
      // All throw: one arrives, and the pool works on.
      EXPECT_THROW(pool::parallel_for(100, 1, [](std::size_t, std::size_t) { throw 1; }), int);
      std::atomic<int> sum{0};
      pool::parallel_for(
          100, 1, [&](std::size_t b, std::size_t e) { sum.fetch_add(static_cast<int>(e - b)); });
      ASSERT_EQ(sum.load(), 100);
    }
  }
}

TEST_F(PoolTest, NestedRegionsRunInTheirThread) {
  pool::set_threads(3);
  std::atomic<int> inner{0}, strangers{0};
  pool::parallel_for(12, 1, [&](std::size_t, std::size_t) {
    const auto outer = std::this_thread::get_id();
    const int index = pool::thread_index();
    pool::parallel_for(10, 1, [&](std::size_t begin, std::size_t end) {
      if (std::this_thread::get_id() != outer || pool::thread_index() != index)
        strangers.fetch_add(1);
      inner.fetch_add(static_cast<int>(end - begin));
    });
  });
  EXPECT_EQ(inner.load(), 120);
  EXPECT_EQ(strangers.load(), 0);
}

TEST_F(PoolTest, ThreadsCanBeSetAgainAndAgain) {
  for (int i = 0; i < 60; ++i) {
    pool::set_threads(1 + i % 4);
    EXPECT_EQ(pool::threads(), 1 + i % 4);
    std::atomic<int> sum{0};
    pool::parallel_for(
        64, 1, [&](std::size_t b, std::size_t e) { sum.fetch_add(static_cast<int>(e - b)); });
    ASSERT_EQ(sum.load(), 64);
  }
}

TEST_F(PoolTest, AbsurdCountsAreRefused) {
  EXPECT_THROW(pool::set_threads(0), Error);
  EXPECT_THROW(pool::set_threads(-3), Error);
  EXPECT_THROW(pool::set_threads(5000), Error);
}

TEST_F(PoolTest, AForkedChildGoesOnAlone) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow fork";
#endif
  pool::set_threads(2);
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> sum{0};
    pool::parallel_for(
        64, 1, [&](std::size_t b, std::size_t e) { sum.fetch_add(static_cast<int>(e - b)); });
    _exit(sum.load() == 64 ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(PoolTest, ChangingThreadsInsideARegionIsAnError) {
  pool::set_threads(2);
  EXPECT_THROW(pool::parallel_for(2, 1, [](std::size_t, std::size_t) { pool::set_threads(3); }),
               Error);
  EXPECT_EQ(pool::threads(), 2);
}

TEST_F(PoolTest, IdleWorkersUseNoCpu) {
  pool::set_threads(4);
  pool::parallel_for(100, 1, [](std::size_t, std::size_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = process_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(process_seconds() - before, 0.005);
}

TEST_F(PoolTest, TwoCallersAtOnce) {
  pool::set_threads(2);
  std::atomic<int> wrong{0};
  auto caller = [&] {
    for (int i = 0; i < 500; ++i) {
      std::vector<int> hits(257, 0);
      pool::parallel_for(hits.size(), 8, [&](std::size_t b, std::size_t e) {
        for (std::size_t k = b; k < e; ++k) ++hits[k];
      });
      for (const int h : hits) wrong += h != 1;
    }
  };
  std::thread other(caller);
  caller();
  other.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(PoolTest, SettingThreadsWhileAnotherThreadWorks) {
  std::atomic<bool> ready{false};
  std::atomic<int> wrong{0};
  std::thread other([&] {
    ready = true;
    for (int i = 0; i < 300; ++i) {
      std::atomic<int> sum{0};
      pool::parallel_for(
          64, 4, [&](std::size_t b, std::size_t e) { sum.fetch_add(static_cast<int>(e - b)); });
      wrong += sum.load() != 64;
    }
  });
  while (!ready) std::this_thread::yield();
  for (int i = 0; i < 30; ++i) pool::set_threads(1 + i % 3);
  other.join();
  EXPECT_EQ(wrong.load(), 0);
}

// A fork costs microseconds: of ten thousand, the best thousand take far less than a fifth of a
// second even on a busy machine.
TEST_F(PoolTest, TinyRegionsAreQuick) {
  pool::set_threads(2);
  std::vector<int> values(64, 0);
  double best = 1e9;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i) {
      pool::parallel_for(values.size(), 32, [&](std::size_t b, std::size_t e) {
        for (std::size_t k = b; k < e; ++k) ++values[k];
      });
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  for (const int v : values) ASSERT_EQ(v, 10'000);
  EXPECT_LT(best, 2.0);
  RecordProperty("microseconds_per_region", std::to_string(best * 1000));
}

}  // namespace
}  // namespace ebb
