// How long planning takes, and what packing loses. For models of growing size: the time of compile()
// with recomputation of the whole batch alone, which is one search; with everything, which is
// one for each size of parts and way of spilling; and how far the arenas of plans from the smallest
// budget to none lie above their largest load. And the largest model there is a preset for, GPT-2 XL
// (1.5 billion parameters), from the call of compile() to a step that can be taken, in a budget that
// sends its parameters and optimizer state to the file.
//
//   bench_plan [--quick] [--json] [--only=MODEL,…]
#include <algorithm>
#include <chrono>
#include <string>

#include "ebb/ebb.hpp"
#include "models/report.hpp"
#include "models/task.hpp"

namespace {

using namespace ebb;
using namespace ebb::zoo;

struct Model {
  const char* name;
  std::int64_t batch;
};
constexpr Model kModels[] = {{"mlp", 128},  {"cnn", 96},   {"gpt", 24},
                             {"lstm", 256}, {"gpt12", 16}, {"gpt-124m", 0}};
constexpr double kSecondsPerCall = 50e-6, kLeastSeconds = 0.05;  // 50 ms for 1,000, 1 s for 10,000
constexpr double kMostAboveLoad = 0.01;
constexpr char kXl[] =
    R"({"kind": "gpt", "vocab": 50257, "layers": 48, "width": 1600, "heads": 25, "positions": 1024,
        "tied": true, "batch": 1, "time": 1024, "optimizer": "adamw"})";
constexpr std::uint64_t kXlBudget = std::uint64_t{4} << 30;
constexpr double kXlSeconds = 3;

template <class F>
double seconds(int rounds, F&& f) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  return best;
}

double above_load(const plan::Plan& p) {
  std::uint64_t load = 0;
  for (const plan::Program& program : p.programs) load = std::max(load, program.schedule.load);
  if (load == 0) return 0;
  return static_cast<double>(p.arena + p.resident - p.carry_bytes) / static_cast<double>(load) - 1;
}

// Nothing runs, and no parameter takes its bytes; but the file takes its room on the disk.
void extra_large(Report& report) {
  Task task(kXl);
  std::size_t calls = 0;
  try {
    const double took = seconds(report.quick() ? 1 : 3, [&] {
      auto step = compile(task.spec(), {.memory = ByteSize{kXlBudget}}, task.step());
      calls = step.plan().programs[0].trace.calls.size();
    });
    report.say("%-14s %7zu %12s %12.1f\n", "gpt2-xl 4 GiB", calls, "", took * 1e3);
    report.metric("gpt2-xl 4 GiB", "everything", took, "s");
    report.check("GPT-2 XL in 4 GiB is compiled in at most 3 s", took <= kXlSeconds,
                 formatted("%.2f s", took));
  } catch (const BudgetTooSmall&) {
    throw;
  } catch (const Error& e) {  // a disk without room for it
    report.say("%-14s %s\n", "gpt2-xl 4 GiB", e.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Report report("plan", argc, argv);
  report.say("%-14s %7s %12s %12s %8s %12s\n%-14s %7s %12s %12s %8s %12s\n", "model", "calls",
             "recompute", "everything", "plans", "arena above", "", "", "ms", "ms", "", "load, %");
  const int rounds = report.quick() ? 2 : 5;
  double worst = 0;
  bool quick = true;
  int models = 0;
  for (const Model& m : kModels) {
    if (!report.wanted(m.name)) continue;
    Task task(m.name, m.batch);
    std::size_t calls = 0;
    const double one = seconds(rounds, [&] {
      auto step = compile(task.spec(), {.split = false, .gradient_blocks = false, .spill = false},
                          task.step());
      calls = step.plan().programs[0].trace.calls.size();
    });
    std::vector<plan::FrontierPoint> ways;
    const double all = seconds(report.quick() ? 1 : 3, [&] {
      ways = compile(task.spec(), {}, task.step()).plan().frontier;
    });
    double most = 0;
    const std::size_t stride = std::max<std::size_t>(1, ways.size() / (report.quick() ? 3 : 10));
    int plans = 0;
    for (std::size_t i = 0; i < ways.size(); i += stride) {
      // A little more than the load that the frontier names.
      const CompileOptions o{.memory = ByteSize{ways[i].budget + ways[i].budget / 64}};
      try {
        most = std::max(most, above_load(compile(task.spec(), o, task.step()).plan()));
        ++plans;
      } catch (const BudgetTooSmall&) {  // the least of the frontier, packed
      }
    }
    ++models;
    worst = std::max(worst, most);
    const bool in_time =
        one <= std::max(kLeastSeconds, kSecondsPerCall * static_cast<double>(calls));
    quick &= in_time;
    const std::string name = m.batch ? formatted("%s %ld", m.name, m.batch) : m.name;
    report.say("%-14s %7zu %12.1f %12.1f %8d %12.2f\n", name.c_str(), calls, one * 1e3, all * 1e3,
               plans, most * 100);
    report.metric(name, "calls", static_cast<double>(calls), "");
    report.metric(name, "recompute only", one, "s");
    report.metric(name, "everything", all, "s");
    report.metric(name, "arena above load", most, "");
  }
  if (report.wanted("gpt2-xl")) extra_large(report);
  report.say("\n");
  if (models == 0 && report.wanted("gpt2-xl")) return report.exit_code();
  report.check("one search takes at most 50 ms for each 1,000 calls", models > 0 && quick,
               formatted("of %d models", models));
  report.check("arenas are at most 1% above the largest load",
               models > 0 && worst <= kMostAboveLoad, formatted("%.2f%%", worst * 100));
  return report.exit_code();
}
