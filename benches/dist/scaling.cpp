// What several processes take, beside what was said before they ran.
//
//   bench_scaling [--quick] [--json] [--only=real,curve]
//     real    ranks on this machine, one thread each, beside the simulation of their timetables
//     curve   up to 1,000 hosts like this machine, on paper: two GPTs, two networks, a picture
//   bench_scaling --tables RANKS FASTER FILE what a GPT's ranks do, on hosts so many times as fast as this one, as a list;
//                                            and how long that takes on a network of 10 Gbit/s, 25 us (tools/smpi)
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "dist/ranks.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/dist/launch.hpp"
#include "ebb/dist/simulate.hpp"
#include "models/chart.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb;
using namespace ebb::zoo;

constexpr double kBar = 0.1;

const SharedRow kRows[] = {
    {"mlp",
     R"({"kind": "mlp", "sizes": [784, 1024, 1024, 10], "batch": 1024, "optimizer": "adam"})"},
    {"gpt",
     R"({"kind": "gpt", "vocab": 512, "layers": 4, "width": 256, "heads": 4, "positions": 128,)"
     R"( "tied": false, "batch": 24, "time": 128, "optimizer": "adamw"})"},
    {"lstm-lm", R"({"kind": "lstm-lm", "vocab": 1000, "embedding": 256, "units": 256, "layers": 2,)"
                R"( "batch": 24, "time": 64, "optimizer": "adam"})"},
};

const SharedRow kGpts[] = {
    {"gpt-124m",
     R"({"kind": "gpt", "vocab": 50304, "layers": 12, "width": 768, "heads": 12,)"
     R"( "positions": 1024, "tied": true, "batch": 4, "time": 1024, "optimizer": "adamw"})"},
    {"gpt-1.5b",
     R"({"kind": "gpt", "vocab": 50304, "layers": 48, "width": 1600, "heads": 25,)"
     R"( "positions": 1024, "tied": true, "batch": 4, "time": 1024, "optimizer": "adamw"})"},
};
constexpr std::int64_t kSequences = 4;  // of each rank
constexpr double kGigabit = 125e6;      // bytes a second

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- real ranks

// Ranks that compute side by side take longer than one by itself: of memory and caches each has a part. How much, they
// are asked without any message; what messages add is forecast.
void real(Report& report) {
  const int threads = pool::threads();
  pool::set_threads(1);
  const plan::Machine& machine = plan::this_machine();
  const plan::Network network = network_of_ranks();
  report.say("ranks on this machine, one thread each, %d cores; %s\n", dist::cores(),
             plan::readable(network).c_str());
  report.say("%-8s %5s %11s %13s %15s %15s %12s\n", "row", "ranks", "measured ms", "plan says ms",
             "measured/plan", "side by side ms", "meas./sim.");
  double furthest = 1;
  for (const SharedRow& row : kRows) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      const double seconds = report.quick() ? 1.5 : 6;
      const OnPaper paper = on_paper(row, ranks);
      dist::Cluster cluster = dist::cluster_of(machine, ranks);
      cluster.within = network;
      const double planned = dist::simulate(paper.tables, cluster).seconds;
      const Took apart = train_on_ranks(row, ranks, false, seconds);
      const Took took = ranks > 1 ? train_on_ranks(row, ranks, true, seconds) : apart;
      // Computing as slow as it is without messages: that of one core each, shared where there are fewer.
      const double share = std::max(1.0, ranks / static_cast<double>(dist::cores()));
      const double slower = apart.seconds / (apart.forecast * share);
      const double simulated = dist::simulate(on_paper(row, ranks, slower).tables, cluster).seconds;
      const double by_plan = took.seconds / planned, by_both = took.seconds / simulated;
      if (ranks == 2 && std::abs(std::log(by_both)) > std::abs(std::log(furthest)))
        furthest = by_both;
      report.say("%-8s %5d %11.2f %13.2f %15.2f %15.2f %12.2f\n", row.name, ranks,
                 took.seconds * 1e3, planned * 1e3, by_plan, apart.seconds * 1e3, by_both);
      const std::string of = formatted("%s, %d ranks", row.name, ranks);
      report.compare(of, "step", took.seconds, "s", "simulation of the plan", by_plan);
      report.compare(of, "step", took.seconds, "s", "simulation, computing as measured", by_both);
    }
  }
  pool::set_threads(threads);
  report.check("a step of 2 ranks is what was simulated, within 10%",
               std::abs(furthest - 1) <= kBar, formatted("furthest %.2f", furthest));
}

// ---- on paper

std::vector<int> counts(bool quick) {
  if (quick) return {1, 2, 8, 64, 1000};
  return {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000};
}

void curve(Report& report) {
  Chart chart;
  chart.title = "Hosts like this one, 4 sequences of 1,024 tokens on each";
  chart.x_name = "processes, one on each host";
  chart.y_name = "step of one process / step of so many, %";
  const char* const colours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd"};
  double longest = 0;
  std::size_t colour = 0;
  for (const SharedRow& row : kGpts) {
    const double begin = now();
    const AnyRanks any(row, kSequences);
    report.say("%s: planned in %.1f s; %s go around\n", row.name, now() - begin,
               to_string(ByteSize{any.of(2).gradients}).c_str());
    report.say("  %8s %9s %12s %8s %8s %8s %14s %12s\n", "network", "processes", "time a step",
               "of one", "waiting", "exposed", "sent by each", "simulated in");
    for (const double gigabits : {10.0, 100.0}) {
      const std::string network = formatted("%g Gbit/s", gigabits);
      Curve line{std::string(row.name) + ", " + network, colours[colour++ % 4], false, {}};
      double alone = 0;
      for (const int ranks : counts(report.quick())) {
        const double start = now();
        const OnPaper paper = any.of(ranks);
        dist::Cluster cluster = dist::cluster_of(plan::this_machine(), 1);
        cluster.between = {.seconds_per_message = 50e-6, .bytes_per_second = gigabits * kGigabit};
        const dist::Simulated step = dist::simulate(paper.tables, cluster);
        const double took = now() - start;
        longest = std::max(longest, took);
        if (ranks == 1) alone = step.seconds;
        const double part = alone / step.seconds;
        line.points.emplace_back(ranks, 100 * part);
        std::uint64_t sent = 0;
        for (const dist::Simulated::Rank& r : step.ranks) sent = std::max(sent, r.sent);
        report.say("  %8s %9d %10.1f s %7.0f%% %7.1f%% %7.1f%% %14s %10.2f s\n",
                   formatted("%g Gb/s", gigabits).c_str(), ranks, step.seconds, 100 * part,
                   100 * step.waiting(), 100 * step.exposed(), to_string(ByteSize{sent}).c_str(),
                   took);
        const std::string of = formatted("%s, %s, %d processes", row.name, network.c_str(), ranks);
        report.metric(of, "step", step.seconds, "s");
        report.metric(of, "of one process", part, "");
        report.metric(of, "waiting", step.waiting(), "");
      }
      chart.curves.push_back(std::move(line));
    }
  }
  const std::string path = "scaling.svg";
  write_file(path, chart.svg());
  report.say("wrote %s\n", path.c_str());
  report.check("1,000 processes on paper take seconds", longest < 30,
               formatted("at most %.1f s", longest));
}

// ---- for another simulator

// Lines for each rank: "rank R ENTRIES", then "compute SECONDS", "send|receive NUMBER PEER TAG BYTES" (started),
// "wait NUMBER", "vote".
void write_tables(int ranks, double faster, const std::string& path) {
  const OnPaper paper = AnyRanks(kGpts[0], kSequences).of(ranks, 1 / faster);
  std::ofstream out(path);
  using Kind = dist::Timetable::Entry::Kind;
  for (const dist::Timetable& t : paper.tables) {
    out << "rank " << t.rank << ' ' << t.entries.size() << ' ' << t.letters.size() << '\n';
    for (const dist::Timetable::Entry& e : t.entries) {
      if (e.kind == Kind::compute) {
        out << formatted("compute %.9g\n", e.seconds);
      } else if (e.kind == Kind::vote) {
        out << "vote\n";
      } else if (e.kind == Kind::wait) {
        out << "wait " << e.letter << '\n';
      } else {
        const auto& l = t.letters[static_cast<std::size_t>(e.letter)];
        out << (l.sent ? "send " : "receive ") << e.letter << ' ' << l.peer << ' ' << l.tag << ' '
            << l.bytes << '\n';
      }
    }
  }
  if (!out.flush()) throw Error("cannot write " + path);
  const dist::Simulated step = dist::simulate(
      paper.tables, {.between = {.seconds_per_message = 25e-6, .bytes_per_second = 10 * kGigabit}});
  std::printf("%.6f\n", step.seconds);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (is_rank(argc, argv)) return rank_main(argv);
    if (argc == 5 && !std::strcmp(argv[1], "--tables")) {
      write_tables(std::atoi(argv[2]), std::atof(argv[3]), argv[4]);
      return 0;
    }
    Report report("scaling", argc, argv);
    if (report.wanted("real")) real(report);
    if (report.wanted("curve")) curve(report);
    return report.exit_code();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_scaling: %s\n", e.what());
    return 1;
  }
}
