#include "ebb/base/cgroup.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace ebb::cgroup {
namespace {

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(by, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool lists(const std::string& words, const char* word) {  // "rw,memory" lists "memory"
  return ("," + words + ",").find("," + std::string(word) + ",") != std::string::npos;
}

// mountinfo writes a blank as \040, and so on.
std::string unescaped(const std::string& text) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) &&
        octal(text[i + 3])) {
      result +=
          static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

struct Mount {
  std::string top;    // the group that is seen at the mount point
  std::string point;  // empty: not mounted
};

// Lines are: id parent device top point options … - file-system source options.
Mount mount_of(int version, const char* controller, const std::string& mountinfo) {
  const char* const file_system = version == 1 ? "cgroup" : "cgroup2";
  for (const std::string& line : split(mountinfo, '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || words.end() - dash < 4 || dash[1] != file_system) continue;
    if (version == 1 && !lists(dash[3], controller)) continue;
    return {unescaped(words[3]), unescaped(words[4])};
  }
  return {};
}

void add(std::vector<Group>& all, int version, const Mount& mount, std::string group,
         const std::string& root) {
  if (mount.point.empty()) return;
  if (mount.top != "/") {  // a container sees its own group as the top
    const bool below = group == mount.top || group.starts_with(mount.top + "/");
    group = below ? group.substr(mount.top.size()) : "";
  }
  if (group.starts_with("/..")) group.clear();  // above what a namespace lets us see
  while (group.ends_with('/')) group.pop_back();
  for (;; group.resize(group.find_last_of('/'))) {
    all.push_back({version, group, root + mount.point + group + "/"});
    if (group.empty()) return;
  }
}

}  // namespace

// It is the kernel that answers, not a disk, so the file seam has no part in it.
std::string text_of(const std::string& path) {
  constexpr std::size_t kMost = 16 << 20;  // mountinfo of a busy host is long
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string text;
  char part[4096];
  ssize_t size = 0;
  while (text.size() < kMost && (size = read(file, part, sizeof part)) > 0)
    text.append(part, static_cast<std::size_t>(size));
  close(file);
  return size < 0 ? std::string() : text;
}

std::vector<Group> groups_of(const char* controller, const std::string& self,
                             const std::string& root) {
  std::vector<Group> all;
  const std::string mounts = text_of(root + "/proc/self/mountinfo");
  for (const std::string& line : split(self, '\n')) {  // id:controllers:group; v2: 0::group
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (!group.starts_with('/')) continue;
    if (lists(controllers, controller)) add(all, 1, mount_of(1, controller, mounts), group, root);
    if (controllers.empty()) add(all, 2, mount_of(2, controller, mounts), group, root);
  }
  return all;
}

std::vector<Group> groups_of(const char* controller) {
  return groups_of(controller, text_of("/proc/self/cgroup"), "");
}

// v1: two files, -1 for no limit; v2: "150000 100000", "max 100000".
double cpu_quota(const std::vector<Group>& groups) {
  double least = 0;
  for (const Group& g : groups) {
    const std::string text = g.version == 1 ? text_of(g.folder + "cpu.cfs_quota_us") + " " +
                                                  text_of(g.folder + "cpu.cfs_period_us")
                                            : text_of(g.folder + "cpu.max");
    double quota = 0, period = 0;
    if (std::sscanf(text.c_str(), "%lf %lf", &quota, &period) != 2 || quota <= 0 || period <= 0)
      continue;
    const double cores = quota / period;
    if (least == 0 || cores < least) least = cores;
  }
  return least;
}

}  // namespace ebb::cgroup
