// Which checkpoints of a run are kept, which one is the latest, and what is done about damaged ones and leftovers.
#include "ebb/train/checkpoint/checkpoints.hpp"

#include <limits>

#include "ebb/base/files/file.hpp"
#include "ebb/base/files/folder.hpp"
#include "ebb/train/checkpoint/manifest.hpp"
#include "tests/train/checkpoint/training.hpp"

namespace ebb::train {
namespace {

using test::error_of;
using test::Tiny;
namespace fs = std::filesystem;

class CheckpointsTest : public test::FolderTest {
 protected:
  void save(Checkpoints& to, std::int64_t step, std::optional<double> value = {}) {
    tiny_.set(step);
    to.save({.step = step, .metric = "loss", .value = value}, tiny_.weight, tiny_);
  }
  static std::vector<std::int64_t> steps(const Checkpoints& of) {
    std::vector<std::int64_t> all;
    for (const Checkpoint& c : of.list()) all.push_back(c.info.step);
    return all;
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  void damage(const std::string& file) const {
    File f = File::open(folder_ + "/" + file, {.access = Access::read_write});
    std::byte last{};
    f.read_at(f.size() - 9, {&last, 1});
    last ^= std::byte{1};
    f.write_at(f.size() - 9, {&last, 1});
  }
  Tiny tiny_;
};

using Steps = std::vector<std::int64_t>;

TEST_F(CheckpointsTest, TheLastAndTheBestAreKept) {
  Checkpoints all(folder_, {.keep_last = 2, .keep_best = 1});
  EXPECT_FALSE(all.latest());
  EXPECT_FALSE(all.best());
  for (const auto& [step, loss] : {std::pair{1, 5.0}, {2, 1.0}, {3, 4.0}, {4, 1.0}, {5, 3.0}})
    save(all, step, loss);
  EXPECT_EQ(steps(all), (Steps{2, 4, 5}));
  EXPECT_EQ(all.best()->info.step, 2) << "of equal ones the first";
  EXPECT_EQ(all.latest()->info.step, 5);
  EXPECT_EQ(all.latest()->info.best, 3.0) << "as far as the caller has said";
  EXPECT_EQ(entries(), 4u) << "and the lock";
  save(all, 6, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(steps(all), (Steps{2, 5, 6}));
  EXPECT_EQ(all.best()->info.step, 2);
  tiny_.set(0);
  train::load(all.best()->path, tiny_.weight, tiny_);
  Tiny expected;
  expected.set(2);
  EXPECT_EQ(tiny_.all(), expected.all());
}

TEST_F(CheckpointsTest, HigherMayBeBetter) {
  Checkpoints all(folder_, {.keep_last = 1, .keep_best = 2, .higher_is_better = true});
  for (const auto& [step, value] : {std::pair{1, 0.5}, {2, 0.9}, {3, 0.7}, {4, 0.1}})
    save(all, step, value);
  EXPECT_EQ(steps(all), (Steps{2, 3, 4}));
  EXPECT_EQ(all.best()->info.value, 0.9);
}

TEST_F(CheckpointsTest, AStepThatIsSavedAgainIsReplaced) {
  Checkpoints all(folder_);
  save(all, 1);
  save(all, 2);
  tiny_.set(77);
  all.save({.step = 2}, tiny_.weight, tiny_);
  EXPECT_EQ(steps(all), (Steps{1, 2}));
  Tiny found;
  train::load(all.latest()->path, found.weight, found);
  EXPECT_EQ(found.all(), tiny_.all());
  EXPECT_EQ(entries(), 3u);
}

// Whoever goes on from an older one wants his own steps, not those that were written before.
TEST_F(CheckpointsTest, TheLatestIsTheOneWrittenLast) {
  Checkpoints all(folder_, {.keep_last = 3});
  for (const int step : {10, 20, 30, 11}) save(all, step);
  EXPECT_EQ(all.latest()->info.step, 11);
  EXPECT_EQ(steps(all), (Steps{20, 30, 11}));
}

TEST_F(CheckpointsTest, ADamagedOneIsSkippedOnRequestOnly) {
  Checkpoints all(folder_, {.keep_last = 3});
  for (const int step : {1, 2, 3, 4}) save(all, step);
  damage("step-00000004/manifest.json");
  damage("step-00000003/model.safetensors");
  const std::string error = error_of([&] { all.latest(); });
  EXPECT_NE(error.find("step-00000004/manifest.json"), std::string::npos) << error;
  std::vector<std::string> skipped;
  EXPECT_EQ(all.latest_good(&skipped)->info.step, 2);
  ASSERT_EQ(skipped.size(), 2u);
  EXPECT_NE(skipped[0].find("step-00000004"), std::string::npos);
  EXPECT_NE(skipped[1].find("the bytes of weight sum up to"), std::string::npos);
  // Damaged manifests are not counted, and stay for whoever wants to look at them.
  for (const int step : {5, 6, 7}) save(all, step);
  EXPECT_EQ(steps(all), (Steps{4, 5, 6, 7}));
  EXPECT_EQ(all.latest()->info.step, 7);
  fs::rename(folder_ + "/step-00000007", folder_ + "/step-00000009");
  EXPECT_NE(error_of([&] { all.latest(); }).find("it is one of step 7"), std::string::npos);
}

TEST_F(CheckpointsTest, LeftoversAreRemovedAndNothingElseIs) {
  {
    Checkpoints all(folder_);
    save(all, 1);
  }
  const std::string mine[] = {
      ".step-00000002.tmp",     ".step-2.11-0.tmp", ".note.11-0.tmp",
      "step-00000002.11-0.tmp", "step-1",           ".step-00000003.a-0.tmp"};
  for (const std::string& name : mine) fs::create_directory(folder_ + "/" + name);
  fs::create_directory_symlink(folder_ + "/step-1", folder_ + "/.step-00000004.11-0.tmp");
  fs::create_directories(folder_ + "/.step-00000002.11-0.tmp/sub");
  File::create(folder_ + "/.step-00000002.11-0.tmp/sub/model.safetensors").write("half");
  fs::create_directory_symlink(folder_ + "/step-00000001",
                               folder_ + "/.step-00000002.11-0.tmp/link");
  // One that was about to be replaced, with nothing in its place; and one with.
  fs::copy(folder_ + "/step-00000001", folder_ + "/.step-00000001.11-1.old");
  fs::copy(folder_ + "/step-00000001", folder_ + "/.step-00000008.11-1.old");
  const std::string busy = folder_ + "/.step-00000005.11-0.tmp";
  fs::create_directory(busy);
  const auto held = HeldFolder::take(busy);
  const std::size_t before = entries();

  Checkpoints all(folder_);
  EXPECT_EQ(steps(all), Steps{1});
  EXPECT_EQ(entries(), before) << "looking changes nothing";
  all.claim();
  for (const std::string& name : mine) EXPECT_TRUE(fs::exists(folder_ + "/" + name)) << name;
  EXPECT_TRUE(fs::is_symlink(folder_ + "/.step-00000004.11-0.tmp"));
  EXPECT_TRUE(fs::exists(busy));
  EXPECT_FALSE(fs::exists(folder_ + "/.step-00000002.11-0.tmp"));
  EXPECT_FALSE(fs::exists(folder_ + "/.step-00000001.11-1.old"));
  EXPECT_FALSE(fs::exists(folder_ + "/.step-00000008.11-1.old"));
  EXPECT_TRUE(fs::exists(folder_ + "/step-00000008/manifest.json"));
  EXPECT_EQ(all.latest_good()->info.step, 1) << "what a link named is as it was";
}

TEST_F(CheckpointsTest, OneProcessAtATime) {
  Checkpoints all(folder_);
  save(all, 1);
  Checkpoints second(folder_);
  EXPECT_EQ(second.latest()->info.step, 1);
  const std::string error = error_of([&] { save(second, 2); });
  EXPECT_NE(error.find("is already at work there"), std::string::npos) << error;
  EXPECT_EQ(steps(second), Steps{1});
}

TEST_F(CheckpointsTest, KeepingNothingIsRefused) {
  EXPECT_THROW(Checkpoints(folder_, {.keep_last = 0}), Error);
  EXPECT_THROW(Checkpoints(folder_, {.keep_best = -1}), Error);
}

}  // namespace
}  // namespace ebb::train
