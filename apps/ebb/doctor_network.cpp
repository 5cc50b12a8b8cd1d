#include "apps/ebb/doctor_network.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "apps/ebb/console.hpp"
#include "apps/ebb/processes.hpp"
#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/dist/launch.hpp"
#include "ebb/dist/measure_network.hpp"
#include "ebb/dist/open.hpp"

namespace ebb::app {
namespace {

[[noreturn]] void start(int processes, bool json) {
  char program[4096];
  const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program);
  if (length <= 0)
    throw Error("doctor: where this program lies cannot be found out (/proc/self/exe)");
  check_room("doctor", processes ? processes : 2);
  dist::Launch launch{processes ? processes : 2, 0, {}};
  launch.program = {std::string(program, static_cast<std::size_t>(length)), "doctor", "--network"};
  if (json) launch.program.emplace_back("--json");
  const auto line = dist::mpirun_line(launch);
  if (!json) print(wrapped(dist::shell_line(line), 2) + "\n\n");
  dist::become(line);
}

std::string micro(double seconds) { return fmt::format("{:.1f} us", seconds * 1e6); }
std::string speed(double bytes) {
  return to_string(ByteSize{static_cast<std::uint64_t>(bytes)}) + "/s";
}

std::string text_of(const dist::World& world, const dist::Measured& found) {
  const plan::Network& n = found.network;
  std::string text = fmt::format("{:<12} {} on {} host{}\n", "processes", n.ranks, n.hosts,
                                 n.hosts == 1 ? "" : "s");
  for (const dist::Link& l : found.links)
    text += fmt::format("{:<12} {} a message, {}{}\n", fmt::format("{} to {}", l.from, l.to),
                        micro(l.seconds_per_message), speed(l.bytes_per_second),
                        world.host(l.from) == world.host(l.to)
                            ? ""
                            : fmt::format(" ({} to {})", world.host(l.from), world.host(l.to)));
  return text + fmt::format("{:<12} {} a message (alpha), {} (1/beta)\n{:<12} {} of each budget\n",
                            "network", micro(n.seconds_per_message), speed(n.bytes_per_second),
                            "set aside", to_string(ByteSize{world.footprint()}));
}

nlohmann::json json_of(const dist::World& world, const dist::Measured& found) {
  nlohmann::json all = {{"ranks", found.network.ranks},
                        {"hosts", found.network.hosts},
                        {"seconds_per_message", found.network.seconds_per_message},
                        {"bytes_per_second", found.network.bytes_per_second},
                        {"footprint", world.footprint()},
                        {"links", nlohmann::json::array()}};
  for (const dist::Link& l : found.links)
    all["links"].push_back({{"from", l.from},
                            {"to", l.to},
                            {"from_host", world.host(l.from)},
                            {"to_host", world.host(l.to)},
                            {"seconds_per_message", l.seconds_per_message},
                            {"bytes_per_second", l.bytes_per_second}});
  return all;
}

}  // namespace

void doctor_network(int processes, bool json) {
  const auto as = dist::started();
  if (!as && !dist::launched()) start(processes, json);
  if (as && processes && processes != as->size)
    throw dist::OnEveryRank(fmt::format("doctor: {} has started {} processes, and --processes says "
                                        "{}; leave one of them out",
                                        as->by, as->size, processes),
                            as->rank == 0);
  dist::World world;
  const dist::Measured found = dist::measure_network(world);
  if (!world.first()) return;
  std::vector<std::string> hosts;
  for (int r = 0; r < world.size(); ++r) hosts.push_back(world.host(r));
  plan::keep_network(hosts, found.network);
  print(json ? json_of(world, found).dump() + "\n" : text_of(world, found));
}

}  // namespace ebb::app
