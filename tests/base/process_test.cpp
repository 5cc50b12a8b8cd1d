#include "ebb/base/process.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "ebb/base/memory/memory.hpp"

namespace ebb {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// A made-up /proc and /sys below a folder of its own.
class Machine {
 public:
  Machine() : root_(testing::TempDir() + "ebb_process_XXXXXX") {
    if (!mkdtemp(root_.data())) throw std::runtime_error("mkdtemp");
    file("/proc/meminfo", "MemTotal: 9000000 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
  }
  ~Machine() { std::filesystem::remove_all(root_); }

  Machine& file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
    return *this;
  }
  Machine& mounts(const std::string& text) { return file("/proc/self/mountinfo", text); }
  process::Available ask(const std::string& cgroup, std::uint64_t own = 0) const {
    return process::available_in(cgroup, root_, own);
  }

 private:
  std::string root_;
};

constexpr const char* kV1Mounts =
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
constexpr const char* kV2Mounts = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";

TEST(Process, ResidentAndItsPeak) {
  const std::uint64_t before = process::resident();
  ASSERT_GT(before, 0u);
  EXPECT_GE(process::peak_resident(), before);
  constexpr std::size_t kBytes = 64 * kMiB;
  void* pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_LT(process::resident(), before + kBytes / 2);  // mapped, not yet touched
  std::memset(pages, 1, kBytes);
  EXPECT_GE(process::resident(), before + kBytes * 9 / 10);
  munmap(pages, kBytes);
  EXPECT_LT(process::resident(), before + kBytes / 2);
  EXPECT_GE(process::peak_resident(), before + kBytes * 9 / 10);
  if (!process::reset_peak()) GTEST_SKIP() << "this kernel does not reset the peak";
  EXPECT_LT(process::peak_resident(), before + kBytes / 2);
}

TEST(Process, FootprintLeavesOutWhatTheSeamGave) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer holds several bytes for each of ours";
#endif
  const std::uint64_t before = process::footprint();
  memory::Buffer buffer(64 * kMiB, "test");
  std::memset(buffer.data(), 1, buffer.size());
  EXPECT_LT(process::footprint(), before + 8 * kMiB);
  EXPECT_GT(process::resident(), process::footprint() + 60 * kMiB);
}

TEST(Process, AvailableOnThisMachine) {
  const process::Available available = process::available();
  EXPECT_GT(available.bytes, process::resident());
  EXPECT_LT(available.bytes, std::uint64_t{1} << 60);
  EXPECT_FALSE(available.source.empty());
}

TEST(Process, FreeMemoryWhereNoGroupLimits) {
  const Machine machine;
  for (const char* cgroup :
       {"", "nonsense", "0::/\n", "4:memory\n::\n:::::\n4:memory:relative\n"}) {
    const process::Available a = machine.ask(cgroup, 5 * kMiB);
    EXPECT_EQ(a.bytes, 8192 * kMiB + 5 * kMiB) << cgroup;
    EXPECT_EQ(a.source, "free memory of this machine") << cgroup;
  }
}

TEST(Process, V1TakesTheSmallestOnTheWayUp) {
  Machine machine;
  machine.mounts(kV1Mounts)
      .file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
      .file("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "536870912\n")
      .file("/sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", "1073741824\n");
  const std::string cgroup = "5:devices:/\n4:cpu,memory:/jobs/one\n0::/\n";
  EXPECT_EQ(machine.ask(cgroup).bytes, 512 * kMiB);
  EXPECT_EQ(machine.ask(cgroup).source, "cgroup v1 limit 512 MiB (memory.limit_in_bytes of /jobs)");
  machine.file("/sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", "67108864\n");
  EXPECT_EQ(machine.ask(cgroup).bytes, 64 * kMiB);
}

TEST(Process, OthersInTheGroupAreTakenOffButNotTheirCache) {
  Machine machine;
  machine.mounts(kV1Mounts)
      .file("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "536870912\n")
      .file("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "209715200\n")
      .file("/sys/fs/cgroup/memory/jobs/memory.stat",
            "inactive_file 1\ntotal_cache 90000000\ntotal_inactive_file 52428800\n");
  const process::Available a = machine.ask("4:memory:/jobs\n", 30 * kMiB);
  EXPECT_EQ(a.bytes, (512 - (200 - 50 - 30)) * kMiB);
  EXPECT_NE(a.source.find("others use 120 MiB"), std::string::npos) << a.source;
  EXPECT_EQ(machine.ask("4:memory:/jobs\n", 400 * kMiB).bytes, 512 * kMiB);
  machine.file("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "9000000000\n");
  EXPECT_EQ(machine.ask("4:memory:/jobs\n").bytes, 0u);
}

TEST(Process, V2) {
  Machine machine;
  machine.mounts(kV2Mounts)
      .file("/sys/fs/cgroup/user.slice/memory.max", "max\n")
      .file("/sys/fs/cgroup/user.slice/job/memory.max", "268435456\n")
      .file("/sys/fs/cgroup/user.slice/job/memory.current", "41943040\n")
      .file("/sys/fs/cgroup/user.slice/job/memory.stat", "anon 7\ninactive_file 10485760\n");
  EXPECT_EQ(machine.ask("0::/user.slice\n").source, "free memory of this machine");  // max
  EXPECT_EQ(machine.ask("0::/user.slice/job\n").bytes, (256 - 30) * kMiB);
  EXPECT_EQ(machine.ask("0::/user.slice/job\n", 30 * kMiB).source,
            "cgroup v2 limit 256 MiB (memory.max of /user.slice/job)");
}

TEST(Process, HybridAsksBoth) {
  Machine machine;
  machine
      .mounts(std::string(kV1Mounts) +
              "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n")
      .file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "134217728\n")
      .file("/sys/fs/cgroup/unified/b/memory.max", "100663296\n");
  EXPECT_EQ(machine.ask("4:memory:/a\n0::/b\n").bytes, 96 * kMiB);
  EXPECT_EQ(machine.ask("4:memory:/a\n0::/\n").bytes, 128 * kMiB);
}

TEST(Process, AContainerSeesItsOwnGroupAsTheTop) {
  Machine machine;
  machine.mounts("30 23 0:26 /docker/42 /sys/fs/cgroup\\040here rw - cgroup2 cgroup2 rw\n")
      .file("/sys/fs/cgroup here/memory.max", "67108864\n")
      .file("/sys/fs/cgroup here/inner/memory.max", "33554432\n");
  EXPECT_EQ(machine.ask("0::/docker/42\n").bytes, 64 * kMiB);
  EXPECT_EQ(machine.ask("0::/docker/42/inner\n").bytes, 32 * kMiB);
  EXPECT_EQ(machine.ask("0::/docker/421\n").bytes,
            64 * kMiB);  // not below it: the top is all we see
  EXPECT_EQ(machine.ask("0::/../outside\n").bytes, 64 * kMiB);
}

TEST(Process, MalformedFilesAreNoLimit) {
  for (const char* text : {"", "\n", "garbage", "-1\n", "99999999999999999999999\n"}) {
    Machine machine;
    machine.mounts(std::string("1 2 -\n- cgroup2\n\n") + kV2Mounts)
        .file("/sys/fs/cgroup/memory.max", text)
        .file("/sys/fs/cgroup/memory.stat", "inactive_file");
    EXPECT_EQ(machine.ask("0::/\n").source, "free memory of this machine") << text;
  }
  Machine nothing;
  nothing.file("/proc/meminfo", "MemAvailable: lots\n");
  EXPECT_EQ(nothing.ask("0::/\n").source, "no limit known");
}

}  // namespace
}  // namespace ebb
