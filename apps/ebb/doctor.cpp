#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "apps/ebb/doctor_network.hpp"
#include "apps/ebb/simd.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/cgroup.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/base/process.hpp"
#include "ebb/exec/spill/disk_space.hpp"
#include "ebb/exec/spill/spill_file.hpp"
#include "ebb/plan/forecast/machine.hpp"
#include "ebb/plan/forecast/measure.hpp"

namespace ebb::app {
namespace {

constexpr std::uint64_t kLittleDisk = std::uint64_t{1} << 30;

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

int cores_allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0)
    return static_cast<int>(std::thread::hardware_concurrency());
  return CPU_COUNT(&set);
}

std::string speed(double bytes) {
  return to_string(ByteSize{static_cast<std::uint64_t>(bytes)}) + "/s";
}

// What was found, line by line, with problems and what to do about them.
class Findings {
 public:
  void say(const char* what, const std::string& found) {
    text_ += fmt::format("{:<12} {}\n", what, wrapped(found, 13));
  }
  void mind(const std::string& problem) {
    text_ += fmt::format("{:<12} ! {}\n", "", wrapped(problem, 15));
    problems_.push_back(problem);
  }
  nlohmann::json json;
  std::string text() const {
    return text_ + (problems_.empty()
                        ? "no problems found\n"
                        : fmt::format("{} thing{} to look at, marked !\n", problems_.size(),
                                      problems_.size() == 1 ? "" : "s"));
  }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::string text_;
  std::vector<std::string> problems_;
};

void look_at_cpu(Findings& f) {
  const Simd found = simd();
  f.say("cpu", cpu_name());
  f.say("simd",
        fmt::format("{} (kernels are built for {})", found.used, fmt::join(found.built, ", ")));
  if (!found.fused)
    f.mind(
        "no AVX2: products run at a quarter of the speed, and weights agree with those of newer "
        "machines up to rounding only");
  const int all = static_cast<int>(std::thread::hardware_concurrency()), allowed = cores_allowed();
  const double quota = cgroup::cpu_quota(cgroup::groups_of("cpu"));
  f.say("threads",
        fmt::format("{}; {} of {} cores may be used{}", pool::threads(), allowed, all,
                    quota > 0 ? fmt::format(", {:.3g} by the group's quota", quota) : ""));
  if (quota > 0 && std::ceil(quota) < pool::threads())
    f.mind(
        fmt::format("the group may use {:.3g} cores and {} threads compute: threads wait for each "
                    "other; set EBB_THREADS={} or train.threads",
                    quota, pool::threads(), std::max(1, static_cast<int>(quota))));
  f.json["cpu"] = {{"name", cpu_name()},         {"simd", found.used}, {"simd_built", found.built},
                   {"threads", pool::threads()}, {"cores", all},       {"cores_allowed", allowed}};
  if (quota > 0) f.json["cpu"]["quota"] = quota;
}

void look_at_memory(Findings& f) {
  const process::Available memory = process::available();
  const std::uint64_t safe = process::safe_budget(memory) >> 20;
  f.say("memory",
        fmt::format("{} for this process ({})", to_string(ByteSize{memory.bytes}), memory.source));
  f.say("safe budget",
        fmt::format("--memory {}MiB, that less 5%, as budget = \"auto\" takes", safe));
  if (safe < 32)
    f.mind(
        "little is left: the smallest models take 6 MiB, those of ebb init 9 to 27; stop other "
        "programs, or raise the limit of the group");
  f.json["memory"] = {
      {"bytes", memory.bytes}, {"source", memory.source}, {"safe_budget", safe << 20}};
  const auto limited = [&](int which, const char* name, const char* flag) {
    rlimit limit{};
    if (getrlimit(static_cast<__rlimit_resource_t>(which), &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY)
      return;
    f.json["memory"]["ulimit"][name] = limit.rlim_cur;
    f.mind(
        fmt::format("ulimit {} is {}: mappings count there, not only memory in use; ulimit {} "
                    "unlimited lifts it",
                    flag, to_string(ByteSize{limit.rlim_cur}), flag));
  };
  limited(RLIMIT_AS, "address_space", "-v");
  limited(RLIMIT_DATA, "data", "-d");
}

void look_at_disk(Findings& f, const plan::Machine& machine) {
  const std::string folder = exec::spill_directory("");
  const std::uint64_t free = exec::free_space(folder);
  f.say("spill", fmt::format("{}, {} free; writes {}, reads {} while all threads compute", folder,
                             free == exec::kUnknownSpace ? "unknown" : to_string(ByteSize{free}),
                             speed(machine.spill_write), speed(machine.spill_read)));
  f.json["spill"] = {{"folder", folder},
                     {"free", free},
                     {"write_bytes_per_second", machine.spill_write},
                     {"read_bytes_per_second", machine.spill_read}};
  try {
    const bool in_memory = File::temporary(folder).in_memory();
    f.json["spill"]["in_memory"] = in_memory;
    if (in_memory)
      f.mind(
          "that folder is memory (tmpfs): spilling there gains nothing; set TMPDIR, or "
          "memory.spill_directory, to a disk");
  } catch (const Error& e) {
    f.mind(
        fmt::format("nothing can be written there ({}): set TMPDIR, or memory.spill_directory, to "
                    "a folder on a disk",
                    e.what()));
  }
  if (free < kLittleDisk)
    f.mind(
        "less than 1 GiB is free: a budget that needs spilling may be refused; make room, or name "
        "another folder");
}

void look_at_speeds(Findings& f, const plan::Machine& machine) {
  double flops = 0;
  for (const plan::Machine::Speed& s : machine.speeds) flops = std::max(flops, s.flops);
  const double memory = machine.speed(ops::Work::elementwise).far;
  const auto size = [](double bytes) {
    return to_string(ByteSize{static_cast<std::uint64_t>(bytes)});
  };
  f.say(
      "calibrated",
      fmt::format("{:.4g} GFLOP/s at best, memory {}, cache {}, shared {}, {} threads", flops / 1e9,
                  speed(memory), size(machine.cache), size(machine.shared_cache), machine.threads));
  f.json["calibrated"] = {{"flops", flops},
                          {"memory_bytes_per_second", memory},
                          {"cache", machine.cache},
                          {"shared_cache", machine.shared_cache},
                          {"threads", machine.threads},
                          {"sound", machine.sound}};
  if (!machine.sound)
    f.mind(fmt::format(
        "others used the machine while it was measured: forecasts of time may be off. It is "
        "measured again after an hour{}",
        plan::cache_path().empty() ? ""
                                   : ", or at once when " + plan::cache_path() + " is removed"));
}

struct Doctor {
  bool json = false, network = false;
  int processes = 0;
  void run() const {
    if (network) return doctor_network(processes, json);
    Findings f;
    look_at_cpu(f);
    look_at_memory(f);
    const plan::Machine machine =
        plan::with_spill_speed(plan::this_machine(), exec::spill_directory(""));
    look_at_disk(f, machine);
    look_at_speeds(f, machine);
    if (!json) return print(f.text());
    f.json["version"] = EBB_VERSION;
    f.json["problems"] = f.problems();
    print(f.json.dump() + "\n");
  }
};

}  // namespace

void add_doctor(CLI::App& app) {
  auto doctor = std::make_shared<Doctor>();
  CLI::App* c = app.add_subcommand("doctor",
                                   "what this machine has, and what to do about problems\n\n"
                                   "Processor and the vector instructions in use; cores, by "
                                   "affinity and quota; memory, by the limits of control "
                                   "groups (v1, v2) and ulimit; a budget that is safe; the disk "
                                   "that would be spilled to and how fast it is; the "
                                   "speeds that forecasts of time are made from. With --network: "
                                   "how long messages between processes take, on this machine "
                                   "or, started by mpirun or srun, between theirs.");
  c->group(group::kBegin);
  c->footer(
      "ebb doctor\nebb doctor --json\n"
      "ebb doctor --network --processes 4         # on this machine, by mpirun\n"
      "mpirun -np 2 --host a,b ebb doctor --network\n");
  auto* network = c->add_flag("--network", doctor->network,
                              "measure messages between processes, and keep the figures");
  c->add_option("--processes", doctor->processes,
                "with --network: so many on this machine (2); not under mpirun or srun")
      ->type_name(value::kNumber)
      ->check(number_from(2, 1024))
      ->needs(network);
  add_json(*c, doctor->json);
  c->callback([doctor] { doctor->run(); });
}

}  // namespace ebb::app
