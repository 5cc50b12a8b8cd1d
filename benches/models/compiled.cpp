// A compiled step beside the same step eager, in turn, in one process: a tiny model where only
// overhead counts, and the models of the sweep.
//
//   bench_compiled [--quick] [--json]
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "ebb/exec/compile.hpp"
#include "models/report.hpp"
#include "models/task.hpp"

namespace {

using namespace ebb;
using namespace ebb::zoo;

constexpr double kNoise = 0.03;
constexpr double kTinyStepsASecond = 250'000;

double seconds_of(const auto& step, int times) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) step();
  return std::chrono::duration<double>(Clock::now() - start).count() / times;
}

struct Spread {
  std::vector<double> all;
  double at(double part) {
    std::sort(all.begin(), all.end());
    return all[static_cast<std::size_t>(part * static_cast<double>(all.size() - 1))];
  }
};

struct Times {
  double eager, compiled;    // medians
  double low, middle, high;  // of eager / compiled, round by round: quartiles and median
};

Times measure(const char* model, std::int64_t batch, double seconds) {
  Task first(model, batch), second(model, batch);
  const Batch data = first.batch();
  const auto fn = first.step();
  const auto eager = [&] {
    Tape tape;
    fn(data);
  };
  auto planned = compile(second.spec(), {}, second.step());
  const auto compiled = [&] { planned(data); };
  const double once = std::max(seconds_of(eager, 3), seconds_of(compiled, 3));
  const int times = std::max(1, static_cast<int>(0.02 / once));
  const int rounds = std::clamp(static_cast<int>(seconds / (2 * once * times)), 9, 201);
  Spread e, c, ratio;
  for (int i = 0; i < rounds; ++i) {
    e.all.push_back(seconds_of(eager, times));
    c.all.push_back(seconds_of(compiled, times));
    ratio.all.push_back(e.all.back() / c.all.back());
  }
  return {e.at(0.5), c.at(0.5), ratio.at(0.25), ratio.at(0.5), ratio.at(0.75)};
}

}  // namespace

int main(int argc, char** argv) {
  Report report("compiled", argc, argv);
  struct Case {
    const char* model;
    std::int64_t batch;
    bool quick;
  };
  constexpr Case kCases[] = {{"tiny", 1, true},  {"mlp", 128, true}, {"mlp", 512, false},
                             {"cnn", 32, true},  {"cnn", 96, false}, {"gpt", 8, true},
                             {"gpt", 24, false}, {"lstm", 64, true}, {"lstm", 256, false}};
  const int threads = pool::threads();
  report.say("%-10s %12s %12s  %12s  %s\n", "model", "eager µs", "compiled µs", "eager/comp.",
             "quartiles");
  double lowest = 1e9, tiny = 0;
  std::string slowest;
  for (const Case& c : kCases) {
    if (report.quick() && !c.quick) continue;
    pool::set_threads(c.batch == 1 ? 1 : threads);
    const Times t = measure(c.model, c.batch, report.quick() ? 2 : 8);
    const std::string name = std::string(c.model) + " " + std::to_string(c.batch);
    report.say("%-10s %12.1f %12.1f  %12.2f  %.2f to %.2f\n", name.c_str(), t.eager * 1e6,
               t.compiled * 1e6, t.middle, t.low, t.high);
    report.compare(name, "compiled steps", 1 / t.compiled, "1/s", "eager", t.middle);
    if (c.batch == 1) tiny = 1 / t.compiled;
    if (t.middle < lowest) slowest = name;
    lowest = std::min(lowest, t.middle);
  }
  report.check("tiny: 250,000 compiled steps a second on one thread", tiny >= kTinyStepsASecond,
               formatted("%.0f", tiny));
  report.check("a compiled step is never slower than eager (3% noise)", lowest >= 1 - kNoise,
               formatted("lowest ratio %.2f, %s", lowest, slowest.c_str()));
  return report.exit_code();
}
