// What goes wrong with a run: numbers that are none, a checkpoint that is damaged, data, config or model that changed.
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/apps/misuse.hpp"

namespace ebb::test {
namespace {

using Json = nlohmann::json;

class RunFaults : public Commands {
 protected:
  std::string rows(float first) const {
    std::vector<float> x(64 * 2);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
    x[100] = first;
    return npy({64, 2}, x);
  }
  void put_data(float one) const {
    std::vector<std::int32_t> y(64);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::int32_t>(i % 2);
    put("x.npy", rows(one));
    put("y.npy", npy({64}, y));
  }
  // Checkpoints of steps 4 and 6.
  void train() {
    put_data(1);
    put("c.toml", array_config("x.npy", "target_path = \"y.npy\"\n") + "[every]\nsave = 2\n");
    const Ran ran = ebb({"train", "c.toml", "--out", "o", "-q"});
    ASSERT_EQ(ran.code, 0) << ran.err;
  }
  // Refused in one line, with everything as it was; `more` are arguments.
  void refused(const std::string& text, const std::vector<std::string>& more = {}) {
    const auto before = contents();
    std::vector<std::string> arguments = {"resume", "o", "-q"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_line(ebb(arguments), 2, text);
    auto after = contents();
    // The lock's holder is noted while it looks, and the log says why it ended.
    EXPECT_TRUE(after["o/log.txt"].starts_with(before.at("o/log.txt")));
    after["o/log.txt"] = before.at("o/log.txt");
    EXPECT_EQ(after, before);
  }
  Json looked_at(const std::string& run) {
    const Ran ran = ebb({"inspect", run, "--json", "--digest"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.code == 0 ? Json::parse(ran.out) : Json();
  }
};

TEST_F(RunFaults, numbersThatAreNoneEndItAndAreNotSaved) {
  const Ran ran = train_too_fast("1e18", "1", "o");
  expect_line(ran, 1, "step 4: the loss or its gradient was NaN or infinite 2 times in a row");
  EXPECT_HAS(ran.err, "the first: linear in layers/1, on the way forward, made -inf at [0, 0]");
  EXPECT_HAS(ran.err, "the last good checkpoint is that of step 2");
  EXPECT_EQ(looked_at("o")["checkpoints"].back()["step"], 2);
  EXPECT_HAS(content("o/log.txt"), "error   step 4: the loss or its gradient was NaN");
}

TEST_F(RunFaults, dataThatHoldsNoNumberIsNamed) {
  put_data(NAN);
  put("c.toml", array_config("x.npy", "target_path = \"y.npy\"\nvalidation_fraction = 0\n"));
  const Ran ran = ebb({"train", "c.toml", "--out", "o", "-q", "--set", "train.batch=64", "--set",
                       "train.bad_steps=1"});
  expect_line(ran, 1, "step 1: the loss or its gradient was NaN or infinite 1 time in a row");
  EXPECT_HAS(ran.err, "the first: column \"x\" of the batch holds nan at [");
  EXPECT_HAS(ran.err, "nothing was saved before");
  EXPECT_HAS(ran.err, "begins it again");
}

TEST_F(RunFaults, whatHasChangedIsRefusedByName) {
  train();
  const std::vector<std::string> longer = {"--set", "train.steps=8"};
  put("x.npy", rows(2));
  refused("o: the run there was begun otherwise: the content of data.path is 640 bytes", longer);
  put("x.npy", rows(1));
  const std::string y = content("y.npy");
  put("y.npy", y.substr(0, y.size() - 4) + std::string(4, '\0'));
  refused("the content of data.target_path is ", longer);
  put("y.npy", y);
  refused("model.hidden is [9] now, and was [8]", {"--set", "model.hidden=[9]"});
  refused("train.lr is 0.5 now, and was not set", {"--set", "train.lr=0.5"});
  const std::string config = content("o/config.toml");
  put("o/config.toml", config + "\n[zzz]\n");
  refused("there is no section \"zzz\"", longer);
  put("o/config.toml", config);
  std::filesystem::remove(path("x.npy"));
  refused("x.npy\": No such file or directory", longer);
  put("x.npy", rows(1));
  const Ran ran = ebb({"resume", "o", "-q", "--set", "train.steps=8"});
  EXPECT_EQ(ran.code, 0) << ran.err;
}

TEST_F(RunFaults, aDamagedCheckpointIsNamedWithTheWayOn) {
  train();
  ASSERT_EQ(ebb({"train", "c.toml", "--out", "whole", "-q", "--set", "train.steps=8"}).code, 0);
  const std::string last = "o/checkpoints/step-00000006";
  for (const char* name : {"manifest.json", "model.safetensors", "state.safetensors"}) {
    const std::string file = last + "/" + name, good = content(file);
    const std::string way_on = " (to go on from step 4 instead, move " + last + " elsewhere)";
    for (const bool cut : {false, true}) {
      std::string bad = cut ? good.substr(0, good.size() - 9) : good;
      if (!cut) bad[bad.size() - 9] ^= 1;
      put(file, bad);
      refused("cannot load \"" + file + "\": ", {"--set", "train.steps=8"});
      refused(way_on);
      expect_line(ebb({"inspect", last}), 2, file);
    }
    put(file, good);
  }
  put(last + "/model.safetensors", "");
  std::filesystem::rename(path(last), path("damaged"));
  const Ran ran = ebb({"resume", "o", "-q", "--set", "train.steps=8"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(looked_at("o/model")["sha256"], looked_at("whole/model")["sha256"]);
}

}  // namespace
}  // namespace ebb::test
