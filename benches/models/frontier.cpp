// Activation memory against the time of a step: of a GPT with the batch in parts and kept together,
// of one whose batch is a single long row, and of LSTMs over long sequences. Planned and measured,
// as tables and pictures.
//
//   bench_frontier [--quick] [--json] [--only=gpt12,lstm-1000,…] [--judged]
//
// --judged: only the points that have a bar, which takes a quarter of the time.
//
// Activation memory is the arena without the sums that parts of a batch hand on.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "models/cell.hpp"
#include "models/chart.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb::zoo;

constexpr int kTurns = 2, kJudgedTurns = 7;  // steps of each that is timed
constexpr int kTries = 40;                   // for a budget with so much activation memory

struct Limit {  // at this fraction of the memory a step may take so much longer
  double divisor, more;
};
struct Curb {  // what the planner may do
  const char* name;
  const char* colour;
  bool split, spill;
  std::vector<Limit> limits;
};
struct Case {
  const char* model;
  std::int64_t batch;  // 0: the model's own
  std::vector<double> divisors;
  std::vector<Curb> curbs;
};

std::vector<Case> cases(bool quick) {
  const Curb parts{"batch in parts", "#1f6fb4", true, true, {{2, 0.03}, {4, 0.08}, {8, 0.15}}};
  const Curb whole{"batch whole", "#c4501b", false, true, {{2, 0.10}, {4, 0.30}, {8, 0.60}}};
  if (quick) {  // its batch has 4 rows
    Case small{"gpt4", 4, {1, 2, 4}, {parts, whole}};
    for (Curb& c : small.curbs) c.limits.pop_back();
    return {small};
  }
  const Curb kept{"without spill", "#1f6fb4", false, false, {{2, 0.08}, {4, 0.18}, {6, 0.32}}};
  const Curb spilled{"with spill", "#c4501b", false, true, {{12, 0.60}}};
  const auto sequence = [](double divisor, double more) {
    return std::vector<Curb>{{"over time", "#1f6fb4", false, true, {{divisor, more}}}};
  };
  return {{"gpt12", 16, {1, 1.5, 2, 3, 4, 6, 8, 12, 16}, {parts, whole}},
          {"gpt12-long", 0, {1, 2, 4, 6, 12}, {kept, spilled}},
          {"lstm-1000", 0, {1, 2, 4, 8, 20}, sequence(20, 0.25)},
          {"lstm-10000", 0, {1, 4, 20, 100}, sequence(100, 0.60)}};
}

std::uint64_t activations(const Outcome& out) { return out.arena - out.carry; }

struct Point {
  double divisor = 0;  // 0: the least at any price
  Cell cell;
  Outcome outcome;
  double ratio = 1;  // of its time to that with everything kept, which it took turns with
};

struct Side : Curb {
  std::vector<Point> points;
  Outcome least;
};

class Frontier {
 public:
  Frontier(Report& report, const Case& about, bool only_judged)
      : report_(report), case_(about), only_judged_(only_judged) {
    for (const Curb& curb : about.curbs) sides_.push_back({curb, {}, {}});
    cell_.model = about.model;
    cell_.batch = about.batch;
    cell_.steps = 1;  // to touch all pages
    cell_.limited = false;
    Cell whole = cell_;
    whole.split = false;
    kept_ = whole;
    all_ = planned(whole);
  }

  void run() {
    if (!all_.ok()) return report_.check("a plan without a budget", false, all_.error);
    for (Side& side : sides_) choose(side);
    for (Side& side : sides_)
      for (Point& p : side.points) measure(side, p);
    for (const Side& side : sides_) print(side);
    for (const Side& side : sides_) judge(side);
    draw();
  }

 private:
  static Outcome planned(Cell cell) {
    cell.steps = 0;
    return ebb::zoo::run(cell);
  }

  // The budget that leaves the plan a divisor-th of the activation memory: what parts hand on may
  // come on top, unless the planner then uses it for activations; as may the room of variables that
  // it sends to the file.
  void choose(Side& side) {
    Cell cell = cell_;
    cell.split = side.split;
    cell.spill = side.spill;
    side.least = planned(cell);
    cell.budget = side.least.minimum;
    side.least = planned(cell);
    Cell rows = cell;  // what parts hand on does not depend on their size
    rows.budget = 0;
    rows.rows = 1;
    const std::uint64_t carry = side.split ? planned(rows).carry : 0;
    const std::uint64_t fixed = all_.budget - all_.arena, full = activations(all_);
    const auto add = [&](double divisor) {
      const auto wanted = static_cast<std::uint64_t>(static_cast<double>(full) / divisor);
      std::uint64_t budget = fixed + wanted + carry;
      for (int tries = 0; tries < kTries; ++tries) {
        Point p{divisor, cell, {}, 1};
        p.cell.budget = divisor == 1 ? 0 : budget;
        if (divisor == 1) p.cell.split = false;
        p.outcome = planned(p.cell);
        if (!p.outcome.ok()) break;
        if (activations(p.outcome) <= wanted) {
          side.points.push_back(std::move(p));
          return;
        }
        // From where this plan just fits: between there and the budget there is no other.
        budget = std::min(budget, p.outcome.budget) - (activations(p.outcome) - wanted);
      }
      report_.say("  %s: no plan in 1/%g of the activation memory\n", side.name, divisor);
    };
    for (const double d : case_.divisors)
      if (d == 1 || !only_judged_ || judged(side, d)) add(d);
    if (side.least.ok() && !only_judged_) side.points.push_back({0, cell, side.least, 1});
  }

  static bool judged(const Side& side, double divisor) {
    return std::any_of(side.limits.begin(), side.limits.end(),
                       [&](const Limit& l) { return l.divisor == divisor; });
  }

  // In turns with everything kept, which both sides begin with.
  void measure(const Side& side, Point& p) const {
    const auto both =
        run_in_turns({kept_, p.cell}, judged(side, p.divisor) ? kJudgedTurns : kTurns);
    p.outcome = both[1];
    p.ratio = p.divisor == 1 ? 1 : turns_ratio(both[1], both[0]);
  }
  static double overhead(const Point& p) { return p.ratio - 1; }
  double planned_overhead(const Point& p) const {
    return p.outcome.forecast_seconds / all_.forecast_seconds - 1;
  }

  void print(const Side& side) const {
    report_.say("\n%s: %s\n", title().c_str(), side.name);
    report_.say("%6s %10s %10s  %9s %7s  %9s %7s  %s\n", "of", "act. MiB", "peak MiB", "plan ms",
                "", "step ms", "", "how");
    for (const Point& p : side.points) {
      const Outcome& out = p.outcome;
      const std::string of = p.divisor > 0 ? formatted("1/%g", p.divisor) : "least";
      if (!out.ok()) {
        report_.say("%6s %s\n", of.c_str(),
                    out.killed ? "killed" : out.error.substr(0, 120).c_str());
        continue;
      }
      report_.say("%6s %10.1f %10.1f  %9.1f %+6.1f%%  %9.1f %+6.1f%%  %s\n", of.c_str(),
                  mib(activations(out)), mib(out.peak), out.forecast_seconds * 1e3,
                  planned_overhead(p) * 100, out.step_seconds * 1e3, overhead(p) * 100,
                  out.chosen.c_str());
      const std::string name = formatted("%s, %s, %s", case_.model, side.name, of.c_str());
      report_.metric(name, "activation memory", static_cast<double>(activations(out)), "B");
      report_.compare(name, "time a step", out.step_seconds, "s", "everything kept",
                      1 / (1 + overhead(p)));
    }
    report_.say("smallest budget at any price: %llu bytes (%.1f MiB)\n",
                static_cast<unsigned long long>(side.least.minimum), mib(side.least.minimum));
    report_.metric(formatted("%s, %s", case_.model, side.name), "smallest budget",
                   static_cast<double>(side.least.minimum), "B");
  }

  void judge(const Side& side) {
    for (const Limit& limit : side.limits) {
      const auto at = std::find_if(side.points.begin(), side.points.end(),
                                   [&](const Point& p) { return p.divisor == limit.divisor; });
      const bool there = at != side.points.end() && at->outcome.ok();
      report_.check(formatted("%s, %s: 1/%g of the activations, %.0f%% more time at most",
                              case_.model, side.name, limit.divisor, limit.more * 100),
                    there && overhead(*at) <= limit.more,
                    there ? formatted("%+.1f%%", overhead(*at) * 100) : "no such run");
    }
  }

  void draw() const {
    Chart chart{title() + ": time of a step over activation memory",
                "activation memory, MiB",
                "more time than with everything kept",
                {},
                {}};
    for (const Side& side : sides_) {
      Curve measured{std::string(side.name) + ", measured", side.colour, false, {}};
      Curve plan{std::string(side.name) + ", planned", side.colour, true, {}};
      for (const Point& p : side.points) {
        if (!p.outcome.ok()) continue;
        measured.points.emplace_back(mib(activations(p.outcome)), overhead(p) * 100);
        plan.points.emplace_back(mib(activations(p.outcome)), planned_overhead(p) * 100);
      }
      for (Curve* c : {&measured, &plan}) {
        std::sort(c->points.begin(), c->points.end());
        chart.curves.push_back(*c);
      }
      for (const Limit& limit : side.limits)
        chart.bars.push_back({mib(activations(all_)) / limit.divisor, limit.more * 100,
                              formatted("1/%g, %.0f%%", limit.divisor, limit.more * 100),
                              side.colour});
    }
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
    std::string path(self, length > 0 ? static_cast<std::size_t>(length) : 0);
    for (int up = 0; up < 2; ++up) path.resize(std::min(path.rfind('/'), path.size()));
    path += report_.quick() || case_.batch ? "/frontier.svg"
                                           : formatted("/frontier-%s.svg", case_.model);
    std::ofstream(path) << chart.svg();
    report_.say("picture: %s\n", path.c_str());
  }

  std::string title() const {
    return case_.batch ? formatted("%s, batch %d", case_.model, static_cast<int>(case_.batch))
                       : std::string(case_.model);
  }

  Report& report_;
  const Case& case_;
  bool only_judged_;
  Cell cell_, kept_;
  Outcome all_;  // the batch whole, everything kept
  std::vector<Side> sides_;
};

}  // namespace

int main(int argc, char** argv) {
  if (is_cell(argc, argv)) return 0;
  Report report("frontier", argc, argv);
  const bool judged = std::any_of(argv, argv + argc, [](const char* argument) {
    return std::string_view(argument) == "--judged";
  });
  for (const Case& one : cases(report.quick()))
    if (report.wanted(one.model)) Frontier(report, one, judged).run();
  return report.exit_code();
}
