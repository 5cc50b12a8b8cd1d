// `ebb train` under a kernel limit equal to --memory, with every config of examples/: what `ebb plan` names is
// enough, and a byte less is refused. A few steps each; EBB_WHOLE=1 takes 60.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ebb/base/bytes.hpp"
#include "tests/programs/ebb_command.hpp"

namespace ebb::programs {
namespace {

using Words = std::vector<std::string>;

std::string config_of(const std::string& name) {
  return std::string(EBB_SOURCE_DIR) + "/examples/configs/" + name + ".toml";
}

Words words(Words front, const Words& more) {
  front.insert(front.end(), more.begin(), more.end());
  return front;
}

Words settings(const Words& all) {
  Words flags;
  for (const std::string& s : all) flags.insert(flags.end(), {"--set", s});
  return flags;
}

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Weights and state of the last checkpoint, and the exported model.
std::string weights_of(const std::string& run) {
  std::string last;
  for (const auto& entry : std::filesystem::directory_iterator(run + "/checkpoints"))
    if (entry.is_directory()) last = std::max(last, entry.path().string());
  return read_all(last + "/model.safetensors") + read_all(last + "/state.safetensors") +
         read_all(run + "/model/model.safetensors");
}

std::uint64_t number_after(const std::string& key, const std::string& text) {
  const std::size_t at = text.find(key);
  return at == text.npos ? 0 : std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

std::string in_bytes(std::uint64_t bytes) { return std::to_string(bytes) + "B"; }

class TrainConfig : public testing::TestWithParam<std::string> {};

TEST_P(TrainConfig, KeepsItsBudgetUnderAKernelLimit) {
  const bool whole = std::getenv("EBB_WHOLE") != nullptr;
  Words few = {"memory.allow=same_bits", whole ? "train.steps=60" : "train.steps=3",
               whole ? "every.eval=20" : "every.eval=2", whole ? "every.save=15" : "every.save=2"};
  const bool from_file = GetParam() == "lstm" || GetParam() == "gpt" || GetParam() == "tabular";
  if (!from_file && !whole) few.push_back("data.rows=700");
  const Words set = settings(few);
  const Scratch scratch;
  const std::string config = config_of(GetParam());
  const auto train = [&](const std::string& name, std::uint64_t budget) {
    Words all = words({"train", config, "--out", scratch / name}, set);
    all = words(all, {"--memory", budget ? in_bytes(budget) : "none"});
    return run_ebb(all, budget);
  };
  const Ran plan = run_ebb(words({"plan", config, "--json", "--memory", "none"}, set));
  ASSERT_EQ(plan.code, 0) << plan.err << plan.line;
  const std::uint64_t smallest = number_after("\"smallest_budget\":", plan.out);
  ASSERT_GT(smallest, 0u) << plan.out;

  const Ran free = train("free", 0);
  ASSERT_EQ(free.code, 0) << free.err << free.line;
  const std::string weights = weights_of(scratch / "free");
  ASSERT_GT(weights.size(), 1000u);
  for (const double times : {1.0, 1.2, 2.0}) {
    const auto budget = static_cast<std::uint64_t>(static_cast<double>(smallest) * times);
    const std::string name = "budget-" + std::to_string(budget);
    const Ran ran = train(name, budget);
    if (!ran.unlimited.empty())
      std::printf("not limited by the kernel: %s\n", ran.unlimited.c_str());
    EXPECT_FALSE(ran.killed) << times << " times the smallest\n" << ran.line;
    ASSERT_EQ(ran.code, 0) << ran.err << ran.line;
    EXPECT_LE(ran.peak, budget) << to_string(ByteSize{ran.peak}) << " of "
                                << to_string(ByteSize{budget}) << "\n"
                                << ran.out << ran.line;
    EXPECT_TRUE(weights_of(scratch / name) == weights) << ran.out << ran.line;
    if (times > 1) continue;
    const Ran more = run_ebb({"resume", scratch / name, "--memory", in_bytes(budget), "--set",
                              whole ? "train.steps=70" : "train.steps=4"},
                             budget);
    EXPECT_EQ(more.code, 0) << more.err << more.line;
    EXPECT_LE(more.peak, budget) << more.out << more.line;
  }
  const Ran less = train("less", smallest - 1);
  EXPECT_EQ(less.code, 3) << less.out << less.err << less.line;
  EXPECT_NE(less.err.find(std::to_string(smallest) + " bytes"), std::string::npos) << less.err;
  EXPECT_FALSE(std::filesystem::exists(scratch / "less"));

  // Also where the machine is measured first, as at the first start on it.
  ::unsetenv("EBB_MACHINE");
  ::setenv("XDG_CACHE_HOME", (scratch / "cache").c_str(), 1);
  // Other speeds may make another plan the smallest.
  const std::uint64_t budget = smallest + smallest / 8;
  const Ran first = train("first", budget);
  EXPECT_FALSE(first.killed) << first.line;
  EXPECT_EQ(first.code, 0) << first.err << first.line;
  EXPECT_LE(first.peak, budget) << first.out << first.line;
  EXPECT_TRUE(std::filesystem::exists(scratch / "cache")) << first.line;
}

// A budget that is too small to read the data in, or to train in: what is named does at the next start, and nothing
// is left behind.
class TrainTable : public testing::TestWithParam<bool> {};

TEST_P(TrainTable, NamesABudgetThatDoesWhateverWasTooSmall) {
  const Scratch scratch;
  {
    std::ofstream rows(scratch / "rows.csv"), config(scratch / "config.toml");
    rows << "a,b,c,kind,y\n";
    for (int i = 0; i < 40000; ++i)
      rows << i % 97 << ',' << i % 31 << ',' << i % 7 << ',' << "pqr"[i % 3] << ',' << i % 13
           << '\n';
    config << "model.kind = 'mlp'\nmodel.hidden = [32]\n[data]\npath = 'rows.csv'\ntarget = 'y'\n"
           << "in_memory = " << (GetParam() ? "true" : "false")
           << "\n[train]\nbatch = 64\nsteps = 3\n[every]\nsave = 2\n";
  }
  const auto train = [&](std::uint64_t budget, std::uint64_t limit) {
    return run_ebb({"train", scratch / "config.toml", "--memory", in_bytes(budget), "--out",
                    scratch / std::to_string(budget)},
                   limit);
  };
  for (const std::uint64_t budget : {std::uint64_t{1} << 20, std::uint64_t{4} << 20}) {
    const Ran less = train(budget, 0);
    EXPECT_EQ(less.code, 3) << less.out << less.err << less.line;
    EXPECT_FALSE(std::filesystem::exists(scratch / std::to_string(budget)));
    const std::size_t said = less.err.find("the smallest that does");
    ASSERT_NE(said, std::string::npos) << less.err;
    const std::uint64_t named = number_after("(", less.err.substr(said));
    const Ran taken = train(named, named);
    EXPECT_EQ(taken.code, 0) << taken.err << taken.line;
    EXPECT_LE(taken.peak, named) << taken.out << taken.line;
    std::filesystem::remove_all(scratch / std::to_string(named));
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, TrainTable, testing::Bool(),
                         [](const auto& info) { return info.param ? "in_memory" : "in_a_file"; });

// What a short run has to reach, and would not without learning: guessing has 0.1 of the digits and half of the
// sequences right, the frequencies of characters have a perplexity of 19, and prices deviate by 131.
struct Lesson {
  const char *name, *steps, *figure;
  double least, most;
};
void PrintTo(const Lesson& lesson, std::ostream* out) { *out << lesson.name; }
const Lesson kLessons[] = {
    {"mlp", "60", "accuracy ", 0.85, 1},     {"cnn", "40", "accuracy ", 0.75, 1},
    {"lstm", "40", "perplexity ", 1, 9},     {"gpt", "40", "perplexity ", 1, 10},
    {"encoder", "250", "accuracy ", 0.6, 1}, {"tabular", "1500", "rmse ", 1, 25}};

class TrainTemplate : public testing::TestWithParam<Lesson> {};

// As `ebb init` writes it, into an empty folder, with nothing changed but the number of steps; all of them with
// EBB_WHOLE=1.
TEST_P(TrainTemplate, Learns) {
  const Lesson& l = GetParam();
  const Scratch scratch;
  const Ran init = run_ebb({"init", l.name, scratch / "new"});
  ASSERT_EQ(init.code, 0) << init.err;
  const std::string config = scratch / "new/" + l.name + ".toml";
  EXPECT_EQ(read_all(config), read_all(config_of(l.name)));
  Words train = {"train", config, "--out", scratch / "run"};
  if (!std::getenv("EBB_WHOLE"))
    train = words(train, {"--set", std::string("train.steps=") + l.steps});
  const Ran ran = run_ebb(train);
  ASSERT_EQ(ran.code, 0) << ran.err << ran.line;
  const std::size_t held_out = ran.out.find("held out:");
  ASSERT_NE(held_out, std::string::npos) << ran.out;
  const std::size_t figure = ran.out.find(l.figure, held_out);
  ASSERT_NE(figure, std::string::npos) << ran.out;
  const double reached = std::strtod(ran.out.c_str() + figure + std::strlen(l.figure), nullptr);
  if (std::getenv("EBB_WHOLE"))
    std::printf("%s\n", ran.out.substr(ran.out.rfind("\nstep ") + 1).c_str());
  EXPECT_GE(reached, l.least) << ran.out.substr(held_out);
  EXPECT_LE(reached, l.most) << ran.out.substr(held_out);
}

INSTANTIATE_TEST_SUITE_P(Init, TrainTemplate, testing::ValuesIn(kLessons),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Examples, TrainConfig,
                         testing::Values("mlp", "cnn", "lstm", "gpt", "encoder", "tabular",
                                         "digits"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ebb::programs
