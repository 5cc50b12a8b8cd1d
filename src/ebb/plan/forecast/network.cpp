#include "ebb/plan/forecast/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/kernels/checksum.hpp"
#include "ebb/plan/forecast/measure.hpp"

namespace ebb::plan {
namespace {

// "": nowhere. One machine, and several by their names; however many threads each process has.
std::string path_of(std::vector<std::string> hosts) {
  std::string path = cache_path();
  if (path.empty()) return "";
  if (std::getenv("EBB_MACHINE"))
    path += ".network";
  else
    path = path.substr(0, path.find_last_of('/')) + "/network";
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  if (hosts.size() < 2) return path;
  const std::string names = fmt::format("{}", fmt::join(hosts, "\n"));
  return fmt::format("{}-{:016x}", path, kernels::checksum(names.data(), names.size(), 0));
}

}  // namespace

std::string to_string(const Network& n) {
  return fmt::format(
      "ebb-network 1\nseconds_per_message {:.17g}\nbytes_per_second {:.17g}\nranks {}\nhosts {}\n",
      n.seconds_per_message, n.bytes_per_second, n.ranks, n.hosts);
}

bool parse(const std::string& text, Network& into) {
  Network n;
  const int found = std::sscanf(
      text.c_str(), "ebb-network 1 seconds_per_message %lf bytes_per_second %lf ranks %d hosts %d",
      &n.seconds_per_message, &n.bytes_per_second, &n.ranks, &n.hosts);
  const bool sane = found == 4 && n.seconds_per_message > 0 && n.seconds_per_message < 60 &&
                    n.bytes_per_second > 1 && n.bytes_per_second < 1e15 && n.ranks > 1 &&
                    n.hosts > 0 && n.hosts <= n.ranks;
  if (sane) into = n;
  return sane;
}

bool known_network(const std::vector<std::string>& hosts, Network& into) {
  const std::string path = path_of(hosts);
  try {
    return !path.empty() && file_exists(path) && parse(read_file(path), into);
  } catch (const Error&) {  // as if it had never been measured
    return false;
  }
}

void keep_network(const std::vector<std::string>& hosts, const Network& network) {
  const std::string path = path_of(hosts);
  if (path.empty()) return;
  try {
    make_directories(path.substr(0, path.find_last_of('/')));
    write_file(path, to_string(network));
  } catch (const Error&) {  // it is measured again another time
  }
}

}  // namespace ebb::plan
