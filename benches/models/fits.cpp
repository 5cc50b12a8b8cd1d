// Does it fit, did it say so first, is it the same? Models × budgets × batches, each run in a
// process of its own under a kernel limit equal to its budget.
//
//   bench_fits [--quick] [--json] [--only=MODEL,…]
#include <string>
#include <vector>

#include "models/same_bits.hpp"
#include "models/sweep.hpp"

namespace {

using namespace ebb::zoo;

struct Size {
  const char* model;
  std::int64_t batches[2];
  bool once;  // each weight is used once for an example: parts give the same bits
};
constexpr Size kSizes[] = {{"mlp", {128, 512}, true},
                           {"cnn", {32, 96}, true},
                           {"gpt", {8, 24}, true},
                           {"lstm", {64, 256}, false}};

std::string of(int wrong, int all) { return formatted("%d of %d", wrong, all); }

void summary(const Tally& t, Report& report) {
  if (!t.unlimited.empty()) report.say("  no limit by the kernel: %s\n", t.unlimited.c_str());
  report.check("no run is killed or fails", t.cells > 0 && t.killed + t.failed == 0,
               formatted("%d killed, %d failed, of %d", t.killed, t.failed, t.cells));
  report.check("the process stays in its budget (VmHWM)", t.over_budget == 0,
               of(t.over_budget, t.cells) + " above");
  report.check("the arena is what was forecast, to the byte", t.arena_differs == 0,
               of(t.arena_differs, t.cells) + " differ");
  report.check("the process's peak is within 2% or 1 MiB of its forecast", t.process_differs == 0,
               of(t.process_differs, t.cells) +
                   formatted(" are not; at most %.1f%% (%+.2f MiB)", t.worst_process * 100,
                             static_cast<double>(t.worst_process_bytes) / (1 << 20)));
  report.check("more memory never costs time (3% noise)", t.rises == 0,
               of(t.rises, t.cells) + formatted(" rise; at most %.1f%%", t.worst_rise * 100));
  report.check("one hash for a model, a batch and its parts, over budgets", t.hash_differs == 0,
               of(t.hash_differs, t.hash_sets) + " differ");
}

}  // namespace

int main(int argc, char** argv) {
  if (is_cell(argc, argv)) return 0;
  Report report("fits", argc, argv);
  report.say("%-9s %9s %9s %9s %9s   %9s %9s  %s\n%-9s %9s %9s %9s %9s   %9s %9s\n", "model",
             "budget", "forecast", "peak", "arena", "forecast", "step", "how", "", "MiB", "MiB",
             "MiB", "MiB", "ms", "ms");
  const int budgets = report.quick() ? 4 : 13;
  const double seconds = report.quick() ? 0.1 : 0.4;
  Tally tally;
  struct Later {
    Sweep sweep;
    Size size;
    std::int64_t batch;
    bool first;
  };
  std::vector<Later> swept;
  for (const Size& size : kSizes) {
    if (!report.wanted(size.model)) continue;
    for (const std::int64_t batch : size.batches) {
      const bool first = batch == size.batches[0];
      if (report.quick() && !first) continue;
      Sweep sweep(size.model, batch, budgets, seconds);
      if (!sweep.planned()) {
        report.check(sweep.name() + ": a plan", false, sweep.plan().error);
        continue;
      }
      sweep.run(report, tally);
      swept.push_back({std::move(sweep), size, batch, first});
    }
  }
  report.say("\n");
  summary(tally, report);
  for (const Later& l : swept) {
    check_refusal(l.sweep, l.size.model, l.batch, report);
    if (l.first) check_same_bits(l.size.model, l.batch, l.size.once, report);
  }
  return report.exit_code();
}
