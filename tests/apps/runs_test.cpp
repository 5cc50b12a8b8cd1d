// A run that goes on, is over, or has saved nothing: what each command says, and what stays.
#include <cmath>
#include <limits>

#include "tests/apps/command.hpp"

namespace ebb::test {
namespace {

class Runs : public Commands {
 protected:
  void SetUp() override { put("c.toml", small_config()); }
};

TEST_F(Runs, whatIsSetOnResumeIsKept) {
  ASSERT_EQ(ebb({"train", "c.toml", "-q"}).code, 0);
  const std::string begun = content("runs/c/config.toml");
  EXPECT_HAS(begun, "steps = 6\n");
  expect_line(ebb({"resume", "runs/c", "--set", "train.lr=3", "--set", "train.steps=9"}), 2,
              "train.lr is 3 now");
  EXPECT_EQ(content("runs/c/config.toml"), begun) << "what was refused is not kept";

  const Ran longer = ebb({"resume", "runs/c", "--memory", "48MiB", "--set", "train.steps=9"});
  EXPECT_HAS(longer.out, "step 9,");
  const std::string kept = content("runs/c/config.toml");
  EXPECT_HAS(kept, "steps = 9\n");
  EXPECT_HAS(kept, "budget = \"48 MiB\"");
  const Ran again = ebb({"resume", "runs/c"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_HAS(again.out, "finished at step 9");
  EXPECT_EQ(content("runs/c/config.toml"), kept);
}

TEST_F(Runs, ofAFinishedOneTheTruthIsSaid) {
  const Ran train = ebb({"train", "c.toml"});
  const std::size_t at = train.out.find("step 6, loss ");
  ASSERT_NE(at, std::string::npos) << train.out;
  const std::string loss = train.out.substr(at + 13, train.out.find(',', at + 13) - at - 13);
  const Ran again = ebb({"resume", "runs/c"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_HAS(again.out, "runs/c: finished at step 6, loss " + loss);
  EXPECT_HAS(again.out, "accuracy");
  EXPECT_HAS(again.out, "a larger train.steps (--set) goes on");
  EXPECT_EQ(again.out.find("smallest budget"), std::string::npos) << "no plan of nothing";

  put("p.toml", small_config("epochs = 9\npatience = 1\nmin_change = 100\n"));
  ASSERT_EQ(ebb({"train", "p.toml", "-q"}).code, 0);
  const Ran early = ebb({"resume", "runs/p"});
  EXPECT_EQ(early.code, 0) << early.err;
  EXPECT_HAS(early.out, "runs/p: stopped early at step ");
  EXPECT_HAS(early.out, "a larger train.patience (--set) goes on");
}

// Weights that leave all bounds in the first step, and a batch that holds a NaN from the beginning.
TEST_F(Runs, oneThatWentWrongBeforeItSavedCanBeBegunAgain) {
  const Ran bad = train_too_fast("1e30", "\"never\"", "r");
  expect_line(bad, 1, "was NaN or infinite 2 times in a row");
  EXPECT_HAS(bad.err, "; the first: ");
  EXPECT_HAS(bad.err, "nothing was saved before");
  EXPECT_HAS(bad.err, "ebb resume r --set KEY=VALUE begins it again");
  EXPECT_HAS(content("r/log.txt"), "was NaN or infinite");
  expect_line(ebb({"eval", "r"}), 2, "no checkpoint yet");
  expect_line(ebb({"resume", "r", "-q"}), 1, "was NaN or infinite 2 times in a row");

  const Ran resumed = ebb({"resume", "r", "--set", "train.lr=0.01"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_HAS(resumed.out, "r: nothing was saved there; it begins at step 0");
  EXPECT_HAS(content("r/config.toml"), "lr = 0.01");
  expect_line(ebb({"train", "c.toml", "--out", "r"}), 2, "it holds a run already");

  EXPECT_EQ(ebb({"train", "c.toml", "--out", "s", "-q"}).code, 1);
  const Ran anew = ebb({"train", "c.toml", "--set", "train.lr=0.01", "--out", "s"});
  EXPECT_EQ(anew.code, 0) << anew.err;
  EXPECT_HAS(anew.out, "s: the run there has saved nothing; it begins anew");
  EXPECT_EQ(content("s/metrics.csv").find("nan"), std::string::npos) << content("s/metrics.csv");
  EXPECT_EQ(content("s/checkpoints/step-00000012/model.safetensors"),
            content("r/checkpoints/step-00000012/model.safetensors"));
}

TEST_F(Runs, aNanInTheFirstBatchIsNoBadCommand) {
  std::vector<float> x(64 * 2, std::numeric_limits<float>::quiet_NaN());
  put("x.npy", npy({64, 2}, x));
  put("y.npy", npy({64}, std::vector<float>(64)));
  put("n.toml", small_config("bad_steps = 1\n", "path = \"x.npy\"\ntarget_path = \"y.npy\"\n"));
  expect_line(ebb({"train", "n.toml", "-q"}), 1, "step 1: the loss or its gradient was NaN");
  put("x.npy", npy({64, 2}, std::vector<float>(64 * 2, 1)));
  const Ran resumed = ebb({"resume", "runs/n"});
  EXPECT_EQ(resumed.code, 0) << resumed.err << resumed.out;
}

// Killed before the first save, with another process that is at work in the directory since.
TEST_F(Runs, oneThatIsAtWorkIsNotBegunAnew) {
  const std::string seldom = small_config("epochs = 100000\n") + "[every]\nsave = \"never\"\n";
  put("c.toml", seldom);
  const Running first = start({EBB_BINARY, "train", "c.toml", "--out", "r", "-q"});
  ASSERT_TRUE(appears("r/metrics.csv", "loss"));
  expect_line(ebb({"train", "c.toml", "--out", "r"}), 2,
              "process " + std::to_string(first.pid) + " is at work there");
  EXPECT_EQ(shell("kill -9 " + std::to_string(first.pid)).code, 0);
  EXPECT_EQ(wait_for(first).code, 137);
  const Ran anew = ebb({"train", "c.toml", "--out", "r", "--set", "train.steps=3"});
  EXPECT_EQ(anew.code, 0) << anew.err;
  EXPECT_HAS(anew.out, "it begins anew");
}

}  // namespace
}  // namespace ebb::test
