// How fast the tape is where nothing but overhead counts: 16 → 32 → 2 at batch 1 with Adam, eager,
// one thread, and how much is asked of the heap and of the system once it runs.
//
//   bench_eager [--quick] [--json]
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "ebb/ebb.hpp"

namespace {
std::atomic<long> news{0};
}

void* operator new(std::size_t size) {
  news.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

using namespace ebb;

// Bytes the process has from the system: our own blocks, and the heap's.
std::size_t from_system() {
  const auto heap = mallinfo2();
  return memory::held() + heap.arena + heap.hblkhd;
}

double steps_a_second(const auto& step, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  long steps = 0;
  double passed = 0;
  do {
    for (int i = 0; i < 256; ++i) step();
    steps += 256;
    passed = std::chrono::duration<double>(Clock::now() - start).count();
  } while (passed < seconds);
  return static_cast<double>(steps) / passed;
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false, json = false;
  for (int i = 1; i < argc; ++i) {
    quick |= !std::strcmp(argv[i], "--quick");
    json |= !std::strcmp(argv[i], "--json");
  }
  pool::set_threads(1);
  const nn::Init init(1);
  nn::Sequential model(nn::Dense(init / "up", 16, 32, {.activation = Activation::relu}),
                       nn::Dense(init / "down", 32, 2));
  optim::Adam adam(params(model));
  const Tensor x = random::uniform({1, 16}, -1, 1, 1, 1);
  const Tensor label = Tensor::of<std::int64_t>({1});
  const auto step = [&] {
    Tape tape;
    adam.minimize(sparse_cross_entropy(model(x), label));
  };
  const auto forward = [&] { sparse_cross_entropy(model(x), label); };

  steps_a_second(step, 0.2);
  const long news_before = news.load();
  const std::uint64_t calls_before = memory::system_calls();
  const std::size_t system_before = from_system();
  for (int i = 0; i < 10000; ++i) step();
  const double news_each = static_cast<double>(news.load() - news_before) / 10000;
  const auto grown = static_cast<double>(from_system() - system_before) +
                     static_cast<double>(memory::system_calls() - calls_before);

  const double seconds = quick ? 0.3 : 1;
  std::vector<double> trained, ran;
  for (int i = 0; i < 9; ++i) {
    trained.push_back(steps_a_second(step, seconds));
    ran.push_back(steps_a_second(forward, seconds / 3));
  }
  std::sort(trained.begin(), trained.end());
  std::sort(ran.begin(), ran.end());

  if (json) {
    const auto row = [](const char* metric, double value, const char* unit) {
      std::printf(
          "{\"bench\":\"eager\",\"case\":\"mlp 16-32-2 batch 1 adam 1t\",\"metric\":\"%s\","
          "\"value\":%.6g,\"unit\":\"%s\"}\n",
          metric, value, unit);
    };
    row("training steps", trained[4], "1/s");
    row("forward passes", ran[4], "1/s");
    row("heap allocations", news_each, "1/step");
    row("bytes asked of the system", grown, "B");
    return 0;
  }
  std::printf("eager: 16 → 32 relu → 2, cross-entropy, Adam, batch 1, one thread\n");
  std::printf("  training steps a second   %10.0f   (median of 9; %.0f to %.0f)\n", trained[4],
              trained.front(), trained.back());
  std::printf("  forward passes a second   %10.0f   (median of 9; %.0f to %.0f)\n", ran[4],
              ran.front(), ran.back());
  std::printf("  heap allocations a step   %10.1f\n", news_each);
  std::printf("  bytes asked of the system %10.0f   (over 10,000 steps)\n", grown);
  return 0;
}
