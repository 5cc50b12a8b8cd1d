// Many steps of ever new shapes in one process: memory does not grow.
//
//   bench_steady [--quick] [--json]
#include <random>
#include <vector>

#include "ebb/ebb.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb;
using namespace ebb::zoo;

constexpr std::int64_t kMostRows = 64;
// Without a search, so that there is time for many plans: most steps make one and drop another.
const CompileOptions kOptions{.recompute = false, .split = false, .spill = false, .plans = 16};
constexpr double kMostGrowth = 4096;  // bytes in 1,000 steps

struct Model {
  nn::Dense up, down;
  explicit Model(const nn::Init& init)
      : up(init / "up", 16, 32, {.activation = Activation::relu}), down(init / "down", 32, 2) {}
  Tensor operator()(const Tensor& x) const { return down(dropout(up(x), 0.1)); }
  void each(auto&& f) {
    f("up", up);
    f("down", down);
  }
};

// Bytes a step, by least squares.
double slope(const std::vector<std::pair<double, double>>& points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(points.size());
  for (const auto& [at, bytes] : points) x += at, y += bytes, xx += at * at, xy += at * bytes;
  return (n * xy - x * y) / (n * xx - x * x);
}

}  // namespace

int main(int argc, char** argv) {
  Report report("steady", argc, argv);
  const int steps = report.quick() ? 6'000 : 20'000, warm = steps / 5;
  Model model(nn::Init(1));
  optim::Adam adam(params(model), {.lr = 1e-3});
  const Tensor x = random::normal({kMostRows, 16}, 0, 1, 1, 1);
  const Tensor y = Tensor::zeros({kMostRows}, DType::i32);
  auto step = compile({{"x", x.spec()}, {"y", y.spec()}}, kOptions, [&](const Batch& b) {
    return adam.minimize(sparse_cross_entropy(model(b["x"]), b["y"]));
  });
  std::mt19937 draw(1);
  std::vector<std::pair<double, double>> points;
  points.reserve(static_cast<std::size_t>(steps));
  for (int i = 0; i < steps; ++i) {
    const auto rows = 1 + static_cast<std::int64_t>(draw() % kMostRows);
    step(Batch{{"x", x.rows(0, rows)}, {"y", y.rows(0, rows)}});
    if (i >= warm && i % 20 == 0) points.emplace_back(i, process::resident());
  }
  const double growth = slope(points) * 1000;
  report.say("%d steps of 1 to %ld rows: %.1f to %.1f MiB resident\n", steps, kMostRows,
             points.front().second / 1048576, points.back().second / 1048576);
  report.metric("random shapes", "growth in 1,000 steps", growth, "B");
  report.check("at most 4 KiB in 1,000 steps", growth <= kMostGrowth, formatted("%.0f B", growth));
  return report.exit_code();
}
