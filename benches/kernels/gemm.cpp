// Ebb's matrix product against oneDNN's sgemm, interleaved in one run, and against the FMA peak.
//   bench_gemm [--quick] [--json] [--more] [FILTER]
// Each reading times enough calls to be worth timing; Ebb and oneDNN take turns, and the best
// reading of each counts. The peak is read between their turns too: on a shared machine it changes
// from one second to the next. --more adds shapes that issue no requirement: skinny, tiny, batched,
// odd.
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "benches/kernels/peak.hpp"
#include "dnnl.h"
#include "ebb/base/pool.hpp"
#include "ebb/kernels/gemm.hpp"

namespace {

using ebb::kernels::Gemm;
using ebb::kernels::GemmBatch;
using ebb::kernels::Storage;

struct Shape {
  std::size_t m, n, k;
  const char* transposes;  // of A and B, N or T
  std::size_t batch = 1;
  std::size_t slack = 0;  // added to each leading dimension
};

const std::vector<Shape> kShapes = {
    {2048, 2048, 2048, "NN"}, {1024, 3072, 768, "NT"},  {1024, 768, 3072, "NN"},
    {3072, 768, 1024, "TN"},  {1024, 50304, 768, "NT"}, {1024, 768, 50304, "NN"},
    {50304, 768, 1024, "TN"}, {512, 1024, 256, "NT"},   {256, 1024, 256, "NT"},
    {128, 128, 64, "NT"},     {32, 1024, 784, "NN"},    {333, 777, 555, "NN"}};

const std::vector<Shape> kMore = {{77, 1000, 513, "NN"},    {1, 4096, 1024, "NT"},
                                  {1, 4096, 1024, "NN"},    {4096, 1, 1024, "NN"},
                                  {64, 64, 64, "NN"},       {64, 64, 64, "TT"},
                                  {8, 2048, 512, "NT"},     {16, 2048, 512, "NN"},
                                  {24, 1024, 1024, "NT"},   {256, 256, 64, "NT", 96},
                                  {256, 64, 256, "NN", 96}, {1024, 1024, 1024, "NN"},
                                  {1024, 1024, 1024, "TT"}, {1000, 1000, 1000, "TN", 1, 1},
                                  {512, 10, 1024, "NT"},    {1024, 10, 512, "TN"},
                                  {10, 1024, 512, "TN"},    {200, 200, 200, "NN"},
                                  {4096, 64, 64, "NN"},     {64, 4096, 64, "NT"},
                                  {512, 512, 4096, "TN"},   {4, 4096, 4096, "NN"},
                                  {1, 32, 16, "NT"},        {16, 32, 1, "TN"},
                                  {128, 784, 512, "TN"},    {784, 128, 512, "TN"}};

// f32 values, on huge pages where the system has them.
struct Values {
  float* data = nullptr;
  std::size_t bytes = 0;
  explicit Values(std::size_t count) {
    constexpr std::size_t kHuge = 2 << 20;
    bytes = (count * sizeof(float) + kHuge - 1) / kHuge * kHuge;
    data = static_cast<float*>(std::aligned_alloc(kHuge, bytes));
    if (!data) std::abort();
    madvise(data, bytes, MADV_HUGEPAGE);
    std::minstd_rand random(7);
    for (std::size_t i = 0; i < count; ++i) {
      data[i] = static_cast<float>(random() % 2048) / 1024.0f - 1.0f;
    }
  }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;
  ~Values() { std::free(data); }
};

double seconds(const std::function<void()>& f, int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) f();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return time.count() / calls;
}

struct Reading {
  double best, median;
};

Reading summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

// One side's turn, once the other's threads have gone to sleep.
double turn(const auto& f, int calls) {
  usleep(300);
  f();
  return seconds(f, calls);
}

struct Options {
  bool quick = false, json = false, more = false;
  std::string filter;
};

struct Totals {
  double log_sum = 0, least = 1e9;
  std::string least_name;
  int count = 0;
};

std::string name_of(const Shape& s, int threads) {
  std::string name = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
                     " " + s.transposes;
  if (s.batch > 1) name.append(" *").append(std::to_string(s.batch));
  if (s.slack > 0) name.append(" ld+").append(std::to_string(s.slack));
  name.append(" ").append(std::to_string(threads)).append("t");
  return name;
}

void measure(const Shape& s, int threads, const Options& options, Totals& totals) {
  const bool a_t = s.transposes[0] == 'T', b_t = s.transposes[1] == 'T';
  const std::size_t lda = (a_t ? s.m : s.k) + s.slack, ldb = (b_t ? s.k : s.n) + s.slack;
  const std::size_t ldc = s.n + s.slack;
  const std::size_t a_size = (a_t ? s.k : s.m) * lda, b_size = (b_t ? s.n : s.k) * ldb;
  const Values a(a_size * s.batch), b(b_size * s.batch), c(s.m * ldc * s.batch);
  GemmBatch product{.first = {.m = s.m,
                              .n = s.n,
                              .k = s.k,
                              .a = {a.data, Storage::f32, lda, a_t},
                              .b = {b.data, Storage::f32, ldb, b_t},
                              .c = c.data,
                              .ldc = ldc},
                    .count = s.batch,
                    .a_stride = a_size,
                    .b_stride = b_size,
                    .c_stride = s.m * ldc};
  ebb::pool::set_threads(threads);
  omp_set_num_threads(threads);
  const Values scratch(gemm_scratch(product) / sizeof(float) + 16);
  const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(scratch.data), scratch.bytes);
  const auto ours = [&] {
    if (product.count == 1) {
      gemm(product.first, bytes);
    } else {
      gemm(product, bytes);
    }
  };
  const auto theirs = [&] {
    for (std::size_t i = 0; i < s.batch; ++i) {
      dnnl_sgemm(s.transposes[0], s.transposes[1], static_cast<dnnl_dim_t>(s.m),
                 static_cast<dnnl_dim_t>(s.n), static_cast<dnnl_dim_t>(s.k), 1.0f,
                 a.data + i * a_size, static_cast<dnnl_dim_t>(lda), b.data + i * b_size,
                 static_cast<dnnl_dim_t>(ldb), 0.0f, c.data + i * s.m * ldc,
                 static_cast<dnnl_dim_t>(ldc));
    }
  };
  ours();
  theirs();
  const double flops = 2.0 * static_cast<double>(s.m * s.n * s.k * s.batch);
  const double once = std::min(seconds(ours, 1), seconds(theirs, 1));
  const double budget = options.quick ? 0.5 : 3.0;
  const int calls = std::clamp(static_cast<int>(2e-3 / once), 1, 10'000);
  const int rounds =
      std::clamp(static_cast<int>(budget / 2 / (once * calls)), options.quick ? 2 : 6, 200);
  std::vector<double> our_times, their_times;
  double peak = 0;
  for (int round = 0; round < rounds; ++round) {  // the one that goes first changes each round
    if (round % 2 == 0) our_times.push_back(turn(ours, calls));
    their_times.push_back(turn(theirs, calls));
    if (round % 2 == 1) our_times.push_back(turn(ours, calls));
    peak = std::max(peak, ebb::bench::fma_peak(threads));
  }
  const Reading we = summary(our_times), they = summary(their_times);
  const double ratio = they.best / we.best, rate = flops / we.best * 1e-9;
  const std::string name = name_of(s, threads);
  if (options.json) {
    std::printf(
        "{\"bench\":\"gemm\",\"case\":\"%s\",\"metric\":\"gflops\",\"value\":%.2f,"
        "\"unit\":\"GFLOP/s\",\"against\":\"oneDNN sgemm\",\"ratio\":%.3f,"
        "\"fma_peak\":%.3f}\n",
        name.c_str(), rate, ratio, rate / peak);
  } else {
    std::printf("%-28s %8.1f %8.1f %7.2f %8.1f %6.0f%%   %4.0f%% %4.0f%%", name.c_str(), rate,
                flops / they.best * 1e-9, ratio, peak, 100 * rate / peak,
                100 * (we.median / we.best - 1), 100 * (they.median / they.best - 1));
    if (we.best < 20e-6) std::printf("   %.0f ns", we.best * 1e9);
    std::printf("\n");
  }
  std::fflush(stdout);
  totals.log_sum += std::log(ratio);
  ++totals.count;
  if (ratio < totals.least) {
    totals.least = ratio;
    totals.least_name = name;
  }
}

}  // namespace

int main(int argc, char** argv) {
  // A thread of OpenMP spins after its region, as Ebb's does: long enough to bridge the gap to the
  // next call, and not so long that it takes the core from the other side's turn.
  if (!std::getenv("GOMP_SPINCOUNT")) {
    setenv("GOMP_SPINCOUNT", "5000", 1);
    execv("/proc/self/exe", argv);
  }
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      options.quick = true;
    } else if (word == "--json") {
      options.json = true;
    } else if (word == "--more") {
      options.more = true;
    } else {
      options.filter = word.rfind("--only=", 0) == 0 ? word.substr(7) : word;
    }
  }
  if (!options.json) {
    std::printf("%-28s %8s %8s %7s %8s %7s   %s\n", "m x n x k, transposes, threads", "Ebb",
                "oneDNN", "ratio", "FMA peak", "of it", "spread (median over best: Ebb, oneDNN)");
  }
  Totals totals;
  for (const int threads : {1, 2}) {
    for (const auto* shapes : {&kShapes, &kMore}) {
      if (shapes == &kMore && !options.more) continue;
      for (const Shape& shape : *shapes) {
        const std::string name = std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" +
                                 std::to_string(shape.k) + " " + shape.transposes + " " +
                                 std::to_string(threads) + "t";
        if (name.find(options.filter) == std::string::npos) continue;
        measure(shape, threads, options, totals);
      }
    }
  }
  if (totals.count == 0) {
    std::fprintf(stderr, "gemm: no shape has \"%s\" in its name\n", options.filter.c_str());
    return 2;
  }
  const double mean = std::exp(totals.log_sum / totals.count);
  if (options.json) {
    std::printf(
        "{\"bench\":\"gemm\",\"case\":\"geometric mean\",\"metric\":\"ratio\","
        "\"value\":%.3f,\"unit\":\"x\",\"against\":\"oneDNN sgemm\",\"ratio\":%.3f}\n",
        mean, mean);
    std::printf(
        "{\"bench\":\"gemm\",\"case\":\"least: %s\",\"metric\":\"ratio\","
        "\"value\":%.3f,\"unit\":\"x\",\"against\":\"oneDNN sgemm\",\"ratio\":%.3f}\n",
        totals.least_name.c_str(), totals.least, totals.least);
  } else {
    std::printf("geometric mean of the ratios %.3f; least %.3f (%s)\n", mean, totals.least,
                totals.least_name.c_str());
  }
}
