// linear_cross_entropy's way back (loss, dx, dweight) in several sizes of scratch, beside the same
// with all logits at once: three products with a loss between them. 1,024 rows of 768.
//
//   bench_linear_ce [--quick] [--json]
//
// The ways take turns; of each the best reading counts. GFLOP/s are those of three products,
// whatever was done; `peak` is the share of the FMA peak read between the turns.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ebb/base/pool.hpp"
#include "ebb/kernels/gemm.hpp"
#include "ebb/kernels/linear_cross_entropy.hpp"
#include "kernels/bandwidth.hpp"
#include "kernels/peak.hpp"

namespace {

using namespace ebb;
using namespace ebb::kernels;
using bench::Buffer;

constexpr std::size_t kRows = 1024, kWidth = 768;

std::unique_ptr<Buffer> values(std::size_t count, double scale) {
  auto buffer = std::make_unique<Buffer>(count * sizeof(float));
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    buffer->as<float>()[i] =
        static_cast<float>(scale * (static_cast<double>(state >> 8) * 0x1p-23 - 1));
  }
  return buffer;
}

struct Problem {
  LinearShape shape;
  std::unique_ptr<Buffer> x, weight, dx, dweight, logits, scratch;
  std::vector<std::int64_t> labels;
  float sum = 0;
  std::int64_t count = 0;

  explicit Problem(std::size_t classes)
      : shape{kRows, classes, kWidth, 4, true},
        x(values(kRows * kWidth, 1)),
        weight(values(classes * kWidth, 0.05)),
        dx(values(kRows * kWidth, 0)),
        dweight(values(classes * kWidth, 0)),
        logits(values(kRows * classes, 0)),
        scratch(values(std::size_t{17} << 20, 0)),
        labels(kRows) {
    for (std::size_t i = 0; i < kRows; ++i)
      labels[i] = static_cast<std::int64_t>(i * 7919 % classes);
  }

  std::span<std::byte> bytes(std::size_t n) { return {scratch->as<std::byte>(), n}; }

  void whole() {
    const auto operand = [](Buffer& b, std::size_t ld, bool turned) {
      return Operand{b.as<float>(), Storage::f32, ld, turned};
    };
    const std::size_t classes = shape.classes;
    const Gemm products[] = {
        {.m = kRows, .n = classes, .k = kWidth, .a = operand(*x, kWidth, false),
         .b = operand(*weight, kWidth, true), .c = logits->as<float>(), .ldc = classes},
        {.m = kRows, .n = kWidth, .k = classes, .a = operand(*logits, classes, false),
         .b = operand(*weight, kWidth, false), .c = dx->as<float>(), .ldc = kWidth},
        {.m = classes, .n = kWidth, .k = kRows, .a = operand(*logits, classes, true),
         .b = operand(*x, kWidth, false), .c = dweight->as<float>(), .ldc = kWidth}};
    gemm(products[0], bytes(gemm_scratch(products[0])));
    float* all = logits->as<float>();
    sparse_cross_entropy(all, labels.data(), kRows, classes, {}, &sum, &count,
                         bytes(loss_scratch<float>(kRows)));
    sparse_cross_entropy_backward(all, labels.data(), kRows, classes, {}, 1.0f, all);
    gemm(products[1], bytes(gemm_scratch(products[1])));
    gemm(products[2], bytes(gemm_scratch(products[2])));
  }

  void tiled(std::size_t most) {
    linear_cross_entropy_backward<float, std::int64_t>(
        shape, x->as<float>(), weight->as<float>(), labels.data(), {},
        {1.0f, dx->as<float>(), dweight->as<float>(), true}, &sum, &count,
        bytes(linear_scratch(shape, linear_tiles(shape, most))));
  }
};

void measure(std::size_t classes, int rounds, bool json) {
  Problem p(classes);
  const std::size_t sizes[] = {0, 64, 32, 8};  // MiB of scratch; 0: all logits at once
  double best[4] = {1e9, 1e9, 1e9, 1e9}, peak = 0;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < 4; ++i) {
      peak = std::max(peak, bench::fma_peak(pool::threads()));
      const double start = bench::seconds_now();
      sizes[i] == 0 ? p.whole() : p.tiled(sizes[i] << 20);
      best[i] = std::min(best[i], bench::seconds_now() - start);
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    const LinearTiles t = linear_tiles(p.shape, sizes[i] << 20);
    const double mib = sizes[i] == 0 ? static_cast<double>(kRows * classes * 4) / (1 << 20)
                                     : static_cast<double>(linear_scratch(p.shape, t)) / (1 << 20);
    const double rate = 6.0 * static_cast<double>(kRows * classes * kWidth) / best[i] / 1e9;
    const std::string name = std::to_string(classes) + " classes, " +
                             (sizes[i] == 0 ? "all logits" : std::to_string(sizes[i]) + " MiB");
    if (json) {
      std::printf("{\"bench\": \"linear-ce\", \"case\": \"%s\", \"metric\": \"time\", \"value\": "
                  "%.1f, \"unit\": \"ms\", \"against\": \"all logits at once\", \"ratio\": %.3f}\n",
                  name.c_str(), best[i] * 1e3, best[0] / best[i]);
    } else {
      std::printf("%-26s %7.1f MiB  %8.1f ms  %4.0f GFLOP/s  peak %.2f  x %.3f of all logits\n",
                  name.c_str(), mib, best[i] * 1e3, rate, rate / peak, best[0] / best[i]);
    }
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false, json = false;
  for (int i = 1; i < argc; ++i) {
    quick |= std::strcmp(argv[i], "--quick") == 0;
    json |= std::strcmp(argv[i], "--json") == 0;
  }
  measure(50304, quick ? 2 : 7, json);
  if (quick) return 0;
  measure(262144, 3, json);
}
