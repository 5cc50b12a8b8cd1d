#include "ebb/base/process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

#include "ebb/base/bytes.hpp"
#include "ebb/base/cgroup.hpp"
#include "ebb/base/memory/memory.hpp"

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

std::atomic<int> shared_by{1};

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kLargest = std::uint64_t{1} << 60;  // v1 writes about 2^63 for no limit

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

struct Files {
  const char *limit, *usage, *cache;  // cache: can be given back at once
};
constexpr Files kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
constexpr Files kV2{"memory.max", "memory.current", "inactive_file "};

void limit_by(Available& best, const cgroup::Group& group, std::uint64_t own) {
  using cgroup::text_of;
  const Files& files = group.version == 1 ? kV1 : kV2;
  const std::uint64_t limit = number(text_of(group.folder + files.limit), kNoLimit);
  if (limit > kLargest) return;
  const std::uint64_t used = number(text_of(group.folder + files.usage), 0);
  const std::uint64_t cache = number_after(files.cache, text_of(group.folder + "memory.stat"), 0);
  const std::uint64_t others = used > cache + own ? used - cache - own : 0;
  const std::uint64_t left = limit > others ? limit - others : 0;
  if (left >= best.bytes) return;
  best = {left,
          fmt::format("cgroup v{} limit {} ({} of {})", group.version, to_string(ByteSize{limit}),
                      files.limit, group.name.empty() ? "/" : group.name)};
  if (others) best.source += fmt::format(", others use {}", to_string(ByteSize{others}));
}

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
      number_after("MemAvailable:", cgroup::text_of(root + "/proc/meminfo"), kNoLimit);
  if (kilobytes < kLargest / 1024) best = {kilobytes * 1024 + own, "free memory of this machine"};
  for (const cgroup::Group& group : cgroup::groups_of("memory", cgroup_text, root))
    limit_by(best, group, own);
  return best;
}

void set_shared_by(int processes) { shared_by = std::max(1, processes); }

Available available() {
  const std::uint64_t own = resident();
  Available best = available_in(cgroup::text_of("/proc/self/cgroup"), "", own);
  if (const auto processes = static_cast<std::uint64_t>(shared_by.load()); processes > 1) {
    if (best.bytes > own) best.bytes = own + (best.bytes - own) / processes;
    best.source += fmt::format(", shared by {} processes", processes);
  }
  limit_by(best, RLIMIT_AS, "ulimit -v", from_status("\nVmSize:"), own);
  limit_by(best, RLIMIT_DATA, "ulimit -d", from_status("\nVmData:"), own - std::min(own, mapped()));
  return best;
}

}  // namespace ebb::process
