// `ebb verify` where the kernel gives it less than a run without a budget takes: that is no broken promise.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "ebb/base/bytes.hpp"
#include "tests/programs/ebb_command.hpp"

namespace ebb::programs {
namespace {

TEST(Verify, InLessThanARunWithoutABudgetTakes) {
  const Scratch scratch;
  std::ofstream(scratch / "c.toml")
      << "model.kind = 'mlp'\nmodel.hidden = [2048, 2048]\n[data]\nformat = 'digits'\nrows = 500\n"
         "[train]\nbatch = 64\n";
  const Ran plan = run_ebb({"plan", scratch / "c.toml", "--json", "--memory", "none"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const std::size_t at = plan.out.find("\"process\":");
  const std::uint64_t whole = std::strtoull(plan.out.c_str() + at + 10, nullptr, 10);
  ASSERT_GT(whole, (64_MiB).bytes) << plan.out;
  const Ran ran = run_ebb({"verify", scratch / "c.toml", "--steps", "4"}, whole - (8_MiB).bytes);
  if (!ran.unlimited.empty()) GTEST_SKIP() << "not limited by the kernel: " << ran.unlimited;
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err << ran.line;
  EXPECT_NE(ran.out.find("every promise holds"), std::string::npos) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("all memory there is"), std::string::npos) << ran.out;
}

}  // namespace
}  // namespace ebb::programs
