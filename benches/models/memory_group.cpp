#include "models/memory_group.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace ebb {
namespace {

bool write_to(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// Where groups of memory are made for this process: in its own group, or, where that is not to be
// seen from here (a container), at the top of what is.
std::string own_group(bool& second_version) {
  std::ifstream file("/proc/self/cgroup");
  std::string unified;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers.find(",memory,") != controllers.npos) {
      second_version = false;
      const std::string top = "/sys/fs/cgroup/memory";
      return exists(top + path) ? top + path : top;
    }
    if (controllers == ",,") unified = path;
  }
  second_version = true;
  const std::string top = "/sys/fs/cgroup";
  return exists(top + unified) ? top + unified : top;
}

}  // namespace

MemoryGroup::MemoryGroup(std::uint64_t limit_bytes) {
  if (limit_bytes == 0) return;
  static int made = 0;
  const std::string parent = own_group(second_version_);
  const std::string path =
      parent + "/ebb-bench-" + std::to_string(getpid()) + "-" + std::to_string(made++);
  if (mkdir(path.c_str(), 0755) != 0) {
    why_ = "no group could be made in " + parent + ": " + std::strerror(errno);
    return;
  }
  const std::string limit = path + (second_version_ ? "/memory.max" : "/memory.limit_in_bytes");
  if (second_version_ && !exists(limit)) write_to(parent + "/cgroup.subtree_control", "+memory");
  // The kernel counts whole pages: the limit is the last one that fits into the budget.
  if (!exists(limit) || !write_to(limit, std::to_string(limit_bytes))) {
    why_ = "the memory limit of " + path + " could not be set";
    rmdir(path.c_str());
    return;
  }
  if (second_version_) write_to(path + "/memory.swap.max", "0");
  if (!second_version_) write_to(path + "/memory.swappiness", "0");
  path_ = path;
}

MemoryGroup::~MemoryGroup() {
  // Its last process may still be on its way out.
  for (int i = 0; !path_.empty() && i < 200 && rmdir(path_.c_str()) != 0 && errno == EBUSY; ++i)
    usleep(5000);
}

bool MemoryGroup::enter() const { return !limited() || write_to(door(), std::to_string(getpid())); }

std::uint64_t MemoryGroup::peak_bytes() const {
  if (!limited()) return 0;
  std::ifstream file(path_ + (second_version_ ? "/memory.peak" : "/memory.max_usage_in_bytes"));
  std::uint64_t bytes = 0;
  file >> bytes;
  return bytes;
}

}  // namespace ebb
