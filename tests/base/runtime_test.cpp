#include "ebb/base/runtime.hpp"

#include <gtest/gtest.h>

#include "ebb/base/budget.hpp"
#include "ebb/base/memory.hpp"

namespace ebb {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST(Runtime, TheReserveIsMeasuredOnce) {
  const std::uint64_t first = runtime::reserve();
  {
    const runtime::Plans plans(3 * kMiB);
    EXPECT_EQ(runtime::reserve(), first + 3 * kMiB);
  }
  EXPECT_EQ(runtime::reserve(), first);
}

TEST(Runtime, TheSeamMayGiveOutWhatABudgetLeaves) {
  const std::uint64_t budget = runtime::reserve() + 64 * kMiB;
  runtime::set_budget(budget);
  EXPECT_EQ(memory::limit(), 64 * kMiB);
  {
    const runtime::Plans plans(3 * kMiB);
    EXPECT_EQ(memory::limit(), 61 * kMiB);
  }
  runtime::set_budget(0);
  EXPECT_EQ(memory::limit(), 0u);
  EXPECT_EQ(Budget::now(), 0u);
}

}  // namespace
}  // namespace ebb
