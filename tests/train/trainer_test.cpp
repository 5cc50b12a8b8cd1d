// A run as a whole: it learns, and one that was stopped goes on with the bits of one that was not.
#include "ebb/train/trainer.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "ebb/base/pool.hpp"
#include "ebb/train/job.hpp"

namespace ebb::train {
namespace {

namespace fs = std::filesystem;

constexpr char kMlp[] = R"(
[model]
kind = "mlp"
hidden = [64]
dropout = 0.1
[data]
format = "digits"
rows = 600
[train]
batch = 64
epochs = 3
lr = 0.003
ema = 0.9
clip_norm = 1.0
[memory]
budget = "none"
[every]
save = "3 steps"
)";

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() : folder_(fs::temp_directory_path() / ("ebb_trainer_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~TrainerTest() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  // All weights after a run in this directory.
  static std::string trained(const std::string& directory, std::vector<std::string> set = {}) {
    Job job(parse_config(kMlp, "test", set));
    job.trainer(directory, false)->run();
    std::string bytes;
    for (const Variable& v : variables(job.model)) {
      std::vector<std::byte> some(v.spec().bytes());
      v.read(some, 0);
      bytes.append(reinterpret_cast<const char*>(some.data()), some.size());
    }
    return bytes;
  }

  fs::path folder_;
};

TEST_F(TrainerTest, LearnsAndKeepsWhatItWrites) {
  Job job(parse_config(kMlp, "test", {"train.epochs=6"}));
  const auto trainer = job.trainer(path("run"), false);
  int evaluations = 0;
  trainer->on_evaluation = [&](const Evaluation& e) {
    ++evaluations;
    EXPECT_EQ(e.figures.at(0).name, "loss");
  };
  const Outcome out = trainer->run();
  EXPECT_EQ(out.why, Outcome::Why::finished);
  EXPECT_EQ(evaluations, 6);
  ASSERT_TRUE(out.best);
  EXPECT_GT(out.best->figures.at(1).value, 0.7);  // accuracy of ten classes
  for (const char* name : {"plan.txt", "plan.json", "metrics.jsonl", "metrics.csv", "log.txt"})
    EXPECT_TRUE(fs::exists(folder_ / "run" / name)) << name;
  Job opened = open_run(path("run"));
  EXPECT_EQ(opened.from.step, out.best->step);
  const std::vector<Figure> again = opened.evaluate(*open_data(opened.config).validation);
  EXPECT_EQ(again.at(1).value, out.best->figures.at(1).value);
}

TEST_F(TrainerTest, TheBestWeightsAreKeptHoweverRarelyItSaves) {
  Job job(parse_config(kMlp, "test", {"every.save='100 epochs'", "every.eval=2", "train.lr=0.4"}));
  const Outcome out = job.trainer(path("run"), false)->run();
  ASSERT_TRUE(out.best);
  ASSERT_LT(out.best->step, out.step);  // a rate so high that it is soon lost again
  Job opened = open_run(path("run"));
  EXPECT_EQ(opened.from.step, out.best->step);
  const std::vector<Figure> again = opened.evaluate(*open_data(opened.config).validation);
  EXPECT_EQ(again.at(0).value, out.best->figures.at(0).value);
}

TEST_F(TrainerTest, AStoppedRunGoesOnWithTheSameBits) {
  const std::string whole = trained(path("whole"));
  for (const int steps : {1, 4, 9, 17}) {
    const std::string run = path(("run" + std::to_string(steps)).c_str());
    trained(run, {"train.steps=" + std::to_string(steps)});
    EXPECT_EQ(trained(run), whole) << "stopped after " << steps;
  }
}

TEST_F(TrainerTest, AlsoInABudgetAndWithOneThread) {
  const std::string whole = trained(path("whole"));
  trained(path("run"), {"train.steps=5"});
  const int threads = pool::threads();
  pool::set_threads(1);
  EXPECT_EQ(trained(path("run"), {"memory.budget=64MiB"}), whole);
  pool::set_threads(threads);
}

}  // namespace
}  // namespace ebb::train
