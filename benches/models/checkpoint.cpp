// Saving a run: 500 MB beside the disk's plain write speed, and the memory that saving and loading 2 GB take, of
// variables in memory and of those that lie in a spill file.
//
//   bench_checkpoint [--quick] [--json]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "ebb/base/files/file.hpp"
#include "ebb/base/files/folder.hpp"
#include "ebb/base/process.hpp"
#include "ebb/ebb.hpp"
#include "ebb/train/checkpoint/checkpoint.hpp"
#include "models/memory_group.hpp"
#include "models/report.hpp"

namespace {

using namespace ebb;
using namespace ebb::zoo;

double seconds_of(auto&& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

// So many variables of 4096 x 4096 floats: 67 MB each.
constexpr std::int64_t kWidth = 4096;
constexpr std::uint64_t kEach = 4 * kWidth * kWidth;
std::vector<Variable> in_memory(int count) {
  std::vector<Variable> all;
  for (int i = 0; i < count; ++i)
    all.emplace_back("v" + std::to_string(i),
                     random::normal({kWidth, kWidth}, 0, 1, 1, static_cast<std::uint64_t>(i)));
  return all;
}

// What a program without any care for memory would do: write, and sync at the end.
void write_plainly(const std::string& path, const std::vector<Variable>& all) {
  File file = File::create(path);
  for (const Variable& v : all)
    for (std::uint64_t at = 0; at < kEach; at += 1 << 20)
      file.write({v.value().raw() + at, std::size_t{1} << 20});
  file.sync();
  file.close();
}

void speed(const std::string& folder, Report& report) {
  constexpr int kCount = 8;
  std::vector<Variable> all = in_memory(kCount);
  const double megabytes = kCount * static_cast<double>(kEach) / 1e6;
  std::vector<double> plain, save, load, ratios;
  for (int round = 0; round < (report.quick() ? 3 : 9); ++round) {
    remove_tree(folder + "/plain");
    remove_tree(folder + "/run");
    plain.push_back(seconds_of([&] { write_plainly(folder + "/plain", all); }));
    save.push_back(seconds_of([&] { train::save(folder + "/run", all); }));
    ratios.push_back(plain.back() / save.back());
    load.push_back(seconds_of([&] { train::verify(folder + "/run"); }));
  }
  report.say("%.0f MB: plain %.0f MB/s, save %.0f MB/s, verify %.0f MB/s\n", megabytes,
             megabytes / median(plain), megabytes / median(save), megabytes / median(load));
  report.compare("500 MB", "speed of saving", megabytes / median(save), "MB/s", "plain writes",
                 median(ratios));
  report.check("saving at 70% of the disk's write speed or more", median(ratios) >= 0.7,
               formatted("%.0f%% (%.0f to %.0f)", median(ratios) * 100,
                         *std::min_element(ratios.begin(), ratios.end()) * 100,
                         *std::max_element(ratios.begin(), ratios.end()) * 100));
  remove_tree(folder + "/plain");
  remove_tree(folder + "/run");
}

// What the process holds more at its peak while `act` runs.
std::uint64_t extra_of(auto&& act) {
  process::reset_peak();
  const std::uint64_t before = process::resident();
  act();
  return process::peak_resident() - std::min(before, process::peak_resident());
}

void memory_of(const char* what, auto&& act, Report& report) {
  const std::uint64_t extra = extra_of(act);
  report.metric(what, "memory beside the variables", static_cast<double>(extra), "B");
  report.check(formatted("%s takes at most 8 MiB", what), extra <= 8 << 20,
               formatted("%.1f MiB", mib(extra)));
}

struct Deep {
  std::vector<nn::Dense> layers;
  explicit Deep(int count) {
    for (int i = 0; i < count; ++i) layers.emplace_back(nn::Init(1) / i, kWidth, kWidth);
  }
  Tensor operator()(Tensor x) const {
    for (const nn::Dense& l : layers) x = tanh(l(x));
    return x;
  }
  void each(auto&& f) { f("layers", layers); }
};

// Parameters that nobody has asked for yet take no memory, so a process that saves them holds nothing but itself
// and what saving takes; the kernel counts its page cache, too.
void limited(const std::string& folder, Report& report) {
  constexpr std::uint64_t kLimit = std::uint64_t{24} << 20;
  const MemoryGroup group(kLimit), idle(kLimit);
  if (!group.limited() || !idle.limited()) {
    report.say("no limit by the kernel: %s\n", group.why().c_str());
    return;
  }
  const auto ended_well = [&](const MemoryGroup& in, bool save) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (!in.enter()) ::_exit(2);
      Deep model(report.quick() ? 8 : 30);
      if (save) train::save(folder + "/run", model);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status == 0;
  };
  const bool ran = ended_well(idle, false) && ended_well(group, true);
  const std::uint64_t extra = group.peak_bytes() - std::min(idle.peak_bytes(), group.peak_bytes());
  report.check("saving, page cache included, takes at most 8 MiB", ran && extra <= 8 << 20,
               ran ? formatted("%.1f MiB, of a group that may hold %.0f", mib(extra), mib(kLimit))
                   : "killed");
  remove_tree(folder + "/run");
}

void spilled(const std::string& folder, Report& report) {
  Deep model(report.quick() ? 3 : 10);  // with Adam three times as many bytes
  optim::Adam adam(params(model));
  const Tensor x = random::normal({8, kWidth}, 0, 1, 1, 2);
  const auto compiled = [&](const CompileOptions& options) {
    return compile({{"x", x.spec()}}, options,
                   [&](const Batch& b) { return adam.minimize(mse(model(b["x"]), b["x"])); });
  };
  const std::uint64_t least = compiled({}).plan().minimum;
  auto step = compiled({.memory = ByteSize{least + (std::uint64_t{8} << 20)}});
  step({{"x", x}});
  std::uint64_t all = 0, kept = 0;
  for (const auto& part : {params(model), adam.state()})
    for (const Variable& v : part) {
      all += v.spec().bytes();
      if (!v.in_memory()) kept += v.spec().bytes();
    }
  report.say("%.0f MB, of which %.0f lie in a spill file; budget %.0f MiB\n",
             static_cast<double>(all) / 1e6, static_cast<double>(kept) / 1e6,
             mib(least + (std::uint64_t{8} << 20)));
  memory_of(
      "saving from a spill file", [&] { train::save(folder + "/run", model, adam); }, report);
  memory_of(
      "loading into a spill file", [&] { train::load(folder + "/run", model, adam); }, report);
  report.check("most of it lies in the file", kept > all / 2, "");
  remove_tree(folder + "/run");
}

}  // namespace

int main(int argc, char** argv) {
  Report report("checkpoint", argc, argv);
  std::string folder = temporary_folder() + "/ebb-bench-checkpoint-XXXXXX";
  if (!::mkdtemp(folder.data())) return 1;
  if (report.wanted("limited")) limited(folder, report);  // first: it forks
  if (report.wanted("spilled")) spilled(folder, report);
  if (report.wanted("speed")) speed(folder, report);
  if (report.wanted("memory")) {
    std::vector<Variable> all = in_memory(report.quick() ? 8 : 30);
    memory_of(
        "saving from memory", [&] { train::save(folder + "/run", all); }, report);
    memory_of(
        "loading into memory", [&] { train::load(folder + "/run", all); }, report);
  }
  remove_tree(folder);
  return report.exit_code();
}
