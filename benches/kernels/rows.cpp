// Softmax, norms, dropout, losses and optimizer steps against the memory bandwidth of the machine.
//
//   bench_rows [--quick] [--json] [words of a case's name]
//
// Each kernel runs on arrays that do not fit in any cache, in turn with a yardstick: loops that
// read and write as many streams and do next to nothing with them. A round runs every loop of the
// yardstick and, after each, the kernel, and takes the best of either; the ratio is the median over
// the rounds, and so are the GB/s, which count each array that has to be read and each that has to
// be written once. Beside the ratio stand its quartiles.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/batch_norm.hpp"
#include "ebb/kernels/dropout.hpp"
#include "ebb/kernels/loss.hpp"
#include "ebb/kernels/norm.hpp"
#include "ebb/kernels/softmax.hpp"
#include "ebb/kernels/update.hpp"
#include "ebb/kernels/update_8bit.hpp"
#include "kernels/bandwidth.hpp"

namespace {

using namespace ebb;

constexpr std::size_t kElements = std::size_t{8192} * 2048;  // 64 MiB of f32

using bench::Buffer;
using bench::median;

std::vector<std::unique_ptr<Buffer>> buffers;
float* arrays[4];  // all of kElements

void make_arrays() {
  for (auto& array : arrays) {
    buffers.push_back(std::make_unique<Buffer>(kElements * sizeof(float)));
    array = buffers.back()->as<float>();
    std::uint32_t state = 12345;
    for (std::size_t i = 0; i < kElements; ++i) {
      state = state * 1664525u + 1013904223u;
      array[i] = 0.01f + 0.99f * static_cast<float>(state >> 8) * 0x1p-24f;
    }
  }
}

// Reads kReads arrays and writes the first kWrites of them again.
template <int kReads, int kWrites>
void in_place(std::size_t begin, std::size_t end) {
  float total[16] = {};
  for (std::size_t i = begin; i < end; i += 16) {
    for (std::size_t k = 0; k < 16; ++k) {
      float sum = arrays[0][i + k];
      for (int r = 1; r < kReads; ++r) sum += arrays[r][i + k];
      for (int w = 0; w < kWrites; ++w) arrays[w][i + k] = sum * 0.25f;
      if (kWrites == 0) total[k] += sum;
    }
  }
  asm volatile("" ::"r"(total) : "memory");
}

struct Yardstick {
  const char* name;
  int streams, ways;
  std::function<void(int way)> pass;
};

Yardstick streams(bench::Streams kind) {
  return {bench::name(kind), bench::reads(kind) + bench::writes(kind), bench::variants(kind),
          [kind](int way) {
            const auto& b = buffers;
            bench::pass(kind, way, *b[0], *b[1], *b[3], *b[2], kElements * sizeof(float));
          }};
}

template <int kReads, int kWrites>
Yardstick streams_in_place(const char* name) {
  return {name, kReads + kWrites, 2, [](int way) {
            const std::size_t half = kElements / static_cast<std::size_t>(pool::threads());
            pool::parallel_for(
                kElements, way == 0 ? 32768 : half / 16 * 16,
                [](std::size_t begin, std::size_t end) { in_place<kReads, kWrites>(begin, end); });
          }};
}

const Yardstick kRead = streams(bench::Streams::read);
const Yardstick kCopy = streams(bench::Streams::copy);
const Yardstick kTriad = streams(bench::Streams::triad);
const Yardstick kRead2 = streams_in_place<2, 0>("2R");
const Yardstick kInPlace2 = streams_in_place<2, 1>("2R1W in place");
const Yardstick kInPlace3 = streams_in_place<3, 2>("3R2W in place");
const Yardstick kInPlace4 = streams_in_place<4, 3>("4R3W in place");

template <class F>
double seconds(F&& f) {
  const double start = bench::seconds_now();
  f();
  return bench::seconds_now() - start;
}

struct Bench {
  bool json = false;
  int rounds = 15;
  std::string wanted;
  double worst = 1e9;

  void run(const std::string& name, const Yardstick& yardstick, const std::function<void()>& f) {
    if (name.find(wanted) == std::string::npos) return;
    std::vector<double> kernel, limit, ratio;
    f();
    for (int round = 0; round < rounds; ++round) {
      double best = 1e9, own = 1e9;
      for (int way = 0; way < yardstick.ways; ++way) {
        best = std::min(best, seconds([&] { yardstick.pass(way); }));
        own = std::min(own, seconds(f));
      }
      limit.push_back(best);
      kernel.push_back(own);
      ratio.push_back(best / own);
    }
    std::sort(ratio.begin(), ratio.end());
    const double middle = median(ratio), low = ratio[ratio.size() / 4],
                 high = ratio[ratio.size() - 1 - ratio.size() / 4];
    const double bytes =
        static_cast<double>(yardstick.streams) * static_cast<double>(kElements * sizeof(float));
    const double value = bytes / median(kernel) * 1e-9, against = bytes / median(limit) * 1e-9;
    worst = std::min(worst, middle);
    const std::string title = name + " " + std::to_string(pool::threads()) + "t";
    if (json) {
      std::printf(
          "{\"bench\":\"kernels\",\"case\":\"%s\",\"metric\":\"bandwidth\",\"value\":%.2f,"
          "\"unit\":\"GB/s\",\"against\":\"%s\",\"ratio\":%.3f,\"ratio_low\":%.3f,"
          "\"ratio_high\":%.3f}\n",
          title.c_str(), value, yardstick.name, middle, low, high);
    } else {
      std::printf("%-44s %8.1f %8.1f  %-14s %6.2f  %.2f..%.2f\n", title.c_str(), value, against,
                  yardstick.name, middle, low, high);
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
    kernels::element_loss({kernels::PairLoss::squared}, arrays[0], arrays[1], rows, classes, &sum,
                          std::span(scratch));
  });
}

void updates(Bench& bench, std::vector<std::byte>& scratch) {
  // Steps of size zero, so that the values stay what they are however often it runs.
  const kernels::Update<float> all[] = {{arrays[0], arrays[3], {arrays[1], arrays[2]}, kElements}};
  const std::span<const kernels::Update<float>> tensors(all);
  const std::string size = std::to_string(kElements) + " f32";
  bench.run("sgd " + size, kInPlace2, [&] { kernels::update(tensors, kernels::SgdRule{.lr = 0}); });
  bench.run("sgd momentum " + size, kInPlace3,
            [&] { kernels::update(tensors, kernels::SgdRule{.lr = 0, .momentum = 0.5}); });
  bench.run("adam " + size, kInPlace4,
            [&] { kernels::update(tensors, kernels::AdamRule{.lr = 0}); });
  bench.run("adamw " + size, kInPlace4, [&] {
    kernels::update(tensors, kernels::AdamRule{.lr = 0, .weight_decay = 0.1, .decoupled = true});
  });
  // Beside what AdamW reads and writes.
  std::vector<std::byte> state(kernels::adam8_state_bytes(kElements));
  const kernels::Update8 packed = kernels::update8(arrays[0], arrays[3], state.data(), kElements);
  bench.run("adamw 8 bits " + size, kInPlace4, [&] {
    kernels::adam8({&packed, 1}, {{.lr = 0, .weight_decay = 0.1, .decoupled = true}, 1});
  });
  bench.run("rmsprop " + size, kInPlace3,
            [&] { kernels::update(tensors, kernels::RmspropRule{.lr = 0}); });
  bench.run("adagrad " + size, kInPlace3,
            [&] { kernels::update(tensors, kernels::AdagradRule{.lr = 0}); });
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
    } else if (argv[i][0] != '-') {
      bench.wanted = argv[i];
    } else {
      std::fprintf(stderr, "usage: bench_rows [--quick] [--json] [words of a case's name]\n");
      return 2;
    }
  }
  make_arrays();
  if (!bench.json) {
    std::printf("%-44s %8s %8s  %-14s %6s  %s\n", "case", "GB/s", "limit", "streams", "ratio",
                "quartiles");
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
