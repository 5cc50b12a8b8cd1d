// How a machine is measured: one op of each kind of work is run on so little that it stays in the
// cache, some once more on what was put out of all caches, and a sum of arrays that no core keeps near.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <thread>
#include <vector>

#include "ebb/base/pool.hpp"
#include "ebb/ops/attention.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/conv.hpp"
#include "ebb/ops/index.hpp"
#include "ebb/ops/matmul.hpp"
#include "ebb/ops/norm.hpp"
#include "ebb/ops/recurrent.hpp"
#include "ebb/ops/reduce.hpp"
#include "ebb/ops/softmax.hpp"
#include "ebb/ops/unary.hpp"
#include "ebb/plan/forecast/caches.hpp"
#include "ebb/plan/forecast/machine.hpp"
#include "ebb/plan/forecast/measure.hpp"
#include "ebb/plan/forecast/timed_op.hpp"

namespace ebb::plan {
namespace {

using ops::Work;

constexpr int kRounds = 3, kMostRounds = 4;
constexpr long kPreemptions = 2;     // of a round: a daemon that looks around
constexpr double kDisturbed = 0.75;  // of what threads usually gain: less is somebody else's doing
constexpr double kLongestFork = 20e-6;  // seconds, where nobody else uses the machine
constexpr double kEachMore = 0.6;       // what each further thread adds, where that is not measured
constexpr std::uint64_t kStreamed = 8 << 20;  // bytes: three arrays that no core keeps near
constexpr double kReached = 0.85;  // on the whole, of what a product in the cache reaches
constexpr double kLonger = 1.15;   // what long sequences gain, who pack their weights once
constexpr double kMemory = 0.4;    // of the cache's speed, that memory has where it is not measured

Spec floats(std::initializer_list<std::int64_t> dims) {
  return {Shape(std::vector<std::int64_t>(dims)), DType::f32};
}
Spec ids(std::int64_t count) { return {{count}, DType::i32}; }

double bytes_a_second(std::initializer_list<Took> all) {
  double bytes = 0, seconds = 0;
  for (const Took& t : all) bytes += t.cost.bytes, seconds += t.seconds;
  return bytes / seconds;
}

// Out of the caches, in less than 1 MiB: arrays from one end to the other, sums, rows here and there.
void measure_far(Machine& m) {
  if (!can_put_out_of_caches()) {
    for (Machine::Speed& s : m.speeds) s.far = kMemory * s.cached;
    return;
  }
  const Spec some = floats({80 << 10}), table = floats({448, 256}), rows = floats({1024, 64});
  const double streamed =
      bytes_a_second({took(ops::Add{}, {some, some}, {.far = true}),
                      took(ops::Add{}, {some, some}, {.in_place = true, .far = true})});
  const double reduced =
      bytes_a_second({took(ops::LayerNorm{}, {table, floats({256}), floats({256})}, {.far = true}),
                      took(ops::SumTo{Shape({256})}, {table}, {.far = true})});
  const double gathered =
      took(ops::Gather{}, {floats({2048, 64}), ids(1024)}, {.below = 2048, .far = true}).bytes();
  const double scattered =
      took(ops::ScatterAdd{.size = 2048}, {ids(1024), rows}, {.below = 2048, .far = true}).bytes();
  for (std::size_t i = 0; i < m.speeds.size(); ++i) {
    const auto work = static_cast<Work>(i);
    const double far = work == Work::reduction ? reduced
                       : work == Work::gather  ? gathered
                       : work == Work::scatter ? scattered
                                               : streamed;
    m.speeds[i].far = std::max(m.speeds[i].far, far);
  }
}

// One round, with the threads that kernels find here: what is faster than before counts.
void measure(Machine& m, std::int64_t threads, bool memory) {
  const auto set = [&](Work work, double flops, double cached) {
    Machine::Speed& s = m.speed(work);
    s.flops = std::max(s.flops, flops);
    s.cached = std::max(s.cached, cached);
  };
  const Spec some = floats({std::min<std::int64_t>(threads, 2) * (24 << 10)});
  const double added = took(ops::Add{}, {some, some}).bytes();
  set(Work::elementwise, took(ops::Unary<math::Unary::tanh>{}, {some}).flops(), added);
  set(Work::product,
      kReached * took(ops::Matmul{}, {floats({224, 256}), floats({256, 224})}).flops(), added);

  const Spec image = floats({2, 16, 16, 32});
  set(Work::convolution,
      kReached * took(ops::Conv2d{{.padding = 1}}, {image, floats({32, 3, 3, 32})}).flops(), added);
  set(Work::depthwise,
      took(ops::Conv2d{{.padding = 1, .groups = 32}}, {image, floats({32, 3, 3, 1})}).flops(),
      added);

  ops::Attention attention;
  attention.heads = attention.kv_heads = 2;
  attention.scale = 0.125;
  attention.causal = true;
  const Spec q = floats({2, 96, 64});
  set(Work::attention, took(attention, {q, q, q}).flops(), added);
  set(Work::cell,
      kLonger *
          took(ops::Lstm{}, {floats({32, 8, 4 * 96}), floats({4 * 96, 96})}, {.in_place = true})
              .flops(),
      added);

  const Spec table = floats({128, 256});
  const Took norm = took(ops::LayerNorm{}, {table, floats({256}), floats({256})});
  const Took sum = took(ops::SumTo{Shape({256})}, {table});
  set(Work::reduction, took(ops::Softmax{}, {table}).flops(), bytes_a_second({norm, sum}));
  const Spec rows = floats({1024, 64});
  set(Work::gather, m.speed(Work::elementwise).flops,
      took(ops::Gather{}, {rows, ids(768)}, {.below = 1024}).bytes());
  set(Work::scatter, m.speed(Work::elementwise).flops,
      took(ops::ScatterAdd{.size = 1024}, {ids(768), floats({768, 64})}, {.below = 1024}).bytes());

  const Spec long_one = floats({static_cast<std::int64_t>(kStreamed / (3 * sizeof(float)))});
  m.bytes = std::max(m.bytes, memory ? took(ops::Add{}, {long_one, long_one}).bytes()
                                     : kMemory * m.speed(Work::elementwise).cached);
  measure_far(m);
}

template <class F>
void each_speed(Machine& m, F&& f) {
  for (Machine::Speed& s : m.speeds) {
    f(s.flops);
    f(s.cached);
    f(s.far);
  }
  f(m.bytes);
}

// Times that the system took a core from a thread of ours to give it to others.
long preemptions() {
  rusage used{};
  return getrusage(RUSAGE_SELF, &used) == 0 ? used.ru_nivcsw : 0;
}

// Before the first round.
Machine unmeasured() {
  Machine m;
  m.speeds.fill({0, 0, 0});
  m.bytes = 0;
  return m;
}

// How many times as fast all threads are as one, at most kinds of work.
double usual_gain(const Machine& one, const Machine& all) {
  std::vector<double> gains;
  for (std::size_t i = 0; i < one.speeds.size(); ++i)
    gains.push_back(all.speeds[i].flops / one.speeds[i].flops);
  const auto middle = gains.begin() + static_cast<std::ptrdiff_t>(gains.size() / 2);
  std::nth_element(gains.begin(), middle, gains.end());
  return std::max(1.0, *middle);
}

// All threads at work at once: each waits for the others.
void meet(int threads) {
  const auto all = static_cast<std::size_t>(threads);
  std::atomic<std::size_t> here{0};
  pool::parallel_for(all, 1, [&](std::size_t begin, std::size_t end) {
    here.fetch_add(end - begin);
    while (here.load() < all) std::this_thread::yield();
  });
}

}  // namespace

bool is_disturbed(const Machine& one, const Machine& all) {
  const double gain = kDisturbed * usual_gain(one, all);
  return std::ranges::any_of(all.speeds, [&, i = std::size_t{0}](const Machine::Speed& s) mutable {
    return s.flops < gain * one.speeds[i++].flops;
  });
}

Machine together(const Machine& one, const Machine& all, bool quiet) {
  Machine m = all;
  m.sound = quiet && !is_disturbed(one, all);
  const double gain = m.sound ? 1 : 1 + (all.threads - 1) * kEachMore;
  for (std::size_t i = 0; i < m.speeds.size(); ++i) {
    m.speeds[i].flops = std::max(m.speeds[i].flops, gain * one.speeds[i].flops);
    m.speeds[i].cached = std::max(m.speeds[i].cached, gain * one.speeds[i].cached);
  }
  // Memory is often as fast with one thread: only where nothing else is known it is guessed.
  const auto memory = [&](double one_has, double all_have) {
    return std::max(all_have, all_have > 0 ? one_has : gain * one_has);
  };
  m.bytes = memory(one.bytes, all.bytes);
  for (std::size_t i = 0; i < m.speeds.size(); ++i)
    m.speeds[i].far = memory(one.speeds[i].far, all.speeds[i].far);
  return m;
}

// Rounds, some time apart: whoever else uses the machine is not at it all the time. One thread is measured well on
// any machine, as some short try has a core for itself. All of them at once are not; where waking them takes too long
// to be the machine's own doing, or others were given their cores in between, their speed follows from that of one.
Machine measured(std::uint64_t room) {
  const bool memory = room >= 2 * kStreamed;
  const InLittleMemory little(room);
  const int threads = pool::threads();
  Machine one = unmeasured();
  pool::parallel_for(2, 1, [&](std::size_t begin, std::size_t) {  // inside a region kernels stay in
    for (int round = 0; begin == 0 && round < kRounds; ++round)   // one thread
      measure(one, 1, memory);
  });
  Machine m = one;
  m.seconds_per_fork = 0;
  if (threads > 1) {
    Machine all = unmeasured();
    all.threads = threads;
    double fork = 1;
    bool quiet = false;
    for (int round = 0; round < kMostRounds && (round < kRounds || is_disturbed(one, all));
         ++round) {
      const long before = preemptions();
      fork = std::min(fork, fastest([&] { meet(threads); }));
      if (fork > kLongestFork) continue;
      measure(all, threads, memory);
      quiet = quiet || preemptions() - before <= kPreemptions;
    }
    m = together(one, all, quiet);
    if (fork <= kLongestFork) m.seconds_per_fork = rounded(1e9 * fork) * 1e-9;
  }
  m.threads = threads;
  m.cache = near_cache(threads);
  m.shared_cache = rounded(shared_cache(threads));
  each_speed(m, [](double& x) { x = rounded(x); });
  m.sound = m.sound && memory;
  return m;
}

}  // namespace ebb::plan
