// Loss and gradients of a last layer with many classes, compiled: all logits at once (a product,
// then sparse_cross_entropy) beside linear_cross_entropy in tiles, whose size the planner chooses:
// in the smallest budget, in one with 64 MiB of scratch, without one. 1,024 rows of 768.
//
//   bench_linear_ce [--quick] [--json] [--only=50304,262144]
//
// The ways take turns; of each the best reading counts. GFLOP/s are those of three products,
// whatever was done; `peak` is the share of the FMA peak read between the turns.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "benches/kernels/peak.hpp"
#include "ebb/ebb.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb;
using namespace ebb::zoo;

constexpr std::int64_t kRows = 1024, kWidth = 768;

struct Limit {  // with so much scratch at most, so many times the time of all logits at most
  double mib, time;
};
constexpr Limit kRoomy{64, 1.0}, kTight{8, 1.45};
constexpr int kRoomyMiB = 56;  // above the smallest budget, which has 8 of scratch or less

class FrontierPoint {
 public:
  // The smallest budget for this way alone, which nothing but less scratch makes fit.
  static constexpr CompileOptions kOnlyTiles{.recompute = false, .split = false, .spill = false};

  FrontierPoint(std::string name, bool tiles, const Variable& weight, const BatchSpec& spec,
                const CompileOptions& options)
      : name(std::move(name)), step_(compile(spec, options, [=](const Batch& b) {
          const Tensor& x = b["x"];
          const Loss loss =
              tiles ? linear_cross_entropy(x, weight, b["y"])
                    : sparse_cross_entropy(matmul(x, weight, {.transpose_b = true}), b["y"]);
          return gradients(loss.sum * (1.0 / kRows), {x, weight});
        })) {}

  void run(const Batch& batch) {
    const auto start = std::chrono::steady_clock::now();
    step_(batch);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  std::uint64_t minimum() const { return step_.plan().minimum; }
  std::uint64_t arena() const { return step_.plan().arena; }
  std::uint64_t scratch() const {
    std::uint64_t most = 0;
    for (const plan::Step& s : step_.plan().programs[0].schedule.steps)
      most = std::max(most, s.scratch);
    return most;
  }

  std::string name;
  double best = 1e9;  // seconds

 private:
  Step<std::vector<Tensor>> step_;
};

void measure(std::int64_t classes, int rounds, Report& report) {
  const Variable weight = nn::Init(1).make("weight", {classes, kWidth}, nn::normal(0, 0.02));
  const Batch batch{{"x", random::normal({kRows, kWidth}, 0, 1, 1, 2)},
                    {"y", cast(random::uniform({kRows}, 0, double(classes), 1, 3), DType::i32)}};
  const BatchSpec spec{{"x", batch["x"].spec()}, {"y", batch["y"].spec()}};

  // The budget is that of the process, so these come first.
  constexpr std::uint64_t kSlack = 1 << 20;
  CompileOptions tight = FrontierPoint::kOnlyTiles, roomy = FrontierPoint::kOnlyTiles;
  const std::uint64_t minimum = FrontierPoint("", true, weight, spec, tight).minimum() + kSlack;
  tight.memory = ByteSize{minimum};
  roomy.memory = ByteSize{minimum + (std::uint64_t{kRoomyMiB} << 20)};
  std::vector<std::unique_ptr<FrontierPoint>> ways;
  const auto add = [&](const char* name, bool tiles, const CompileOptions& options) {
    ways.push_back(std::make_unique<FrontierPoint>(name, tiles, weight, spec, options));
  };
  add("tiles, smallest budget", true, tight);
  add("tiles, roomy budget", true, roomy);
  add("tiles, no budget", true, {});
  add("all logits at once", false, {});
  double peak = 0;
  for (int round = 0; round < rounds; ++round)
    for (const auto& way : ways) {
      peak = std::max(peak, bench::fma_peak(pool::threads()));
      way->run(batch);
    }

  const FrontierPoint &least = *ways[0], &within = *ways[1], &all = *ways[3];
  const std::string title = std::to_string(classes) + " classes";
  report.say("%s\n%-26s %11s %11s %10s %8s %6s %7s\n", title.c_str(), "", "scratch MiB",
             "arena MiB", "ms", "GF/s", "peak %", "time");
  for (const auto& way : ways) {
    const double rate = 6.0 * kRows * kWidth * static_cast<double>(classes) / way->best / 1e9;
    report.say("%-26s %11.1f %11.1f %10.1f %8.1f %6.0f %6.2fx\n", way->name.c_str(),
               mib(way->scratch()), mib(way->arena()), way->best * 1e3, rate, 100 * rate / peak,
               way->best / all.best);
    const std::string name = title + ", " + way->name;
    report.compare(name, "time", way->best, "s", "all logits at once", all.best / way->best);
    report.metric(name, "scratch", static_cast<double>(way->scratch()), "B");
    report.metric(name, "arena", static_cast<double>(way->arena()), "B");
  }
  const auto judge = [&](const FrontierPoint& way, const Limit& limit) {
    report.check(formatted("%s, %s: %.0f MiB, %.2f times the time", title.c_str(), way.name.c_str(),
                           limit.mib, limit.time),
                 mib(way.scratch()) <= limit.mib && way.best <= limit.time * all.best,
                 formatted("%.1f MiB, %.3f", mib(way.scratch()), way.best / all.best));
  };
  judge(within, kRoomy);
  judge(least, kTight);
}

}  // namespace

int main(int argc, char** argv) try {
  Report report("linear-ce", argc, argv);
  if (report.wanted("50304")) measure(50304, report.quick() ? 3 : 7, report);
  if (report.wanted("262144") && !report.quick()) measure(262144, 3, report);
  return report.exit_code();
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_linear_ce: %s\n", e.what());
  return 1;
}
