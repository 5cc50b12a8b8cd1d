// d output / d input of many rows: in chunks that fit, beside the whole batch at once.
//
//   bench_input_gradients [--quick] [--json]
#include <algorithm>
#include <chrono>
#include <cstring>
#include <ebb/ebb.hpp>
#include <vector>

#include "models/report.hpp"

namespace {

using namespace ebb;
using namespace ebb::zoo;

constexpr std::int64_t kColumns = 64;
constexpr double kMostBeside = 64, kMostTime = 1.05;  // MiB; of the whole at once

struct Mlp {  // 64 → 256 → 256 → 1
  nn::Dense first, second, out;
  explicit Mlp(const nn::Init& init)
      : first(init / "first", kColumns, 256, {.activation = Activation::tanh}),
        second(init / "second", 256, 256, {.activation = Activation::tanh}),
        out(init / "out", 256, 1) {}
  Tensor operator()(const Tensor& x) const { return out(second(first(x))); }
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int main(int argc, char** argv) {
  Report report("input-gradients", argc, argv);
  const std::int64_t rows = report.quick() ? 200'000 : 1'000'000;
  const Mlp model(nn::Init(1));
  const Tensor x = random::normal({rows, kColumns}, 0, 1, 1, 1);
  const auto score = [&](const Tensor& part) { return model(part); };

  // Memory first, while nothing else has been taken.
  process::reset_peak();
  const std::uint64_t before = process::resident();
  Tensor chunked = input_gradients(score, x);
  const double beside = static_cast<double>(process::peak_resident() - before) / 1048576 -
                        static_cast<double>(x.spec().bytes()) / 1048576;

  auto whole = compile({{"x", x.spec()}}, {.recompute = false, .split = false, .spill = false},
                       [&](const Batch& b) { return gradients(score(b["x"]), {b["x"]})[0]; });
  const Batch batch{{"x", x}};
  bool same = false;
  std::vector<double> ratios;
  double best_chunked = 1e9, best_whole = 1e9;
  for (int round = 0; round < (report.quick() ? 3 : 5); ++round) {
    double begin = now();
    chunked = input_gradients(score, x);
    const double in_chunks = now() - begin;
    begin = now();
    const Tensor at_once = whole(batch);
    const double all = now() - begin;
    same = std::memcmp(chunked.raw(), at_once.raw(), x.spec().bytes()) == 0;
    ratios.push_back(in_chunks / all);
    best_chunked = std::min(best_chunked, in_chunks);
    best_whole = std::min(best_whole, all);
  }
  std::sort(ratios.begin(), ratios.end());
  const double ratio = ratios[ratios.size() / 2];
  report.say("%ld rows of %ld: %.0f ms in chunks, %.0f ms at once\n", rows, kColumns,
             best_chunked * 1e3, best_whole * 1e3);
  report.metric("chunks", "rows a second", static_cast<double>(rows) / best_chunked, "1/s");
  report.metric("chunks", "beside input and output", beside * 1048576, "B");
  report.check("at most 64 MiB beside input and output", beside <= kMostBeside,
               text("%.1f MiB", beside));
  report.check("at most 5% slower than the whole at once", ratio <= kMostTime,
               text("%.2f times (%.2f to %.2f)", ratio, ratios.front(), ratios.back()));
  report.check("the same bits", same, same ? "equal" : "different");
  return report.exit_code();
}
