// What loading costs a training run: an mlp's steps of some 10 ms on batches that are made of files, shuffled and
// ahead of time, beside the same steps on batches that are already there. In turns, so that both see the same machine.
//
//   bench_loading [--quick] [--json] [--only=npy,csv,jsonl]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <functional>
#include <vector>

#include "data/files.hpp"
#include "ebb/ebb.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb;
using namespace ebb::input;

constexpr std::int64_t kBatch = 256, kColumns = 128;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of all threads: what others on the machine change less than the time that passes.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2),
                   all.end());
  return all[all.size() / 2];
}

// An mlp of this width, and its step.
struct Training {
  nn::Mlp model;
  optim::AdamW adam;
  Step<Loss> step;

  Training(std::int64_t width, const BatchSpec& spec)
      : model(nn::Init(1), {kColumns, width, width, 10}),
        adam(params(model), {.lr = 1e-3}),
        step(compile(spec, {}, [this](const Batch& b) {
          return adam.minimize(sparse_cross_entropy(model(b["x"]), b["y"]));
        })) {}
};

// A step takes 10 ms on this machine where the mlp is as wide: loading is a matter of batches, whatever they cost.
std::int64_t width_of_steps(const Dataset& data) {
  constexpr std::int64_t kTried = 1024;
  constexpr double kWanted = 10e-3;
  Training tried(kTried, data.spec());
  auto walk = data.walk(1);
  const Batch batch = *walk.next();
  std::vector<double> seconds;
  for (int i = 0; i < 30; ++i) seconds.push_back(seconds_of([&] { tried.step(batch); }));
  const double width = static_cast<double>(kTried) * std::sqrt(kWanted / median(seconds));
  return std::max<std::int64_t>(64, std::llround(width / 64) * 64);
}

// Turns of steps with and without loading; a turn is long beside the few batches that are made ahead.
void measure(zoo::Report& report, const std::string& what, const Dataset& rows, int turns) {
  constexpr int kSteps = 40;
  const Dataset data = rows.shuffle(1).batch(kBatch, {.drop_last = true}).prefetch(2);
  static const std::int64_t width = width_of_steps(data);
  Training training(width, data.spec());
  auto& step = training.step;
  std::vector<Batch> there;
  for (const Batch& b : data.epoch(0)) {
    there.push_back(b);
    if (there.size() == kSteps) break;
  }
  auto walk = data.walk(1'000'000);
  const auto loaded = [&] {
    for (int i = 0; i < kSteps; ++i) step(*walk.next());
  };
  const auto given = [&] {
    for (int i = 0; i < kSteps; ++i) step(there[static_cast<std::size_t>(i) % there.size()]);
  };
  loaded();
  given();
  std::vector<double> ratios, cpu_ratios, milliseconds;
  for (int turn = 0; turn < turns; ++turn) {
    const double start = cpu_seconds(), with = seconds_of(loaded), between = cpu_seconds();
    const double without = seconds_of(given);
    ratios.push_back(with / without);
    cpu_ratios.push_back((between - start) / (cpu_seconds() - between));
    milliseconds.push_back(without / kSteps * 1e3);
  }
  std::sort(ratios.begin(), ratios.end());
  const double ratio = median(ratios);
  report.compare(what, "time of a step", median(milliseconds) * ratio, "ms", "batches in memory",
                 1 / ratio);
  report.check(
      what + ": with loading, at most 1.02 times without", ratio <= 1.02,
      zoo::formatted("%.3f (%.3f to %.3f), of CPU time %.3f, steps of %.1f ms", ratio,
                     ratios.front(), ratios.back(), median(cpu_ratios), median(milliseconds)));
}

}  // namespace

int main(int argc, char** argv) {
  zoo::Report report("loading", argc, argv);
  const Folder folder;
  const int turns = report.quick() ? 7 : 21;
  const std::int64_t rows = report.quick() ? 20'000 : 60'000;
  const data::StoreOptions cached{false, folder.path("cache")};
  if (report.wanted("npy")) {
    const std::string x = folder.path("x.npy");
    save_npy(x, random::normal({rows, kColumns}, 0, 1, 1, 1));
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < rows; ++i) labels.push_back(static_cast<std::int32_t>(i % 10));
    const Tensor y = Tensor::from(labels, {rows});
    measure(report, "npy, in memory", Dataset::of({{"x", load_npy(x)}, {"y", y}}), turns);
    measure(report, "npy, in its file", Dataset::of({{"x", data::npy_rows(x)}, {"y", y}}), turns);
  }
  if (report.wanted("csv")) {
    const std::string path = folder.path("a.csv");
    write_classes_csv(path, rows, kColumns);
    data::CsvOptions options{.target = "y"};
    measure(report, "csv, in memory", data::csv(path, options).rows, turns);
    options.store = cached;
    measure(report, "csv, in the cache's file", data::csv(path, options).rows, turns);
  }
  if (report.wanted("jsonl")) {
    const std::string path = folder.path("a.jsonl");
    write_classes_jsonl(path, rows, kColumns);
    measure(report, "jsonl, in memory", data::jsonl(path).rows, turns);
    measure(report, "jsonl, in the cache's file", data::jsonl(path, {.store = cached}).rows, turns);
  }
  return report.exit_code();
}
