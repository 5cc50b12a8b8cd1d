// ebb train and ebb resume on several processes, as users start them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/dist/commands.hpp"
#include "tests/error_of.hpp"

namespace ebb::test {
namespace {

TEST_F(Commands, AnyNumberOfProcessesTrainsTheSameModel) {
  ASSERT_EQ(train("one", 1).code, 0);
  for (const int processes : {2, 3}) {
    const std::string run = fmt::format("of{}", processes);
    const Ran ran = train(run, processes);
    ASSERT_EQ(ran.code, 0) << ran.text;
    EXPECT_HAS(ran.text, fmt::format("mpirun -np {} ", processes));
    EXPECT_HAS(ran.text, fmt::format("rank 0 of {} ", processes));
    EXPECT_EQ(model(run), model("one"));
    // Written once: by the first.
    std::size_t plans = 0;
    for (std::size_t at = 0; (at = ran.text.find("smallest budget", at)) != std::string::npos; ++at)
      ++plans;
    EXPECT_EQ(plans, 1u) << ran.text;
  }
}

TEST_F(Commands, RunsGoOnWithAnotherNumberOfProcesses) {
  ASSERT_EQ(train("whole", 1).code, 0);
  for (const auto& [first, then] : {std::pair{1, 3}, std::pair{3, 1}, std::pair{2, 4}}) {
    const std::string run = fmt::format("run-{}-{}", first, then);
    const Ran begun = train(run, first, 8);
    ASSERT_EQ(begun.code, 0) << begun.text;
    const Ran ran = ebb(fmt::format("resume {} --set train.steps=12 --processes {} -q", run, then));
    ASSERT_EQ(ran.code, 0) << ran.text;
    EXPECT_EQ(model(run), model("whole")) << first << " then " << then;
  }
}

// Rows that would be in memory, as they are no more than a quarter, and do not fit beside the step: ranks leave them in
// their file together, before any of them refuses.
TEST_F(Commands, RanksDecideTogetherWhereRowsAre) {
  {
    std::ofstream table(folder_ + "/t.csv"), config(folder_ + "/t.toml");
    table << "a,b,c,y\n";
    for (int i = 0; i < 200'000; ++i)
      table << i % 10 << ',' << i % 7 << ',' << i % 13 << ',' << i % 3 << '\n';
    config << "model.kind = 'mlp'\nmodel.hidden = [1200, 1200]\n[data]\npath = 't.csv'\n"
              "target = 'y'\n[train]\nbatch = 64\nsteps = 3\n";
  }
  const auto within = [&](const std::string& memory, const std::string& out) {
    return ebb(fmt::format("train t.toml --memory {} --processes 2 --out {}", memory, out));
  };
  ASSERT_EQ(within("none", "free").code, 0);
  const Ran refused = within("16MiB", "least");
  EXPECT_EQ(refused.code, 3) << refused.text;
  const std::size_t at = refused.text.rfind(" bytes)"), from = refused.text.rfind('(', at) + 1;
  const std::uint64_t least = std::strtoull(refused.text.c_str() + from, nullptr, 10);
  ASSERT_GT(least, 4u * 200'000 * 16) << refused.text;
  const Ran ran = within(fmt::format("{}B", least), "least");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_HAS(ran.text, "data in its files");
  EXPECT_EQ(model("least"), model("free"));
  const Ran roomy = within(fmt::format("{}B", least + (8u << 20)), "roomy");
  EXPECT_EQ(roomy.code, 0) << roomy.text;
  EXPECT_HAS(roomy.text, "data in memory");
}

TEST_F(Commands, MistakesAreToldOnce) {
  const auto expect = [&](const std::string& words, int code, const std::string& line) {
    const Ran ran = ebb(words);
    EXPECT_EQ(ran.code, code) << ran.text;
    ASSERT_EQ(ran.lines().size(), 1u) << ran.text;
    EXPECT_HAS(ran.lines()[0], line);
  };
  expect("train none.toml --processes 3", 2, "cannot open \"none.toml\"");
  expect("train mlp.toml --memory 18MiB --processes 2", 3, "is too small");
  expect("train mlp.toml --processes 0", 2, "\"0\" is no number from 1 to 1024");
  expect("resume nowhere --processes 2", 2, "nowhere");
  std::ofstream(folder_ + "/norm.toml") << "[model]\nkind = \"layers\"\nlayers = [{kind='dense', "
                                           "out=16}, {kind='batch_norm'}, {kind='dense'}]\n"
                                           "[data]\nformat = \"digits\"\nrows = 400\n"
                                           "[train]\nbatch = 50\nsteps = 2\n";
  expect("train norm.toml --processes 2", 2,
         "the batch cannot be divided among 2 ranks: examples depend on each other in batch_norm");
}

}  // namespace
}  // namespace ebb::test
