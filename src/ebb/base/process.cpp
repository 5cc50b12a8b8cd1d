#include "ebb/base/process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "ebb/base/bytes.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/file.hpp"
#include "ebb/base/memory.hpp"

namespace ebb::process {
namespace {

// "VmHWM:     1234 kB". It is asked for between steps, so nothing is taken from the heap; and it is
// the kernel that answers, not a disk, so the file seam has no part in it.
std::uint64_t from_status(const char* field) {
  char text[4096];
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = ::read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = 0;
  const char* at = std::strstr(text, field);
  if (!at) return 0;
  std::uint64_t kilobytes = 0;
  for (at += std::strlen(field); *at && *at != '\n'; ++at)
    if (*at >= '0' && *at <= '9')
      kilobytes = kilobytes * 10 + static_cast<std::uint64_t>(*at - '0');
  return kilobytes * 1024;
}

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kLargest = std::uint64_t{1} << 60;  // v1 writes about 2^63 for no limit

// Empty where there is no such file, or it cannot be read.
std::string text_of(const std::string& path) {
  try {
    if (file_exists(path)) return read_file(path, 16_MiB);  // mountinfo of a busy host is long
  } catch (const FileError&) {
  }
  return {};
}

// The number at the beginning, after blanks; `otherwise` for "max", nothing, or no number.
std::uint64_t number(std::string_view text, std::uint64_t otherwise) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() ? value : otherwise;
}

// The number that follows a word at the beginning of a line.
std::uint64_t number_after(std::string_view word, const std::string& text,
                           std::uint64_t otherwise) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if (at == 0 || text[at - 1] == '\n')
      return number(std::string_view(text).substr(at + word.size()), otherwise);
  return otherwise;
}

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

struct Version {
  const char *name, *file_system, *limit, *usage, *cache;  // cache: can be given back at once
};
constexpr Version kV1{"v1", "cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes",
                      "total_inactive_file"};
constexpr Version kV2{"v2", "cgroup2", "memory.max", "memory.current", "inactive_file"};

struct Mount {
  std::string top;    // the group that is seen at the mount point
  std::string point;  // empty: not mounted
};

// Lines are: id parent device top point options … - file-system source options.
Mount mount_of(const Version& version, const std::string& mountinfo) {
  for (const std::string& line : split(mountinfo, '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || words.end() - dash < 4 || dash[1] != version.file_system) continue;
    if (dash[1] == kV1.file_system && !lists(dash[3], "memory")) continue;
    return {unescaped(words[3]), unescaped(words[4])};
  }
  return {};
}

// The group and all above it that can be seen: each may have a limit.
void walk(Available& best, const Version& version, const Mount& mount, std::string group,
          const std::string& root, std::uint64_t own) {
  if (mount.point.empty()) return;
  if (mount.top != "/") {  // a container sees its own group as the top
    const bool below = group == mount.top || group.starts_with(mount.top + "/");
    group = below ? group.substr(mount.top.size()) : "";
  }
  if (group.starts_with("/..")) group.clear();  // above what a namespace lets us see
  while (group.ends_with('/')) group.pop_back();
  for (;; group.resize(group.find_last_of('/'))) {
    const std::string folder = root + mount.point + group + "/";
    const std::uint64_t limit = number(text_of(folder + version.limit), kNoLimit);
    if (limit <= kLargest) {
      const std::uint64_t used = number(text_of(folder + version.usage), 0);
      const std::uint64_t cache =
          number_after(std::string(version.cache) + " ", text_of(folder + "memory.stat"), 0);
      const std::uint64_t others = used > cache + own ? used - cache - own : 0;
      const std::uint64_t left = limit > others ? limit - others : 0;
      if (left < best.bytes) {
        best = {left, fmt::format("cgroup {} limit {} ({} of {})", version.name,
                                  to_string(ByteSize{limit}), version.limit,
                                  group.empty() ? "/" : group)};
        if (others) best.source += fmt::format(", others use {}", to_string(ByteSize{others}));
      }
    }
    if (group.empty()) return;
  }
}

}  // namespace

std::uint64_t resident() { return from_status("\nVmRSS:"); }
std::uint64_t mapped() { return from_status("\nRssFile:"); }
std::uint64_t peak_resident() { return from_status("\nVmHWM:"); }

bool reset_peak() {
  const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool done = write(file, "5", 1) == 1;
  close(file);
  return done;
}

std::uint64_t footprint() {
  const std::uint64_t now = resident(), ours = ledger::total().live;
  return now > ours ? now - ours : 0;
}

Available available_in(const std::string& cgroup_text, const std::string& root, std::uint64_t own) {
  Available best{kNoLimit, "no limit known"};
  const std::uint64_t kilobytes =
      number_after("MemAvailable:", text_of(root + "/proc/meminfo"), kNoLimit);
  if (kilobytes < kLargest / 1024) best = {kilobytes * 1024 + own, "free memory of this machine"};
  const std::string mounts = text_of(root + "/proc/self/mountinfo");
  for (const std::string& line : split(cgroup_text, '\n')) {  // id:controllers:group; v2: 0::group
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (!group.starts_with('/')) continue;
    if (lists(controllers, "memory")) walk(best, kV1, mount_of(kV1, mounts), group, root, own);
    if (controllers.empty()) walk(best, kV2, mount_of(kV2, mounts), group, root, own);
  }
  return best;
}

namespace {

// What the shell's limits (ulimit) leave: they count what is mapped, in memory or not.
void limit_by(Available& best, __rlimit_resource_t which, const char* name, std::uint64_t mapped,
              std::uint64_t own) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const std::uint64_t beside = mapped > own ? mapped - own : 0;
  const std::uint64_t left = limit.rlim_cur > beside ? limit.rlim_cur - beside : 0;
  if (left < best.bytes)
    best = {left, fmt::format("{} is {}, of which {} is mapped and not in memory", name,
                              to_string(ByteSize{limit.rlim_cur}), to_string(ByteSize{beside}))};
}

}  // namespace

Available available() {
  const std::uint64_t own = resident();
  Available best = available_in(text_of("/proc/self/cgroup"), "", own);
  limit_by(best, RLIMIT_AS, "ulimit -v", from_status("\nVmSize:"), own);
  limit_by(best, RLIMIT_DATA, "ulimit -d", from_status("\nVmData:"), own - std::min(own, mapped()));
  return best;
}

}  // namespace ebb::process
