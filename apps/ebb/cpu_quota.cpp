#include "apps/ebb/cpu_quota.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace ebb::app {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// v2: "max 100000" or "150000 100000". v1: two files, -1: no limit.
double v2(const std::string& folder) {
  std::istringstream in(text_of(folder + "/cpu.max"));
  double quota = 0, period = 0;
  return in >> quota >> period && quota > 0 && period > 0 ? quota / period : 0;
}
double v1(const std::string& folder) {
  std::istringstream quota_text(text_of(folder + "/cpu.cfs_quota_us"));
  std::istringstream period_text(text_of(folder + "/cpu.cfs_period_us"));
  double quota = 0, period = 0;
  return quota_text >> quota && period_text >> period && quota > 0 && period > 0 ? quota / period
                                                                                 : 0;
}

// The group and all above it that can be seen.
double least(const std::string& mount, std::string group, double (*read)(const std::string&)) {
  double best = 0;
  for (;;) {
    const double found = read(mount + group);
    if (found > 0) best = best > 0 ? std::min(best, found) : found;
    if (group.empty()) return best;
    group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
  }
}

}  // namespace

double cpu_quota_in(const std::string& root) {
  double best = 0;
  std::istringstream groups(text_of(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {  // id:controllers:group; v2: 0::group
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    double found = 0;
    if (controllers == ",,") found = least(root + "/sys/fs/cgroup", group, v2);
    if (controllers.find(",cpu,") != std::string::npos)
      found = least(root + "/sys/fs/cgroup/cpu", group, v1);
    if (found > 0) best = best > 0 ? std::min(best, found) : found;
  }
  return best;
}

double cpu_quota() { return cpu_quota_in(""); }

}  // namespace ebb::app
