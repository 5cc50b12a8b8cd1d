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

  // Speed in short pieces, one way and the other in turn, so that whoever else is on the machine
  // slows both: the same rows at once, and in chunks.
  const std::int64_t piece = rows / (report.quick() ? 4 : 10);
  const Tensor some = x.rows(0, piece);
  auto whole = compile({{"x", some.spec()}}, {.recompute = false, .split = false, .spill = false},
                       [&](const Batch& b) { return gradients(score(b["x"]), {b["x"]})[0]; });
  bool same = true;
  std::vector<double> ratios;
  double in_chunks = 0, at_once = 0;
  for (int round = 0; round < (report.quick() ? 9 : 21); ++round) {
    const std::int64_t row = round % (rows / piece) * piece;
    const Tensor part = x.rows(row, row + piece);
    const double begin = now();
    const Tensor a = input_gradients(score, part);
    const double middle = now();
    const Tensor b = whole(Batch{{"x", part}});
    const double end = now();
    same &= std::memcmp(a.raw(), b.raw(), a.spec().bytes()) == 0;
    same &= std::memcmp(a.raw(), chunked.rows(row, row + piece).raw(), a.spec().bytes()) == 0;
    if (round == 0) continue;  // memory is new to the process
    in_chunks += middle - begin;
    at_once += end - middle;
    ratios.push_back((middle - begin) / (end - middle));
  }
  std::sort(ratios.begin(), ratios.end());
  const double ratio = ratios[ratios.size() / 2];
  const double row_seconds =
      1 / static_cast<double>(piece * static_cast<std::int64_t>(ratios.size()));
  report.say("%ld rows of %ld: %.2f µs a row in chunks, %.2f µs at once\n", rows, kColumns,
             in_chunks * row_seconds * 1e6, at_once * row_seconds * 1e6);
  report.compare("chunks", "rows a second", 1 / (in_chunks * row_seconds), "1/s", "all at once",
                 1 / ratio);
  report.metric("chunks", "beside input and output", beside * 1048576, "B");
  report.check("at most 64 MiB beside input and output", beside <= kMostBeside,
               formatted("%.1f MiB", beside));
  report.check("at most 5% slower than the whole at once", ratio <= kMostTime,
               formatted("%.2f times (%.2f to %.2f)", ratio, ratios[ratios.size() / 4],
                         ratios[ratios.size() * 3 / 4]));
  report.check("the same bits", same, same ? "equal" : "different");
  return report.exit_code();
}
