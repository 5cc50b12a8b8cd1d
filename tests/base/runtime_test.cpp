#include "ebb/base/runtime.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "ebb/base/memory/budget.hpp"
#include "ebb/base/memory/memory.hpp"

namespace ebb {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST(Runtime, TheReserveIsMeasuredOnce) {
  const std::uint64_t first = runtime::reserve();
  {
    const runtime::Share plans(3 * kMiB);
    EXPECT_EQ(runtime::reserve(), first + 3 * kMiB);
  }
  EXPECT_EQ(runtime::reserve(), first);
}

TEST(Runtime, TheSeamMayGiveOutWhatABudgetLeaves) {
  const std::uint64_t budget = runtime::reserve() + 64 * kMiB;
  runtime::set_budget(budget);
  EXPECT_EQ(memory::limit(), 64 * kMiB);
  {
    const runtime::Share plans(3 * kMiB);
    EXPECT_EQ(memory::limit(), 61 * kMiB);
  }
  runtime::set_budget(0);
  EXPECT_EQ(memory::limit(), 0u);
  EXPECT_EQ(Budget::now(), 0u);
}

// Else the kernel brings in as much of the code as it likes, and no budget knows.
TEST(Runtime, CodeLiesInSmallMappings) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's memory is not counted";
#endif
  runtime::reserve();
  std::ifstream maps("/proc/self/maps");
  int pieces = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char rights[5] = "";
    ASSERT_EQ(std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, rights), 3) << line;
    if (rights[2] != 'x' || line.find('/') == std::string::npos) continue;
    EXPECT_LE(end - begin, 16u << 10) << line;
    ++pieces;
  }
  EXPECT_GT(pieces, 8);
}

}  // namespace
}  // namespace ebb
