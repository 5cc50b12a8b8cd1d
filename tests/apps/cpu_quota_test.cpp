#include "apps/ebb/cpu_quota.hpp"

#include "tests/apps/command.hpp"

namespace ebb::test {
namespace {

using app::cpu_quota_in;

TEST_F(Commands, cpuQuotaIsTheLeastOfTheGroupsAbove) {
  put("none/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(cpu_quota_in(path("none")), 0);
  put("v2/proc/self/cgroup", "0::/a/b\n");
  put("v2/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  put("v2/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota_in(path("v2")), 1.5);
  put("v1/proc/self/cgroup", "3:cpu,cpuacct:/c\n2:memory:/c\n");
  put("v1/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000\n");
  put("v1/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
  put("v1/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("v1/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota_in(path("v1")), 0.5);
}

}  // namespace
}  // namespace ebb::test
