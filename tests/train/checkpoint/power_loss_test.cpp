// After a power cut at any moment of a run that saves, keeps the best, replaces and rotates, the latest checkpoint is
// whole, and not older than the last save that had returned.
#include "tests/train/checkpoint/power_loss.hpp"

#include <random>
#include <set>

#include "ebb/base/files/file.hpp"
#include "ebb/base/files/file_record.hpp"
#include "tests/train/checkpoint/training.hpp"

namespace ebb::train {
namespace {

using test::Bytes;
using test::Disk;
using test::Tiny;

class PowerLoss : public test::FolderTest {
 protected:
  struct Saved {
    std::size_t began = 0, returned = 0;  // of the operations
    Bytes bytes = {};
  };
  void record(std::initializer_list<int> steps) {
    const file_record::Recording recording;
    Checkpoints all(root_, {.keep_last = 2, .keep_best = 1});
    Tiny tiny;
    for (const int step : steps) {
      Saved s{.began = recording.operations().size()};
      tiny.set(100 + static_cast<std::int64_t>(saves_.size()));
      s.bytes = tiny.all();
      all.save({.step = step, .metric = "loss", .value = step % 3}, tiny.weight, tiny);
      s.returned = recording.operations().size();
      saves_.push_back(std::move(s));
    }
    operations_ = recording.operations();
  }
  // At a cut after so many operations the latest is one of these.
  std::set<std::size_t> allowed(std::size_t cut) const {
    std::set<std::size_t> which;
    for (std::size_t i = 0; i < saves_.size(); ++i) {
      if (saves_[i].returned <= cut)
        which = {i};
      else if (saves_[i].began < cut)
        which.insert(i);
    }
    return which;
  }
  void check(std::size_t cut, const std::string& what) {
    ++states_;
    const std::set<std::size_t> which = allowed(cut);
    const bool must = cut >= saves_[0].returned;
    Tiny found;
    try {
      Checkpoints all(state_ + "/run");
      if (states_ % 2) {  // as the next process does; what it removes is not missed
        std::filesystem::create_directories(state_);
        all.claim();
      }
      const auto last = all.latest();
      ASSERT_TRUE(last || !must) << what;
      if (!last) return;
      train::load(last->path, found.weight, found);
      for (const Checkpoint& c : all.list()) EXPECT_EQ(c.damage, "") << what;
    } catch (const Error& e) {
      FAIL() << what << ": " << e.what();
    }
    const bool right = std::any_of(which.begin(), which.end(),
                                   [&](std::size_t i) { return saves_[i].bytes == found.all(); });
    EXPECT_TRUE(right) << what;
  }
  ~PowerLoss() override { std::filesystem::remove_all(states_in_); }
  static std::string in_memory() {  // thousands of them, of which nothing need reach a disk
    std::string name =
        file_exists("/dev/shm") ? "/dev/shm/ebb-power-XXXXXX" : "/var/tmp/ebb-power-XXXXXX";
    return ::mkdtemp(name.data());
  }
  std::string root_ = folder_ + "/disk/run", states_in_ = in_memory(),
              state_ = states_in_ + "/state";
  std::vector<file_record::Operation> operations_;
  std::vector<Saved> saves_;
  std::size_t states_ = 0;
};

TEST_F(PowerLoss, LeavesAGoodCheckpoint) {
  std::filesystem::create_directory(folder_ + "/disk");
  record({1, 2, 3, 4, 5, 5, 4, 6});  // some are replaced
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Disk disk(folder_ + "/disk");
  for (std::size_t cut = 0; cut <= operations_.size(); ++cut) {
    const auto state = [&](const std::function<bool(std::size_t)>& kept, std::size_t missing,
                           const std::string& what) {
      disk.materialise(state_, kept, missing);
      check(cut, what + " at operation " + std::to_string(cut));
      std::filesystem::remove_all(state_);
    };
    // Every prefix of what is pending, the last write whole and cut short; then any part of it.
    for (std::size_t prefix = 0; prefix <= disk.pending(); ++prefix) {
      state([&](std::size_t i) { return i < prefix; }, 0, "prefix " + std::to_string(prefix));
      state([&](std::size_t i) { return i < prefix; }, 1 + random() % 40, "a cut prefix");
    }
    for (int draw = 0; draw < 4; ++draw)
      state([&](std::size_t) { return random() % 2 == 0; }, draw % 2 ? random() % 40 : 0, "a part");
    ASSERT_FALSE(HasFailure());
    if (cut < operations_.size()) disk.apply(operations_[cut]);
  }
  EXPECT_GE(states_, 1000u);
  RecordProperty("states", static_cast<int>(states_));
  std::printf("%zu operations, %zu states\n", operations_.size(), states_);
}

}  // namespace
}  // namespace ebb::train
