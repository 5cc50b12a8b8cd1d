// A disk that is full, at the start, while a run saves, and while it writes its metrics and log: one line, the last
// good checkpoint in place, and where there is room again it goes on to the same bits.
#include <fmt/format.h>
#include <signal.h>
#include <sys/mount.h>

#include <nlohmann/json.hpp>

#include "tests/apps/command.hpp"

namespace ebb::test {
namespace {

using Json = nlohmann::json;

class FullDisk : public Commands {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(path("small"));
    mounted_ = ::mount("none", path("small").c_str(), "tmpfs", 0, "size=1m") == 0;
    if (!mounted_) GTEST_SKIP() << "a small file system cannot be mounted here";
  }
  void TearDown() override {
    if (mounted_) {
      EXPECT_EQ(::umount(path("small").c_str()), 0);
    }
  }
  void fill() { EXPECT_NE(shell("exec cat /dev/zero > small/filler").code, 0); }
  Json looked_at(const std::string& run) {
    const Ran ran = ebb({"inspect", run, "--json", "--digest"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.code == 0 ? Json::parse(ran.out) : Json();
  }
  bool mounted_ = false;
};

TEST_F(FullDisk, atTheStartNothingIsBegun) {
  put("c.toml", small_config());
  fill();
  const std::vector<std::string> before = files();
  expect_line(ebb({"train", "c.toml", "--out", "small/o", "-q"}), 2, "No space left on device");
  EXPECT_EQ(files(), before);
}

TEST_F(FullDisk, whileItSavesTheLastGoodCheckpointStays) {
  put("c.toml", small_config("steps = 100\n") + "[every]\nsave = 1\n[output]\nkeep_last = 1000\n");
  const Ran ran = ebb({"train", "c.toml", "--out", "small/o", "-q"});
  expect_line(ran, 1, "could not be saved, and training stops: ");
  EXPECT_HAS(ran.err, "No space left on device");
  const Json run = looked_at("small/o");
  ASSERT_GE(run["checkpoints"].size(), 1u);
  const std::int64_t last = run["checkpoints"].back()["step"];
  EXPECT_HAS(ran.err, fmt::format("step {} could not be saved", last + 1));
  EXPECT_HAS(ran.err, fmt::format("the last good checkpoint is that of step {}", last));
  EXPECT_HAS(ran.err, "ebb resume small/o goes on from there");
  // With room for more: the same bits.
  ASSERT_EQ(ebb({"train", "c.toml", "--out", "whole", "-q"}).code, 0);
  ASSERT_EQ(::mount("none", path("small").c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  const Ran more = ebb({"resume", "small/o", "-q"});
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(looked_at("small/o/model")["sha256"], looked_at("whole/model")["sha256"]);
}

TEST_F(FullDisk, whileItWritesMetricsAndLogTheLastGoodCheckpointStays) {
  const std::string config = small_config("steps = 3\n") + "[every]\nlog = 1\neval = 1\n";
  put("c.toml", config);
  ASSERT_EQ(ebb({"train", "c.toml", "--out", "small/o", "-q"}).code, 0);
  const Running r = start({EBB_BINARY, "resume", "small/o", "-q", "--set", "train.steps=1000000",
                           "--set", "every.save=\"never\""});
  ASSERT_TRUE(appears("small/o/log.txt", " resume "));
  ASSERT_TRUE(appears("small/o/log.txt", "eval    step 5"));  // it makes steps
  fill();
  const Ran ran = wait_for(r);
  expect_line(ran, 1, "No space left on device");
  EXPECT_HAS(ran.err, "the last good checkpoint is that of step 3");
  EXPECT_EQ(looked_at("small/o")["checkpoints"].back()["step"], 3);
  std::filesystem::remove(path("small/filler"));
  const Ran more = ebb({"resume", "small/o", "-q", "--set", "train.steps=6"});
  EXPECT_EQ(more.code, 0) << more.err;
  ASSERT_EQ(ebb({"train", "c.toml", "--out", "whole", "-q", "--set", "train.steps=6"}).code, 0);
  EXPECT_EQ(looked_at("small/o/model")["sha256"], looked_at("whole/model")["sha256"]);
}

// What was trained is there, and only its copy for others is not.
TEST_F(FullDisk, whereTheModelCannotBeWrittenTheRunIsSaved) {
  put("c.toml", small_config("steps = 1000000\n") + "[every]\nsave = 1\n");
  const Running r = start({EBB_BINARY, "train", "c.toml", "--out", "small/o", "-q"});
  ASSERT_TRUE(appears("small/o/log.txt", " save "));
  put("small/o/model", "in the way");
  ::kill(r.pid, SIGTERM);
  expect_line(wait_for(r), 1, "; all steps are saved, and ebb resume small/o writes the model");
  std::filesystem::remove(path("small/o/model"));
  const std::int64_t step = looked_at("small/o")["checkpoints"].back()["step"];
  const Ran more = ebb({"resume", "small/o", "-q", "--set", fmt::format("train.steps={}", step)});
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_NE(looked_at("small/o/model")["sha256"], "");
}

}  // namespace
}  // namespace ebb::test
