#include "ebb/base/cgroup.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/folder.hpp"

namespace ebb {
namespace {

// A machine that tests make up, in a folder.
class Cgroup : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  double quota(const std::string& self) const {
    return cgroup::cpu_quota(cgroup::groups_of("cpu", self, folder_.path));
  }
  void put_second_version() {
    put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  }
  void expect_quota(const std::string& group, const std::string& text, double expected) {
    put("sys/fs/cgroup" + group + "/cpu.max", text);
    EXPECT_EQ(quota("0::" + group + "\n"), expected) << text;
  }
  test::Folder folder_;
};

TEST_F(Cgroup, NoQuotaWhereNobodySetsOne) {
  EXPECT_EQ(quota("0::/\n"), 0);
  put_second_version();
  expect_quota("/a", "max 100000\n", 0);
  expect_quota("/a", "0 0\n", 0);
}

TEST_F(Cgroup, V2TakesTheSmallestOnTheWayUp) {
  put_second_version();
  put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  expect_quota("/a/b", "max 100000\n", 1.5);
  expect_quota("/a/b", "25000 50000\n", 0.5);
}

TEST_F(Cgroup, V1IsThatOfTheCpuController) {
  put("proc/self/mountinfo",
      "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  put("sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "200000\n");
  put("sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota("3:cpu,cpuacct:/c\n2:memory:/c\n"), 2);
  EXPECT_EQ(quota("3:cpu,cpuacct:/\n2:memory:/c\n"), 0);
}

}  // namespace
}  // namespace ebb
