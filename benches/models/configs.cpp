// What `ebb plan` says of the configs of examples/ beside what training takes: time of a step, peak of the
// process, the smallest budget. Each config in a process of its own, in its own budget and without one. The
// machine is not quiet: of all steps the fastest tenth counts.
//
//   bench_configs [--quick] [--json] [--only=CONFIG,…]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/train/job.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb;
using namespace ebb::zoo;

constexpr double kTimeBar = 0.25, kPeakBar = 0.02;
constexpr std::uint64_t kPeakSlack = std::uint64_t{1} << 20;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Measured {
  double forecast = 0, step = 0;  // seconds
  std::uint64_t process = 0, peak = 0, smallest = 0;
  bool good = false;
};

// Steps of a run that saves and evaluates as the config says.
Measured train_here(const std::string& config, const std::string& folder,
                    std::vector<std::string> set) {
  Measured m;
  train::Job job(train::load_config(config, set));
  const auto trainer = job.trainer(folder, false);
  m.forecast = trainer->plan().forecast.seconds;
  m.smallest = smallest_budget();
  std::vector<double> seconds;
  double before = 0;
  trainer->on_step = [&](std::int64_t, double) {
    const double at = now();
    if (before > 0) seconds.push_back(at - before);
    before = at;
  };
  const train::Outcome out = trainer->run();
  std::sort(seconds.begin(), seconds.end());
  if (!seconds.empty()) m.step = seconds[seconds.size() / 10];
  m.process = out.forecast;
  m.peak = out.peak;
  m.good = true;
  return m;
}

// In a process of its own, so that its peak of memory is its own.
Measured apart(const std::function<Measured()>& fn) {
  int ends[2];
  Measured m;
  if (pipe(ends) != 0) throw Error("no pipe to a process of its own");
  const pid_t child = fork();
  if (child == 0) {
    try {
      m = fn();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "bench_configs: %s\n", e.what());
    }
    _exit(write(ends[1], &m, sizeof m) == sizeof m ? 0 : 1);
  }
  close(ends[1]);
  if (read(ends[0], &m, sizeof m) != sizeof m) m = {};
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return m;
}

}  // namespace

int main(int argc, char** argv) {
  Report report("configs", argc, argv);
  std::string folder = "/var/tmp/ebb-configs-XXXXXX";
  if (!mkdtemp(folder.data())) return 2;
  report.say("%-9s %-7s %11s %11s %9s   %10s %10s   %10s\n", "config", "budget", "forecast ms",
             "measured ms", "meas/fore", "forecast", "peak", "smallest");
  int count = 0, in_time = 0, in_memory = 0;
  double furthest = 1, furthest_mib = 0;
  for (const char* name : {"mlp", "cnn", "lstm", "gpt", "encoder", "tabular"}) {
    if (!report.wanted(name)) continue;
    for (const bool budget : {true, false}) {
      std::vector<std::string> set = {report.quick() ? "train.steps=60" : "train.steps=300",
                                      "train.patience=0"};
      if (!budget) set.push_back("memory.budget=none");
      const std::string run = folder + "/" + name + (budget ? "" : "-free");
      const Measured m = apart(
          [&] { return train_here(std::string(EBB_CONFIGS) + "/" + name + ".toml", run, set); });
      ++count;
      if (!m.good) continue;
      const double ratio = m.step / m.forecast, more = mib(m.peak) - mib(m.process);
      in_time += std::abs(ratio - 1) <= kTimeBar;
      in_memory += std::abs(more) <= std::max(kPeakBar * mib(m.peak), mib(kPeakSlack));
      if (std::abs(std::log(ratio)) > std::abs(std::log(furthest))) furthest = ratio;
      if (std::abs(more) > std::abs(furthest_mib)) furthest_mib = more;
      report.say("%-9s %-7s %11.3f %11.3f %9.2f   %6.2f MiB %6.2f MiB   %6.2f MiB\n", name,
                 budget ? "its own" : "none", m.forecast * 1e3, m.step * 1e3, ratio, mib(m.process),
                 mib(m.peak), mib(m.smallest));
      const std::string of = std::string(name) + (budget ? ", its budget" : ", no budget");
      report.compare(of, "step", m.step, "s", "forecast", ratio);
      report.compare(of, "peak", static_cast<double>(m.peak), "B", "forecast",
                     static_cast<double>(m.peak) / static_cast<double>(m.process));
      report.metric(of, "smallest budget", static_cast<double>(m.smallest), "B");
    }
  }
  std::filesystem::remove_all(folder);
  report.check("steps take what was forecast, within 25%", in_time == count,
               formatted("%d of %d; furthest %.2f", in_time, count, furthest));
  report.check("the peak is what was forecast, within 2% or 1 MiB", in_memory == count,
               formatted("%d of %d; furthest %+.2f MiB", in_memory, count, furthest_mib));
  return report.exit_code();
}
