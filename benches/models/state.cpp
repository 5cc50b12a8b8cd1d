// Parameters, gradients and optimizer state that do not fit: a 12-layer MLP of width 2048 with
// Adam, 800 MB of state, trained in 160 MiB, beside the same without a budget.
//
//   bench_state [--quick] [--json]
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "models/cell.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb::zoo;

constexpr std::uint64_t kBudget = std::uint64_t{160} << 20;
constexpr double kMostTime = 2;

void line(const char* name, const Outcome& out, const Report& report) {
  if (!out.ok()) {
    report.say("%-10s %s\n", name, out.killed ? "killed" : out.error.substr(0, 300).c_str());
    return;
  }
  report.say("%-10s %9.1f %9.1f %9.1f %9.0f %9.0f  %s  %s\n", name, mib(out.process), mib(out.peak),
             mib(out.group_peak), out.forecast_seconds * 1e3, out.step_seconds * 1e3,
             out.hash.substr(0, 12).c_str(), out.chosen.c_str());
  report.metric(name, "peak of the process", static_cast<double>(out.peak), "B");
}

}  // namespace

int main(int argc, char** argv) {
  if (is_cell(argc, argv)) return 0;
  Report report("state", argc, argv);
  Cell free;
  free.model = "mlp12";
  free.batch = 512;
  free.steps = report.quick() ? 3 : 6;
  Cell tight = free;
  tight.budget = kBudget;
  free.split = false;  // nothing but plain training, whatever the planner thinks of parts
  Outcome without, within;
  std::vector<double> ratios;
  for (int round = 0; round < (report.quick() ? 1 : 5); ++round) {
    without = run(free);
    within = run(tight);
    if (!without.ok() || !within.ok()) break;
    ratios.push_back(within.step_seconds / without.step_seconds);
  }
  report.say("%-10s %9s %9s %9s %9s %9s  %-12s  %s\n%-10s %9s %9s %9s %9s %9s\n", "budget",
             "forecast", "peak", "charged", "forecast", "step", "sha-256", "how", "", "MiB", "MiB",
             "MiB", "ms", "ms");
  line("none", without, report);
  line("160 MiB", within, report);
  if (!within.unlimited.empty())
    report.say("no limit by the kernel: %s\n", within.unlimited.c_str());
  const bool ran = without.ok() && within.ok();
  report.check("it trains in 160 MiB, and stays there", ran && within.peak <= kBudget,
               ran ? formatted("VmHWM %.1f MiB, the smallest budget is %.1f MiB", mib(within.peak),
                               mib(within.minimum))
                   : "no");
  report.check("the same bits", ran && within.hash == without.hash, within.hash.substr(0, 16));
  std::sort(ratios.begin(), ratios.end());
  const double ratio = ratios.empty() ? 0 : ratios[ratios.size() / 2];
  report.check(
      "at most twice the time of a step", ran && ratio <= kMostTime,
      ran ? formatted("%.2f times (%.2f to %.2f)", ratio, ratios.front(), ratios.back()) : "no");
  if (ran)
    report.compare("160 MiB", "time a step", within.step_seconds, "s", "no budget", 1 / ratio);
  return report.exit_code();
}
