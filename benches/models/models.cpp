// Whole training steps: time, how much of the machine's multiply-adds they use, and memory without
// a budget. Each row in a process of its own; the peak is measured around each.
//
//   bench_models [--quick] [--json] [--only=ROW,…] [--rows=FILE]
//
// --rows: other sizes, in a file like benches/peers/rows.json.
#include <algorithm>
#include <string>

#include "benches/kernels/peak.hpp"
#include "ebb/base/pool.hpp"
#include "models/cell.hpp"
#include "models/report.hpp"
#include "models/row.hpp"

namespace {

using namespace ebb::zoo;

struct Bar {
  const char* row;
  double mib;       // of the process, without a budget
  double fraction;  // of the peak, where products are nearly all of it; 0: none asked
};
constexpr Bar kBars[] = {{"mlp-32", 64, 0},
                         {"mlp-128", 64, 0},
                         {"mlp-512", 64, 0},
                         {"lstm", 450, 0},
                         {"lstm-lm", 450, 0.75},
                         {"gpt-mini", 850, 0.8},
                         {"gpt-124m", 2662, 0.8},
                         {"gpt-long", 550, 0},
                         {"cnn", 320, 0},
                         {"cnn-wide", 280, 0.8},
                         {"attention", 96, 0},
                         {"linear-ce", 400, 0},
                         {"linear-ce-256k", 1843, 0},
                         {"input-grad", 192, 0},
                         {"tiny", 24, 0},
                         {"tiny-mlp", 24, 0},
                         {"embedding", 400, 0}};

double best_peak() {
  double best = 0;
  for (int i = 0; i < 20; ++i) best = std::max(best, ebb::bench::fma_peak(ebb::pool::threads()));
  return best;
}

}  // namespace

int main(int argc, char** argv) try {
  if (is_cell(argc, argv)) return 0;
  Report report("models", argc, argv);
  std::vector<NamedRow> rows = table_rows();
  bool judged = true;
  for (int i = 1; i < argc; ++i)
    if (const std::string argument = argv[i]; argument.starts_with("--rows=")) {
      rows = rows_of_file(argument.substr(7));
      judged = false;
    }
  report.say("%-15s %10s %14s %8s %6s %9s %9s\n%-15s %10s %14s %8s %6s %9s %9s\n", "row", "ms",
             "a second", "GF/s", "peak", "arena", "process", "", "a step", "", "", "%", "MiB",
             "MiB");
  for (const NamedRow& r : rows) {
    const char* const row = r.name.c_str();
    if (!report.wanted(row)) continue;
    Cell cell;
    cell.model = r.row.text();
    cell.steps = 2;
    cell.seconds = report.quick() ? 2 : 8;
    double peak = best_peak();
    const Outcome out = run(cell);
    peak = std::max(peak, best_peak());
    if (!out.ok()) {
      report.check(r.name + ": runs", false, out.error.substr(0, 200));
      continue;
    }
    const double rate = out.flops / out.step_seconds / 1e9;
    report.say("%-15s %10.4g %7.0f %-6s %8.1f %6.0f %9.1f %9.1f\n", row, out.step_seconds * 1e3,
               out.units / out.step_seconds, out.unit.c_str(), rate, 100 * rate / peak,
               mib(out.arena), mib(out.peak));
    report.metric(row, "time a step", out.step_seconds, "s");
    report.metric(row, (out.unit + " a second").c_str(), out.units / out.step_seconds, "1/s");
    report.compare(row, "products", rate * 1e9, "FLOP/s", "FMA peak", rate / peak);
    report.metric(row, "arena", static_cast<double>(out.arena), "B");
    report.metric(row, "peak of the process", static_cast<double>(out.peak), "B");
    const auto bar = std::find_if(std::begin(kBars), std::end(kBars),
                                  [&](const Bar& b) { return !std::strcmp(b.row, row); });
    if (!judged || bar == std::end(kBars)) continue;
    if (mib(out.peak) > bar->mib)
      report.check(formatted("%s: process at most %.0f MiB", row, bar->mib), false,
                   formatted("%.1f MiB", mib(out.peak)));
    if (rate / peak < bar->fraction)
      report.check(formatted("%s: at least %.0f%% of the peak", row, 100 * bar->fraction), false,
                   formatted("%.0f%%", 100 * rate / peak));
  }
  return report.exit_code();
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_models: %s\n", e.what());
  return 1;
}
