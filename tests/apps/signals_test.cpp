// Ctrl-C, SIGTERM and kill -9 in every phase of a run. The process stands still when a signal is sent, and what it
// has read, computed and written by then says for certain which phase it is in.
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/apps/command.hpp"
#include "tests/apps/misuse.hpp"
#include "tests/apps/process_state.hpp"

namespace ebb::test {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr char kNothing[] = "ebb: interrupted before the first step; nothing was written\n";

class Signals : public Commands {
 protected:
  Running train(const std::string& config) {
    return start({EBB_BINARY, "train", config, "--out", "o"});
  }
  // What comes of a signal to one that stands still; it does not take long.
  Ran after(const Running& r, int signal) {
    const auto sent = Clock::now();
    signal_and_go_on(r.pid, signal);
    const Ran ran = wait_for(r);
    EXPECT_LT(Clock::now() - sent, std::chrono::seconds(10));
    return ran;
  }
  Json looked_at(const std::string& run) {
    const Ran ran = ebb({"inspect", run, "--json", "--digest"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.code == 0 ? Json::parse(ran.out) : Json();
  }
  std::string digest(const std::string& run) { return looked_at(run + "/model")["sha256"]; }
  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    std::error_code none_yet;
    for (const auto& entry : std::filesystem::directory_iterator(path("o/checkpoints"), none_yet))
      names.push_back(entry.path().filename().string());
    return names;
  }
  // Any of these names begins and ends so.
  bool has_checkpoint(const std::string& begin, const std::string& end = "") const {
    for (const std::string& name : checkpoints())
      if (name.starts_with(begin) && name.ends_with(end)) return true;
    return false;
  }
  // A table that takes a while to read: so many bytes.
  std::uint64_t put_table() const {
    std::string text = "x,y\n";
    while (text.size() < (48u << 20)) text += "0.123456789,0.987654321\n1.5e-3,-2.25e2\n";
    put("t.csv", text);
    return text.size();
  }
};

TEST_F(Signals, whileDataIsReadNothingIsWritten) {
  put("c.toml", array_config("t.csv", "target = \"y\"\n"));
  const std::uint64_t size = put_table();
  const std::vector<std::string> before = files();
  const auto reads = [&](int pid) {
    const std::uint64_t read = bytes_read(pid);
    return read > size / 8 && read < size && has_open(pid, path("t.csv"));
  };
  for (const int signal : {SIGINT, SIGTERM}) {
    const Running r = train("c.toml");
    ASSERT_TRUE(stopped_where(r.pid, [&] { return reads(r.pid); }));
    const Ran ran = after(r, signal);
    EXPECT_EQ(ran.code, 128 + signal);
    EXPECT_EQ(ran.err, kNothing);
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(files(), before);
  }
  // So it is with a run that goes on.
  ASSERT_EQ(ebb({"train", "c.toml", "--out", "o", "-q", "--set", "train.steps=2"}).code, 0);
  std::filesystem::remove(path("o/model/config.toml"));  // not written anew
  const auto run = contents();
  const Running r = start({EBB_BINARY, "resume", "o", "--set", "train.steps=4"});
  ASSERT_TRUE(stopped_where(r.pid, [&] { return reads(r.pid); }));
  const Ran ran = after(r, SIGINT);
  EXPECT_EQ(ran.code, 130);
  EXPECT_EQ(ran.err, "ebb: interrupted before it went on; the run is as it was\n");
  EXPECT_EQ(contents(), run);
}

TEST_F(Signals, whileItPlansNothingIsWritten) {
  const std::string text = std::string(200000, 'a') + "bcdefgh";
  put("t.txt", text);
  put("c.toml",
      "[model]\nkind = \"gpt\"\nwidth = 64\ndepth = 36\nheads = 4\n[data]\npath = \"t.txt\"\n"
      "[train]\nbatch = 32\nsteps = 1000\n[memory]\nbudget = \"80MiB\"\n");
  const std::vector<std::string> before = files();
  for (const int signal : {SIGINT, SIGTERM}) {
    const Running r = train("c.toml");
    // It has computed for a while, all data being read and nothing written: there is nothing else to do then.
    std::uint64_t read = 0;
    double since = 0;
    const auto plans = [&] {
      if (const std::uint64_t now = bytes_read(r.pid); now < text.size() || now > read + 50000) {
        read = now;
        since = cpu_seconds(r.pid);
      }
      return read >= text.size() && cpu_seconds(r.pid) > since + 0.05 && files() == before;
    };
    ASSERT_TRUE(stopped_where(r.pid, plans));
    const Ran ran = after(r, signal);
    EXPECT_EQ(ran.code, 128 + signal);
    EXPECT_EQ(ran.err, kNothing);
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(files(), before);
  }
}

TEST_F(Signals, whileThePlanIsShownNothingIsWritten) {
  put("c.toml", small_config());
  const std::vector<std::string> before = files();
  // A pipe that is full, and nobody reads from.
  const Running r = start({"bash", "-c",
                           "mkfifo full && exec 3<>full && rm full && head -c 65536 /dev/zero >&3 "
                           "&& exec $EBB train c.toml --out o >&3"});
  ASSERT_TRUE(stopped_where(r.pid, [&] { return is_writing(r.pid, 1); }));
  const Ran ran = after(r, SIGINT);
  EXPECT_EQ(ran.code, 130);
  EXPECT_EQ(ran.err, kNothing);
  EXPECT_EQ(files(), before);
}

// Steps, and saves, that take their time: a step is long beside the moment between two signals.
class StoppedSteps : public Signals {
 protected:
  StoppedSteps() {
    put("c.toml",
        "[model]\nkind = \"mlp\"\nhidden = [900]\ndropout = 0.1\n[data]\nformat = "
        "\"digits\"\nrows = 12288\n[train]\nbatch = 6144\nsteps = 3\nlr = 0.001\nema = "
        "0.9\nschedule "
        "= \"cosine\"\n[memory]\nbudget = \"none\"\n[every]\nlog = 1\nsave = 1\neval = "
        "\"never\"\n[output]\nkeep_best = false\n");
    const Ran ran = ebb({"train", "c.toml", "--out", "whole", "-q"});
    EXPECT_EQ(ran.code, 0) << ran.err;
  }
  // It has begun, and computed for a while, and no step has ended.
  bool stopped_in_first_step(int pid) {
    double since = 0;
    return stopped_where(pid, [&] {
      if (content("o/log.txt").find(" start ") == std::string::npos) return false;
      if (since == 0) since = cpu_seconds(pid);
      return cpu_seconds(pid) > since + 0.015 && content("o/metrics.jsonl").empty() &&
             !has_checkpoint("step-");
    });
  }
  // The second one is written, the first is there.
  bool saves() const {
    return has_checkpoint("step-00000001") && has_checkpoint(".step-00000002.", ".tmp");
  }
  void expect_saved(const Ran& ran, int signal, std::int64_t step) {
    EXPECT_EQ(ran.code, 128 + signal);
    EXPECT_HAS(ran.err, "ebb: stopped by a signal and saved; ebb resume o goes on\n");
    EXPECT_FALSE(has_checkpoint(".", ".tmp")) << "left behind";
    const Json run = looked_at("o");
    EXPECT_EQ(run["checkpoints"].back()["step"], step) << run.dump();
  }
  // All checkpoints are good, and the run ends as one that was never stopped.
  void expect_to_go_on() {
    looked_at("o");
    const Ran more = ebb({"resume", "o", "-q"});
    EXPECT_EQ(more.code, 0) << more.err;
    EXPECT_EQ(digest("o"), digest("whole"));
    EXPECT_FALSE(has_checkpoint(".step")) << "left behind";
    std::filesystem::remove_all(path("o"));
  }
};

TEST_F(StoppedSteps, inTheFirstOneItIsFinishedAndSaved) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Running r = train("c.toml");
    ASSERT_TRUE(stopped_in_first_step(r.pid));
    expect_saved(after(r, signal), signal, 1);
    expect_to_go_on();
  }
}

TEST_F(StoppedSteps, twiceInTheFirstOneItEndsAtOnce) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Running r = train("c.toml");
    ASSERT_TRUE(stopped_in_first_step(r.pid));
    signal_and_go_on(r.pid, signal);
    while (is_pending(r.pid, signal)) std::this_thread::yield();
    const Ran ran = after(r, signal);
    EXPECT_EQ(ran.code, 128 + signal);
    EXPECT_EQ(ran.err, "");
    EXPECT_FALSE(has_checkpoint("step-")) << "it has gone on";
    expect_to_go_on();
  }
}

TEST_F(StoppedSteps, whileItSavesThatIsFinished) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Running r = train("c.toml");
    ASSERT_TRUE(stopped_where(r.pid, [&] { return saves(); }));
    expect_saved(after(r, signal), signal, 2);
    expect_to_go_on();
  }
}

TEST_F(StoppedSteps, killedOrToldTwiceWhileItSavesTheOneBeforeIsGood) {
  for (const bool killed : {false, true}) {
    const Running r = train("c.toml");
    ASSERT_TRUE(stopped_where(r.pid, [&] { return saves(); }));
    if (!killed) ::kill(r.pid, SIGTERM);  // both come when it goes on
    const Ran ran = after(r, killed ? SIGKILL : SIGINT);
    EXPECT_TRUE(killed ? ran.code == 137 : ran.code == 130 || ran.code == 143) << ran.code;
    EXPECT_EQ(ran.err.find("saved"), std::string::npos) << ran.err;
    EXPECT_TRUE(saves()) << "it has gone on";
    EXPECT_EQ(looked_at("o")["checkpoints"].back()["step"], 1);
    expect_to_go_on();
  }
}

}  // namespace
}  // namespace ebb::test
