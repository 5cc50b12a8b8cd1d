// Rows in little memory, under a kernel limit equal to the budget, beside the same without one: the
// same bits, and how much more time.
//
//   bench_little [--quick] [--json] [--only=ROW,…]
#include <algorithm>
#include <string>
#include <vector>

#include "models/cell.hpp"
#include "models/report.hpp"
#include "models/task.hpp"

namespace {

using namespace ebb::zoo;

struct Case {
  const char* row;
  std::uint64_t mib;
  double most_time;
  bool quick;
};
constexpr Case kCases[] = {{"mlp-512", 32, 1.1, true},    {"cnn", 96, 1.5, true},
                           {"lstm-lm", 96, 1.35, true},   {"gpt-mini", 128, 1.35, true},
                           {"gpt-124m", 512, 1.5, false}, {"gpt-124m", 256, 2.5, false}};

}  // namespace

int main(int argc, char** argv) {
  if (is_cell(argc, argv)) return 0;
  Report report("little", argc, argv);
  report.say("%-10s %7s %9s %9s %9s %9s %6s  %s\n", "row", "budget", "forecast", "peak", "step ms",
             "free ms", "ratio", "how");
  for (const Case& c : kCases) {
    if (report.quick() && !c.quick) continue;
    if (!report.wanted(c.row)) continue;
    Cell free;
    free.model = c.row;
    free.steps = 2;
    free.seconds = report.quick() ? 1 : 4;
    free.same_bits = true;
    Cell tight = free;
    tight.budget = c.mib << 20;
    Outcome without, within;
    std::vector<double> ratios;
    for (int round = 0; round < (report.quick() ? 1 : 3); ++round) {
      without = run(free);
      within = run(tight);
      if (!without.ok() || !within.ok()) break;
      ratios.push_back(within.step_seconds / without.step_seconds);
    }
    const std::string name = formatted("%s in %lu MiB", c.row, c.mib);
    if (ratios.empty()) {
      const Outcome& bad = without.ok() ? within : without;
      report.check(name, false, bad.killed ? "killed" : bad.error.substr(0, 240));
      continue;
    }
    std::sort(ratios.begin(), ratios.end());
    const double ratio = ratios[ratios.size() / 2];
    report.say("%-10s %7lu %9.1f %9.1f %9.1f %9.1f %6.2f  %s\n", c.row, c.mib, mib(within.process),
               mib(within.peak), within.step_seconds * 1e3, without.step_seconds * 1e3, ratio,
               within.chosen.c_str());
    report.compare(name, "time a step", within.step_seconds, "s", "no budget", 1 / ratio);
    if (!within.unlimited.empty())
      report.say("no limit by the kernel: %s\n", within.unlimited.c_str());
    report.check(name + ": stays below it", within.peak <= tight.budget,
                 formatted("%.1f MiB", mib(within.peak)));
    report.check(name + ": the same bits", within.hash == without.hash, within.hash.substr(0, 16));
    report.check(formatted("%s: at most %.2f times the time", name.c_str(), c.most_time),
                 ratio <= c.most_time, formatted("%.2f", ratio));
  }
  return report.exit_code();
}
