// The program as a user runs it: killed at any moment, asked to stop, started twice. What is left can always be taken
// up again, and ends with the weights of a run that nobody has touched.
//
//   EBB_PROGRAM_KILLS=200 build/release/tests/train_tests --gtest_filter=Program.Killed*
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "ebb/train/checkpoint/checkpoints.hpp"
#include "ebb/train/run/run_directory.hpp"
#include "tests/error_of.hpp"
#include "tests/train/tales.hpp"

namespace ebb::train {
namespace {

using namespace std::chrono_literals;
using Time = std::chrono::steady_clock;

constexpr char kConfig[] = R"([model]
kind = "mlp"
hidden = [32]
dropout = 0.2
[data]
format = "digits"
rows = 240
[train]
batch = 32
epochs = 2
lr = 0.003
schedule = "cosine"
warmup = 5
ema = 0.9
clip_norm = 1.0
)";

class Program : public ::testing::Test {
 protected:
  Program() { test::put(folder_ / "run.toml", std::string(kConfig) + test::kSavesEachStep); }

  pid_t start(const std::vector<std::string>& words) const {
    const char* another = std::getenv("EBB_PROGRAM");
    std::vector<const char*> arguments = {another ? another : EBB_PROGRAM};
    for (const std::string& w : words) arguments.push_back(w.c_str());
    arguments.push_back(nullptr);
    const std::string said = folder_ / "said.txt";
    const pid_t child = ::fork();
    if (child == 0) {
      const int out = ::open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::execv(arguments[0], const_cast<char**>(arguments.data()));
      ::_exit(127);
    }
    return child;
  }
  static int wait(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  int run(const std::vector<std::string>& words) const { return wait(start(words)); }
  // Begins the run, or goes on with it.
  std::vector<std::string> next() const {
    if (RunDirectory::is_run(run_)) return {"resume", run_};
    return {"train", folder_ / "run.toml", "--out", run_};
  }
  std::string said() const { return test::content(folder_ / "said.txt"); }
  std::string weights(const std::string& run) const {
    const auto last = Checkpoints(run + "/checkpoints").latest();
    return last ? test::content(last->path + "/model.safetensors") +
                      test::content(last->path + "/state.safetensors")
                : "none";
  }
  std::int64_t saved() const {
    try {
      const auto last = Checkpoints(run_ + "/checkpoints").latest();
      return last ? last->info.step : 0;
    } catch (const Error&) {  // it was removed while we looked
      return -1;
    }
  }
  void wait_for_begin() const {  // of the loop: from here on a signal is heeded
    const auto begun = [&] {
      return test::content(run_ + "/log.txt").find(" start ") != std::string::npos;
    };
    for (const auto end = Time::now() + 30s; !begun() && Time::now() < end;)
      std::this_thread::sleep_for(2ms);
    ASSERT_TRUE(begun()) << said();
  }
  void wait_for_step(std::int64_t step) const {
    for (const auto end = Time::now() + 20s; saved() < step && Time::now() < end;)
      std::this_thread::sleep_for(2ms);
    ASSERT_GE(saved(), step) << said();
  }

  test::Folder folder_;
  std::string run_ = folder_ / "run";
};

TEST_F(Program, KilledAtRandomMomentsItGoesOn) {
  const auto began = Time::now();
  ASSERT_EQ(run({"train", folder_ / "run.toml", "--out", folder_ / "whole"}), 0) << said();
  const auto longest = std::chrono::duration_cast<std::chrono::microseconds>(Time::now() - began);
  const std::string whole = weights(folder_ / "whole"),
                    metrics = std::to_string(test::lines(folder_ / "whole/metrics.csv").size());
  const char* set = std::getenv("EBB_PROGRAM_KILLS");
  const int kills = set ? std::atoi(set) : 10;
  const unsigned seed = std::getenv("EBB_KILL_SEED")
                            ? static_cast<unsigned>(std::atol(std::getenv("EBB_KILL_SEED")))
                            : std::random_device()();
  std::printf("EBB_PROGRAM_KILLS=%d EBB_KILL_SEED=%u\n", kills, seed);
  std::mt19937 random(seed);
  int runs = 0, first = 0, killed = 0, halves = 0;
  // From before there is a directory to after its last step, over and over.
  while (killed < kills) {
    const bool fresh = !RunDirectory::is_run(run_);
    const pid_t child = start(next());
    std::this_thread::sleep_for(
        std::chrono::microseconds(random() % static_cast<unsigned>(longest.count())));
    ::kill(child, SIGKILL);
    const int code = wait(child);
    if (code == -SIGKILL) {
      ++killed;
      first += fresh;
    } else {
      ASSERT_EQ(code, 0) << said();
      EXPECT_EQ(weights(run_), whole);
      EXPECT_EQ(std::to_string(test::lines(run_ + "/metrics.csv").size()), metrics);
      ++runs;
      std::filesystem::remove_all(run_);
      continue;
    }
    if (std::filesystem::exists(run_ + "/checkpoints"))
      for (const std::string& name : test::names_in(run_ + "/checkpoints"))
        halves += name.ends_with(".tmp");
  }
  ASSERT_EQ(run(next()), 0) << said();
  EXPECT_EQ(weights(run_), whole);
  std::printf(
      "%d kills: %d of a first process, %d while saving or removing; %d runs came to their end\n",
      killed, first, halves, runs + 1);
}

TEST_F(Program, AskedOnceItSavesAndEndsAskedTwiceItEnds) {
  for (const int signal : {SIGINT, SIGTERM}) {
    std::filesystem::remove_all(run_);
    const pid_t child = start({"train", folder_ / "run.toml", "--out", run_, "--set",
                               "train.epochs=100000", "--set", "every.save=\"1000 epochs\""});
    wait_for_begin();
    const auto asked = Time::now();
    ::kill(child, signal);
    EXPECT_EQ(wait(child), 128 + signal) << said();
    EXPECT_LT(Time::now() - asked, 10s);
    EXPECT_TRUE(Checkpoints(run_ + "/checkpoints").latest());
    EXPECT_HAS(said(), "stopped by a signal and saved; ebb resume");
  }
  // Steps that take their time, so that the second one comes before the first was heeded.
  std::filesystem::remove_all(run_);
  const pid_t child =
      start({"train", folder_ / "run.toml", "--out", run_, "--set",
             "model.hidden=[2000, 2000, 2000]", "--set", "data.rows=600", "--set",
             "train.batch=512", "--set", "every.save=\"never\"", "--set", "train.epochs=1000"});
  wait_for_begin();
  ::kill(child, SIGTERM);
  std::this_thread::sleep_for(20ms);
  const auto asked = Time::now();
  ::kill(child, SIGTERM);
  EXPECT_EQ(wait(child), -SIGTERM) << said();
  EXPECT_LT(Time::now() - asked, 1s);
}

TEST_F(Program, ASecondProcessIsRefusedAndToldWhoIsThere) {
  const pid_t child =
      start({"train", folder_ / "run.toml", "--out", run_, "--set", "train.epochs=100000"});
  wait_for_step(2);
  const std::string metrics = test::content(run_ + "/metrics.jsonl");
  EXPECT_EQ(run({"resume", run_}), 2);
  EXPECT_HAS(said(), "process " + std::to_string(child) + " is at work there");
  EXPECT_TRUE(test::content(run_ + "/metrics.jsonl").starts_with(metrics)) << "it was cut";
  EXPECT_EQ(run({"train", folder_ / "run.toml", "--out", run_}), 2);
  EXPECT_HAS(said(), "it holds a run already");
  ::kill(child, SIGKILL);
  wait(child);
  EXPECT_EQ(run({"resume", run_, "--set", "train.epochs=1"}), 0) << said();
}

}  // namespace
}  // namespace ebb::train
