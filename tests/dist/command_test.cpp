// ebb train and ebb resume on several processes, as users start them.
#include <fmt/format.h>
#include <gtest/gtest.h>

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
