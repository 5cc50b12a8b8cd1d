#include "ebb/base/pool.hpp"

#include <fmt/core.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "ebb/base/cgroup.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/round.hpp"

namespace ebb::pool {
namespace {

thread_local int this_index = 0;
thread_local bool inside = false;

constexpr int kMostThreads = 1024;

int default_threads() {
  if (const char* text = std::getenv("EBB_THREADS")) {
    const int n = std::atoi(text);
    if (n >= 1 && n <= kMostThreads) return n;
    fmt::print(stderr, "ebb: EBB_THREADS is '{}', expected 1 to {}; it is ignored\n", text,
               kMostThreads);
  }
  cpu_set_t set;
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const double quota = cgroup::cpu_quota(cgroup::groups_of("cpu"));
  return std::max(1, quota > 0 ? std::min(allowed, static_cast<int>(std::ceil(quota))) : allowed);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Long enough to bridge the gap between two kernels of one step, short enough to be idle in effect.
constexpr int kSpins = 4000;

class Pool {
 public:
  Pool() { start(default_threads()); }
  ~Pool() { stop(); }

  // After fork() the child has none of the workers: it goes on alone until it asks for threads.
  void forked() {
    new std::vector<std::thread>(std::move(workers_));  // handles of threads that are not there
    workers_.clear();
    count_.store(1, std::memory_order_relaxed);
  }

  int threads() const { return count_.load(std::memory_order_relaxed); }

  void set_threads(int n) {
    if (inside) throw Error("set_threads: called inside a parallel region; call it outside");
    if (n < 1 || n > kMostThreads)
      throw Error(fmt::format("set_threads: {} threads; expected 1 to {}", n, kMostThreads));
    std::lock_guard lock(region_);
    stop();
    start(n);
  }

  void run(std::size_t count, std::size_t grain, Body body, void* context) {
    if (count == 0) return;
    if (grain == 0) grain = 1;
    if (inside || threads() == 1 || count <= grain) return body(context, 0, count);
    // One region at a time: a second caller does its work alone rather than wait.
    std::unique_lock lock(region_, std::try_to_lock);
    if (!lock.owns_lock() || workers_.empty()) return body(context, 0, count);

    grain = std::max(grain, ceil_div(count, kMostRanges));
    body_ = body;
    context_ = context;
    total_ = count;
    grain_ = grain;
    ranges_ = static_cast<std::uint32_t>(ceil_div(count, grain));
    done_.store(0, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
    failure_ = nullptr;
    const std::uint32_t region = generation_.load(std::memory_order_relaxed) + 1;
    left_.store(std::uint64_t{region} << 32 | ranges_, std::memory_order_release);
    generation_.store(region, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) generation_.notify_all();

    work();
    std::uint32_t done = done_.load(std::memory_order_acquire);
    for (int spin = 0; done != ranges_; ++spin, done = done_.load(std::memory_order_acquire)) {
      if (spin < kSpins) {
        relax();
      } else {
        done_.wait(done, std::memory_order_acquire);
      }
    }
    if (failure_) {
      auto failure = std::exchange(failure_, nullptr);
      std::rethrow_exception(failure);
    }
  }

 private:
  // Takes ranges for as long as there are any. What describes a region is read after a range of it was
  // taken, and stays until that is done: whoever comes late finds none left, or those of the next region.
  void work() {
    inside = true;
    for (std::uint64_t left = left_.load(std::memory_order_acquire); (left & kLeft) != 0;) {
      if (!left_.compare_exchange_weak(left, left - 1, std::memory_order_acquire)) continue;
      const std::uint32_t ranges = ranges_;
      const std::size_t begin = grain_ * (ranges - (left & kLeft));
      if (!failed_.load(std::memory_order_relaxed)) run_range(begin);
      if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == ranges) done_.notify_one();
      left = left_.load(std::memory_order_acquire);
    }
    inside = false;
  }

  void run_range(std::size_t begin) {
    try {
      body_(context_, begin, total_ - begin < grain_ ? total_ : begin + grain_);
    } catch (...) {
      std::lock_guard lock(failure_lock_);
      if (!failure_) failure_ = std::current_exception();
      failed_.store(true, std::memory_order_relaxed);
    }
  }

  void serve(int index) {
    this_index = index;
    std::uint32_t seen = first_generation_;
    for (;;) {
      std::uint32_t now = generation_.load(std::memory_order_acquire);
      for (int spin = 0; now == seen && spin < kSpins; ++spin) {
        relax();
        now = generation_.load(std::memory_order_acquire);
      }
      if (now == seen) {
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        generation_.wait(seen, std::memory_order_acquire);
        sleepers_.fetch_sub(1, std::memory_order_relaxed);
        now = generation_.load(std::memory_order_acquire);
        if (now == seen) continue;
      }
      seen = now;
      if (ending_.load(std::memory_order_relaxed)) return;
      work();
    }
  }

  void start(int n) {
    ending_.store(false, std::memory_order_relaxed);
    first_generation_ = generation_.load(std::memory_order_relaxed);
    try {
      for (int i = 1; i < n; ++i) workers_.emplace_back([this, i] { serve(i); });
    } catch (const std::system_error&) {
      // The system allows no more threads: those that there are will do.
    }
    count_.store(static_cast<int>(workers_.size()) + 1, std::memory_order_relaxed);
  }

  void stop() {
    ending_.store(true, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    for (auto& worker : workers_) worker.join();
    workers_.clear();
  }

  std::atomic<int> count_{1};
  std::mutex region_;
  std::vector<std::thread> workers_;
  std::uint32_t first_generation_ = 0;

  Body body_ = nullptr;
  void* context_ = nullptr;
  std::size_t total_ = 0, grain_ = 1;
  std::uint32_t ranges_ = 0;
  std::atomic<std::uint32_t> generation_{0};  // of regions
  std::atomic<int> sleepers_{0};
  std::atomic<bool> ending_{false};
  // Which region, and how many of its ranges nobody has taken yet: in one, so that a thread that comes
  // late takes none of another region's by mistake.
  static constexpr std::uint64_t kLeft = 0xffffffff;
  static constexpr std::size_t kMostRanges = kLeft;
  alignas(64) std::atomic<std::uint64_t> left_{0};
  alignas(64) std::atomic<std::uint32_t> done_{0};  // ranges; the region ends with the last of them
  std::atomic<bool> failed_{false};
  std::mutex failure_lock_;
  std::exception_ptr failure_;
};

Pool& instance() {
  static Pool pool;
  static const int at_fork = pthread_atfork(nullptr, nullptr, [] { instance().forked(); });
  static_cast<void>(at_fork);
  return pool;
}

}  // namespace

int threads() { return instance().threads(); }
void set_threads(int count) { instance().set_threads(count); }
int thread_index() { return this_index; }

void run(std::size_t count, std::size_t grain, Body body, void* context) {
  instance().run(count, grain, body, context);
}

}  // namespace ebb::pool
