// Whatever a config turns on, a run that was stopped at any step goes on with the bits of one that was not: weights,
// optimizer state, averages, and when it ends.
#include <gtest/gtest.h>

#include <csignal>
#include <ostream>
#include <random>

#include "ebb/ebb.hpp"
#include "ebb/train/run/stop_signal.hpp"
#include "tests/bytes.hpp"
#include "tests/error_of.hpp"
#include "tests/train/tales.hpp"

namespace ebb::train {
namespace {

using test::Folder;

struct Case {
  const char* name;
  std::vector<std::string> set;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

// A change of the config below each.
const Case kCases[] = {
    {"plain", {}},
    {"averages", {"train.ema=0.9", "train.clip_norm=0.5"}},
    {"warm_up", {"train.schedule='cosine'", "train.warmup=7", "train.lr_floor=1e-4"}},
    {"plateau",
     {"train.schedule='plateau'", "train.plateau_patience=0", "train.plateau_threshold=0.2",
      "train.decay_factor=0.5", "every.eval='3 steps'"}},
    {"early_stop",
     {"train.patience=2", "train.min_change=0.5", "train.metric='accuracy'",
      "every.eval='4 steps'"}},
    {"loss_scale", {"train.precision='f16'", "train.ema=0.9"}},
    {"bf16", {"train.precision='bf16'", "train.optimizer='sgd'", "train.momentum=0.9"}},
    {"eight_bit", {"memory.optimizer_state='8bit'"}},
    {"bf16_activations", {"memory.activations='bf16'", "memory.budget='64MiB'"}},
    {"statistics",
     {"model.layers=[{kind='dense', out=24}, {kind='batch_norm'}, {kind='relu'}, {kind='dense'}]"}},
};

Config config_of(const Case& c, const std::vector<std::string>& more = {}) {
  std::vector<std::string> set = c.set;
  set.insert(set.end(), more.begin(), more.end());
  const bool layers = !set.empty() && set[0].starts_with("model.layers");
  return parse_config(std::string("[model]\n") +
                          (layers ? "" : "kind = 'mlp'\nhidden = [24]\ndropout = 0.1\n") +
                          R"([data]
format = "digits"
rows = 150
shape = [784]
[train]
batch = 32
epochs = 3
lr = 0.003
[memory]
budget = "none"
[every]
save = "2 steps"
eval = "4 steps"
[output]
keep_last = 100
)",
                      c.name, set);
}

class Resumed : public ::testing::TestWithParam<Case> {};

TEST_P(Resumed, AtRandomSteps) {
  const Folder folder(test::in_memory());
  const std::string whole = test::weights_after(config_of(GetParam()), folder / "whole");
  const auto last = Checkpoints(folder / "whole/checkpoints").latest();
  ASSERT_TRUE(last);
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (int i = 0; i < 2; ++i) {
    // A run as a kill leaves it: what was saved after some step is not there.
    const auto step =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(last->info.step));
    const std::string run = folder / ("run" + std::to_string(i));
    std::filesystem::copy(folder / "whole", run, std::filesystem::copy_options::recursive);
    for (const Checkpoint& c : Checkpoints(run + "/checkpoints").list())
      if (c.info.step > step) std::filesystem::remove_all(c.path);
    EXPECT_EQ(test::weights_after(config_of(GetParam()), run), whole)
        << "from step " << step << ", seed " << seed;
    EXPECT_EQ(test::lines(run + "/metrics.csv").size(),
              test::lines(folder / "whole/metrics.csv").size());
    EXPECT_EQ(Checkpoints(run + "/checkpoints").latest()->info.best, last->info.best);
  }
}

INSTANTIATE_TEST_SUITE_P(Trainer, Resumed, ::testing::ValuesIn(kCases),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(TrainerResume, ARunThatWasLongerIsOneThatNeverEnded) {
  const Folder folder(test::in_memory());
  for (const Case& c : {kCases[0], kCases[3]}) {
    const std::string at = folder / c.name;
    const std::string whole = test::weights_after(config_of(c), at + "-whole");
    // An evaluation at the end that no period asks for decides nothing.
    test::weights_after(config_of(c, {"train.steps=6"}), at);
    EXPECT_EQ(test::weights_after(config_of(c), at), whole);
  }
}

TEST(TrainerResume, AnEndedRunIsLeftAsItIs) {
  const Folder folder(test::in_memory());
  const Case& c = kCases[4];
  const std::string whole = test::weights_after(config_of(c), folder / "run");
  const std::string metrics = test::content(folder / "run/metrics.jsonl");
  EXPECT_EQ(test::weights_after(config_of(c), folder / "run"), whole);
  EXPECT_EQ(test::content(folder / "run/metrics.jsonl"), metrics);
  Job job(config_of(c));
  const auto trainer = job.trainer(folder / "run", false);
  const Standing now = trainer->take_up();
  EXPECT_TRUE(now.saved);
  EXPECT_LT(now.step, now.steps);
  EXPECT_EQ(now.over, Outcome::Why::stopped_early);
  const Outcome again = trainer->run();
  EXPECT_EQ(again.why, Outcome::Why::stopped_early);
  EXPECT_GT(again.loss, 0) << "as it was";
  ASSERT_TRUE(again.best && again.last);
  EXPECT_EQ(again.last->figures.size(), 2u);
}

TEST(TrainerResume, AStopInTheMiddleOfAnEvaluationOwesIt) {
  const Folder folder(test::in_memory());
  const Case& c = kCases[3];
  const std::string whole = test::weights_after(config_of(c), folder / "whole");
  {
    Job job(config_of(c));
    const auto trainer = job.trainer(folder / "run", false);
    trainer->on_step = [](std::int64_t step, double) {
      if (step == 6) ::raise(SIGTERM);  // an evaluation is due just now
    };
    const Outcome out = trainer->run();
    EXPECT_EQ(out.why, Outcome::Why::signal);
    EXPECT_EQ(out.step, 6);
  }
  EXPECT_EQ(test::weights_after(config_of(c), folder / "run"), whole);
}

TEST(TrainerResume, ALongStepIsLeftAndTakenAgain) {
  const Folder folder(test::in_memory());
  const auto weights = [&](const std::string& directory, std::int64_t raised_by,
                           std::int64_t* steps) {
    random::seed(3);
    nn::Mlp net(nn::Init(1), {784, 32, 10}, {.dropout = 0.1});
    const auto model = Model::of(net, [](const nn::Mlp& m, const Batch& b) {
      return sparse_cross_entropy(m(reshape(b["image"], {b.rows(), 784})), b["label"]);
    });
    optim::AdamW adam(params(net), {.lr = 3e-3});
    // Made after the loop has looked for a signal, so that it comes while the step runs.
    std::int64_t made = 0;
    const Dataset data = data::digits(256, 1).shuffle(1).batch(64).map([&](const Batch& b) {
      if (++made == raised_by) ::raise(SIGTERM);
      return b;
    });
    Trainer trainer(model, adam, data,
                    {.epochs = 2, .directory = directory, .live = false, .patience = 0});
    const StopSignal stop;
    const Outcome out = trainer.run(stop);
    if (steps) *steps = out.step;
    EXPECT_EQ(out.why, raised_by ? Outcome::Why::signal : Outcome::Why::finished);
    return ebb::test::bytes(params(net));
  };
  const auto whole = weights(folder / "whole", 0, nullptr);
  std::int64_t steps = 0;
  weights(folder / "run", 4, &steps);
  EXPECT_LT(steps, 4);  // the fourth batch, or one that was made ahead of it, was not taken
  EXPECT_EQ(weights(folder / "run", 0, nullptr), whole);
}

}  // namespace
}  // namespace ebb::train
