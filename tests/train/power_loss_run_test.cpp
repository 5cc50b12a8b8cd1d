// A power cut at any moment of a whole run, from the making of its directory to its last step: what is left is taken
// up, from no older a checkpoint than the last one that was saved, and ends with the same weights, state and metrics.
#include <gtest/gtest.h>

#include <random>

#include "ebb/train/run/run_directory.hpp"
#include "tests/train/checkpoint/power_loss.hpp"
#include "tests/train/tales.hpp"

namespace ebb::train {
namespace {

using test::Disk;
using test::Folder;

Config config() {
  return parse_config(std::string(R"([model]
kind = "mlp"
hidden = [6]
dropout = 0.1
[data]
format = "digits"
rows = 70
shape = [784]
[train]
batch = 16
epochs = 2
lr = 0.003
schedule = "cosine"
precision = "f16"
ema = 0.9
)") + test::kSavesEachStep,
                      "test");
}

// As `ebb train` does it: the steps that were saved, and after how many operations.
struct Recorded {
  std::vector<file_record::Operation> operations;
  std::size_t made = 0;  // the directory
  std::vector<std::pair<std::size_t, std::int64_t>> saves;
};

Recorded recorded(const std::string& directory) {
  const file_record::Recording recording;
  Recorded r;
  RunDirectory::create(directory, to_toml(config()));
  r.made = recording.operations().size();
  Job job(config());
  const auto trainer = job.trainer(directory, false);
  trainer->on_save = [&](std::int64_t step, const std::string&) {
    r.saves.emplace_back(recording.operations().size(), step);
  };
  trainer->run();
  r.operations = recording.operations();
  return r;
}

TEST(PowerLossOfARun, ItGoesOnFromTheLastThatWasSaved) {
  const Folder folder(test::in_memory());
  std::filesystem::create_directory(folder / "disk");
  const Recorded r = recorded(folder / "disk/run");
  const std::string whole = test::weights_after(config(), folder / "whole"),
                    state = folder / "state";
  const std::size_t rows = test::lines(folder / "whole/metrics.csv").size();
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  int states = 0;
  Disk disk(folder / "disk");
  for (std::size_t cut = 0; cut <= r.operations.size(); ++cut) {
    if (cut > 0) disk.apply(r.operations[cut - 1]);
    if (random() % 3) continue;
    SCOPED_TRACE(testing::Message() << "at operation " << cut);
    const std::size_t prefix = random() % (disk.pending() + 1);
    const bool any_part = random() % 2 == 0;
    disk.materialise(
        state, [&](std::size_t i) { return any_part ? random() % 2 == 0 : i < prefix; },
        random() % 2 ? random() % 40 : 0);
    const std::string run = state + "/run";
    if (cut >= r.made) {
      EXPECT_EQ(test::content(run + "/config.toml"), to_toml(config()));
    }
    std::int64_t saved = 0;
    for (const auto& [at, step] : r.saves)
      if (at <= cut) saved = step;
    const auto last = Checkpoints(run + "/checkpoints").latest();
    EXPECT_GE(last ? last->info.step : 0, saved);
    EXPECT_EQ(test::weights_after(config(), run), whole);
    EXPECT_EQ(test::lines(run + "/metrics.csv").size(), rows);
    ASSERT_FALSE(testing::Test::HasFailure());
    std::filesystem::remove_all(state);
    ++states;
  }
  EXPECT_GT(states, 50);
  std::printf("%zu operations, %d states\n", r.operations.size(), states);
}

}  // namespace
}  // namespace ebb::train
