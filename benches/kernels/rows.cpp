// Softmax, norms, dropout, losses and optimizer steps against the memory bandwidth of the machine.
//
//   bench_rows [--quick] [--json]
//
// Each kernel runs on arrays that do not fit in any cache, in turn with a yardstick: a loop that
// reads and writes as many streams and does next to nothing with them, with ordinary stores and
// with stores past the caches; the better of the two counts. GB/s are medians over the rounds,
// counting each array that has to be read and each that has to be written once.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "ebb/base/pool.hpp"
#include "ebb/kernels/batch_norm.hpp"
#include "ebb/kernels/dropout.hpp"
#include "ebb/kernels/loss.hpp"
#include "ebb/kernels/norm.hpp"
#include "ebb/kernels/softmax.hpp"
#include "ebb/kernels/update.hpp"

namespace {

using namespace ebb;

constexpr std::size_t kElements = std::size_t{8192} * 2048;  // 64 MiB of f32

// Pages are touched here, so that no run pays for them.
float* make_array(std::size_t elements, float low, float high) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  const std::size_t bytes = (elements * sizeof(float) + kHuge - 1) / kHuge * kHuge;
  auto* p = static_cast<float*>(std::aligned_alloc(kHuge, bytes));
  if (p == nullptr) std::abort();
  madvise(p, bytes, MADV_HUGEPAGE);
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < elements; ++i) {
    state = state * 1664525u + 1013904223u;
    p[i] = low + (high - low) * static_cast<float>(state >> 8) * 0x1p-24f;
  }
  return p;
}

#if defined(__x86_64__)
using Vec = __m128;
Vec get(const float* p) { return _mm_loadu_ps(p); }
Vec plus(Vec a, Vec b) { return _mm_add_ps(a, b); }
void put(float* p, Vec v) { _mm_storeu_ps(p, v); }
void put_past(float* p, Vec v) { _mm_stream_ps(p, v); }
void fence() { _mm_sfence(); }
#else
using Vec = float __attribute__((vector_size(16)));
Vec get(const float* p) {
  Vec v;
  std::memcpy(&v, p, 16);
  return v;
}
Vec plus(Vec a, Vec b) { return a + b; }
void put(float* p, Vec v) { std::memcpy(p, &v, 16); }
void put_past(float* p, Vec v) { put(p, v); }
void fence() {}
#endif

float* arrays[7];  // all of kElements

// kReads arrays are read; kWrites are written: new ones, or the first of those read.
template <int kReads, int kWrites, bool kInPlace, bool kPast>
void streams(std::size_t begin, std::size_t end) {
  Vec total[4] = {};
  for (std::size_t i = begin; i < end; i += 16) {
    for (std::size_t j = 0; j < 4; ++j) {
      const std::size_t k = i + 4 * j;
      Vec sum = get(arrays[0] + k);
      for (int r = 1; r < kReads; ++r) sum = plus(sum, get(arrays[r] + k));
      for (int w = 0; w < kWrites; ++w) {
        float* out = arrays[kInPlace ? w : kReads + w] + k;
        if (kPast) {
          put_past(out, sum);
        } else {
          put(out, sum);
        }
      }
      if (kWrites == 0) total[j] = plus(total[j], sum);
    }
  }
  if (kPast) fence();
  asm volatile("" ::"x"(total[0]), "x"(total[1]), "x"(total[2]), "x"(total[3]));
}

using Stream = void (*)(std::size_t, std::size_t);
struct Yardstick {
  const char* name;
  int streams;
  std::vector<Stream> ways;
};

const Yardstick kRead{"read", 1, {streams<1, 0, false, false>}};
const Yardstick kRead2{"2R", 2, {streams<2, 0, false, false>}};
const Yardstick kCopy{"copy", 2, {streams<1, 1, false, false>, streams<1, 1, false, true>}};
const Yardstick kTriad{"2R1W", 3, {streams<2, 1, false, false>, streams<2, 1, false, true>}};
const Yardstick kInPlace2{"2R1W in place", 3, {streams<2, 1, true, false>}};
const Yardstick kInPlace3{"3R2W in place", 5, {streams<3, 2, true, false>}};
const Yardstick kInPlace4{"4R3W in place", 7, {streams<4, 3, true, false>}};

double seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Bench {
  bool json = false;
  int rounds = 15;
  double worst = 1e9;

  void run(const std::string& name, const Yardstick& yardstick, const std::function<void()>& f) {
    std::vector<double> kernel;
    std::vector<std::vector<double>> ways(yardstick.ways.size());
    f();
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t w = 0; w < ways.size(); ++w) {
        ways[w].push_back(seconds([&] {
          pool::parallel_for(kElements, 32768, [&](std::size_t begin, std::size_t end) {
            yardstick.ways[w](begin, end);
          });
        }));
      }
      kernel.push_back(seconds(f));
    }
    const double bytes =
        static_cast<double>(yardstick.streams) * static_cast<double>(kElements * sizeof(float));
    double best = 1e9;
    for (const auto& way : ways) best = std::min(best, median(way));
    const double value = bytes / median(kernel) * 1e-9, against = bytes / best * 1e-9;
    worst = std::min(worst, value / against);
    const std::string title = name + " " + std::to_string(pool::threads()) + "t";
    if (json) {
      std::printf(
          "{\"bench\":\"kernels\",\"case\":\"%s\",\"metric\":\"bandwidth\",\"value\":%.2f,"
          "\"unit\":\"GB/s\",\"against\":\"%s\",\"ratio\":%.3f}\n",
          title.c_str(), value, yardstick.name, value / against);
    } else {
      std::printf("%-44s %8.1f %8.1f  %-14s %6.2f\n", title.c_str(), value, against, yardstick.name,
                  value / against);
    }
    std::fflush(stdout);
  }
};

void norms(Bench& bench, std::size_t n) {
  const std::size_t rows = kElements / n;
  const std::string size = std::to_string(rows) + "x" + std::to_string(n) + " f32";
  float *x = arrays[0], *dy = arrays[1], *out = arrays[2];
  std::vector<float> weight(n, 1.5f), bias(n, 0.5f), dweight(n), dbias(n);
  bench.run("layer_norm " + size, kCopy,
            [&] { kernels::layer_norm(x, weight.data(), bias.data(), out, rows, n, 1e-5); });
  bench.run("layer_norm_backward " + size, kTriad, [&] {
    kernels::layer_norm_backward(x, weight.data(), dy, out, dweight.data(), dbias.data(), rows, n,
                                 1e-5);
  });
  bench.run("rms_norm " + size, kCopy,
            [&] { kernels::rms_norm(x, weight.data(), out, rows, n, 1e-5); });
  bench.run("rms_norm_backward " + size, kTriad, [&] {
    kernels::rms_norm_backward(x, weight.data(), dy, out, dweight.data(), rows, n, 1e-5);
  });
}

void softmaxes(Bench& bench, std::size_t n) {
  const std::size_t rows = kElements / n;
  const std::string size = std::to_string(rows) + "x" + std::to_string(n) + " f32";
  float *x = arrays[0], *dy = arrays[1], *out = arrays[2];
  bench.run("softmax " + size, kCopy, [&] { kernels::softmax(x, out, rows, n); });
  bench.run("softmax_backward " + size, kTriad,
            [&] { kernels::softmax_backward(x, dy, out, rows, n); });
  bench.run("log_softmax " + size, kCopy, [&] { kernels::log_softmax(x, out, rows, n); });
  bench.run("log_softmax_backward " + size, kTriad,
            [&] { kernels::log_softmax_backward(x, dy, out, rows, n); });
}

void batch_norms(Bench& bench, std::size_t channels, std::vector<std::byte>& scratch) {
  const std::size_t rows = kElements / channels;
  const std::string size = std::to_string(rows) + "x" + std::to_string(channels) + " f32";
  float *x = arrays[0], *out = arrays[2];
  std::vector<float> weight(channels, 1.5f), bias(channels, 0.5f), mean(channels), var(channels);
  scratch.resize(kernels::batch_norm_scratch<float>(rows, channels));
  bench.run("batch_norm_stats " + size, kRead, [&] {
    kernels::batch_norm_stats(x, mean.data(), var.data(), rows, channels, std::span(scratch));
  });
  bench.run("batch_norm_apply " + size, kCopy, [&] {
    kernels::batch_norm_apply(x, mean.data(), var.data(), weight.data(), bias.data(), out, rows,
                              channels, 1e-5);
  });
}

void losses(Bench& bench, std::size_t classes, std::vector<std::byte>& scratch) {
  const std::size_t rows = kElements / classes;
  const std::string size = std::to_string(rows) + "x" + std::to_string(classes) + " f32";
  std::vector<std::int32_t> labels(rows, 3);
  scratch.resize(kernels::loss_scratch<float>(rows));
  bench.run("sparse_cross_entropy " + size, kRead, [&] {
    float sum = 0;
    std::int64_t count = 0;
    kernels::sparse_cross_entropy(arrays[0], labels.data(), rows, classes, {}, &sum, &count,
                                  std::span(scratch));
  });
  bench.run("mse " + size, kRead2, [&] {
    float sum = 0;
    kernels::element_loss({kernels::ElementLoss::squared}, arrays[0], arrays[1], rows, classes,
                          &sum, std::span(scratch));
  });
}

void updates(Bench& bench, std::vector<std::byte>& scratch) {
  // Steps of size zero, so that the values stay what they are however often it runs.
  const kernels::Update<float> all[] = {{arrays[0], arrays[3], {arrays[1], arrays[2]}, kElements}};
  const std::span<const kernels::Update<float>> tensors(all);
  const std::string size = std::to_string(kElements) + " f32";
  bench.run("sgd " + size, kInPlace2, [&] { kernels::sgd(tensors, {.lr = 0}); });
  bench.run("sgd momentum " + size, kInPlace3,
            [&] { kernels::sgd(tensors, {.lr = 0, .momentum = 0.5}); });
  bench.run("adam " + size, kInPlace4, [&] { kernels::adam(tensors, {.lr = 0}); });
  bench.run("adamw " + size, kInPlace4,
            [&] { kernels::adam(tensors, {.lr = 0, .weight_decay = 0.1, .decoupled = true}); });
  bench.run("rmsprop " + size, kInPlace3, [&] { kernels::rmsprop(tensors, {.lr = 0}); });
  bench.run("adagrad " + size, kInPlace3, [&] { kernels::adagrad(tensors, {.lr = 0}); });
  scratch.resize(kernels::sum_of_squares_scratch(tensors));
  double sink = 0;
  bench.run("sum_of_squares " + size, kRead,
            [&] { sink += kernels::sum_of_squares(tensors, std::span(scratch)); });
  asm volatile("" ::"x"(sink));
}

}  // namespace

int main(int argc, char** argv) {
  Bench bench;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      bench.json = true;
    } else if (std::strcmp(argv[i], "--quick") == 0) {
      bench.rounds = 5;
    } else {
      std::fprintf(stderr, "usage: bench_rows [--quick] [--json]\n");
      return 2;
    }
  }
  for (auto& array : arrays) array = make_array(kElements, 0.01f, 1.0f);
  if (!bench.json) {
    std::printf("%-44s %8s %8s  %-14s %6s\n", "case", "GB/s", "limit", "streams", "ratio");
  }
  std::vector<std::byte> scratch;
  for (const std::size_t n : {256, 1024, 8192}) norms(bench, n);
  for (const std::size_t n : {128, 1024, 16384}) softmaxes(bench, n);
  for (const std::size_t n : {64, 1024}) batch_norms(bench, n, scratch);
  losses(bench, 1024, scratch);
  bench.run("dropout " + std::to_string(kElements) + " f32", kCopy, [&] {
    kernels::dropout(arrays[0], arrays[1], kElements, 0.1, Draws{{1, 2}, 3, 0});
  });
  updates(bench, scratch);
  if (!bench.json) std::printf("lowest ratio %.2f\n", bench.worst);
}
