// What ends or disturbs a real training run on several processes, `ebb train` that saves every other step, at random
// moments: the job is over in time and says what it was, the last checkpoint is good, and with as many processes or
// another number of them the run ends with the bits of one that was never disturbed.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ebb/base/files/file.hpp"
#include "ebb/ebb.hpp"
#include "tests/dist/hosts.hpp"
#include "tests/dist/moments.hpp"
#include "tests/dist/shell.hpp"
#include "tests/error_of.hpp"

namespace ebb::test {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 150;
constexpr char kConfig[] = R"(
[model]
kind = "mlp"
hidden = [32]
dropout = 0.1
[data]
path = "x.npy"
target_path = "y.npy"
in_memory = false
[train]
batch = 50
steps = 150
clip_norm = 1.0
[every]
save = 2
eval = 10
)";

class FailuresOfTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_jobs(); !why.empty()) GTEST_SKIP() << why;
    folder_ = (fs::temp_directory_path() / fmt::format("ebb-training-{}", getpid())).string();
    fs::remove_all(folder_);
    const Batch digits = data::digits(600, 1).all();
    for (int rank = 0; rank < 4; ++rank) {  // each rank may have files of its own
      fs::create_directories(of_rank(rank));
      save_npy(of_rank(rank) + "/x.npy", digits["image"]);
      save_npy(of_rank(rank) + "/y.npy", digits["label"]);
      std::ofstream(of_rank(rank) + "/c.toml") << kConfig;
    }
    const Ran ran =
        shell(fmt::format("{} train {}/c.toml --out {}/whole --set output.keep_last=1000 -q",
                          EBB_COMMAND, of_rank(0), folder_));
    ASSERT_EQ(ran.code, 0) << ran.text;
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  std::string of_rank(int rank) const { return fmt::format("{}/rank-{}", folder_, rank); }

  // A run in `directory`, when it has got to the moment. None: it ended before.
  std::unique_ptr<Job> at_work(const std::string& directory, const Moment& m,
                               JobOptions options = {}) const {
    options.ranks = m.ranks;
    options.program = {EBB_COMMAND, "train", of_rank(0) + "/c.toml", "--out", directory, "-q"};
    return started(directory, m, options);
  }
  static std::unique_ptr<Job> started(const std::string& directory, const Moment& m,
                                      const JobOptions& options) {
    auto job = std::make_unique<Job>(options);
    for (const double end = seconds() + 60; seconds() < end && !job->ended(); ::usleep(2000)) {
      if (last_saved(directory) < m.step || !begun(directory)) continue;
      sleep_for(m.after / 40);
      return job;
    }
    ADD_FAILURE() << "the run did not get to step " << m.step << ": " << job->err();
    return nullptr;
  }
  static bool begun(const std::string& directory) {
    return file_exists(directory + "/log.txt") &&
           read_file(directory + "/log.txt").find(" start ") != std::string::npos;
  }
  // 0: nothing was.
  static int last_saved(const std::string& directory) {
    int last = 0;
    std::error_code none_yet;
    for (const auto& entry : fs::directory_iterator(directory + "/checkpoints", none_yet))
      if (const std::string name = entry.path().filename(); name.starts_with("step-"))
        last = std::max(last, std::atoi(name.c_str() + 5));
    return last;
  }

  // As in the run that nothing has happened to.
  void expect_checkpoint(const std::string& directory, int step) const {
    for (const char* file : {"model.safetensors", "state.safetensors"}) {
      const std::string name = fmt::format("checkpoints/step-{:08d}/{}", step, file);
      EXPECT_TRUE(read_file(directory + "/" + name) == read_file(folder_ + "/whole/" + name))
          << directory << "/" << name;
    }
  }
  void expect_goes_on(const std::string& directory, int processes) const {
    const Ran ran = shell(fmt::format("timeout 100 {} resume {} --processes {} -q", EBB_COMMAND,
                                      directory, processes));
    EXPECT_EQ(ran.code, 0) << ran.text;
    if (ran.code == 0) expect_checkpoint(directory, kSteps);
  }
  void expect_good(const std::string& directory, const Moment& m) const {
    if (testing::Test::HasFailure()) return;
    if (const int last = last_saved(directory)) expect_checkpoint(directory, last);
    ASSERT_TRUE(fs::exists(directory)) << "the run is gone";
    const std::string copy = directory + "-copy";
    fs::copy(directory, copy, fs::copy_options::recursive);
    if (m.same) expect_goes_on(directory, m.ranks);
    if (m.other) expect_goes_on(copy, m.then);
    fs::remove_all(copy);
    fs::remove_all(directory);
  }

  // A run that `strike` ends: the victim is named.
  void struck(const Moment& m, const std::string& how, const std::function<void(Job&)>& strike,
              const JobOptions& options = {}) const {
    const std::string run = folder_ + "/run";
    const auto job = at_work(run, m, options);
    if (!job) return;
    const double since = seconds();
    strike(*job);
    expect_named(*job, m, how, since);
    expect_good(run, m);
  }

  std::string folder_;
};

TEST_F(FailuresOfTraining, KilledRank) {
  at_random("training, kill -9", 2, [this](const Moment& m) {
    struck(m, "it has died", [&](Job& job) { ::kill(job.process(m.rank), SIGKILL); });
  });
}

TEST_F(FailuresOfTraining, StoppedRank) {
  at_random("training, SIGSTOP", 1, [this](const Moment& m) {
    struck(m, "no sign of life for 5", [&](Job& job) { ::kill(job.process(m.rank), SIGSTOP); });
  });
}

TEST_F(FailuresOfTraining, KilledLauncher) {
  at_random("training, kill -9 mpirun", 1, [this](const Moment& m) {
    const std::string run = folder_ + "/run";
    const auto job = at_work(run, m);
    if (!job) return;
    const double since = seconds();
    ::kill(job->launcher(), SIGKILL);
    expect_over(*job, m, since);
    expect_good(run, m);
  });
}

// The rows of one rank are gone: what its next batch meets is thrown there, and nowhere else.
TEST_F(FailuresOfTraining, ExceptionOnOneRank) {
  at_random("training, exception", 1, [this](const Moment& m) {
    const std::string run = folder_ + "/run", rows = of_rank(m.rank) + "/x.npy";
    JobOptions options{.ranks = m.ranks};
    options.program = {"/bin/sh", "-c",
                       fmt::format("exec {} train {}/rank-$OMPI_COMM_WORLD_RANK/c.toml --out {} -q",
                                   EBB_COMMAND, folder_, run)};
    const auto job = started(run, m, options);
    if (!job) return;
    const std::string content = read_file(rows, 64_MiB);
    const double since = seconds();
    fs::resize_file(rows, 1000);
    expect_named(*job, m, "leaves by an exception", since);
    EXPECT_HAS(job->err(), "x.npy");
    std::ofstream(rows, std::ios::binary) << content;
    expect_good(run, m);
  });
}

// The disk that the run is written to. Where a save fails all ranks know of it; where the metrics do, the first one
// leaves.
TEST_F(FailuresOfTraining, FullDisk) {
  const std::string small = folder_ + "/small";
  fs::create_directory(small);
  if (::mount("none", small.c_str(), "tmpfs", 0, "size=16m") != 0)
    GTEST_SKIP() << "a small file system cannot be mounted here";
  at_random("training, disk full", 1, [&](const Moment& drawn) {
    Moment m = drawn;
    m.rank = 0;  // who writes
    const std::string run = small + "/run", filler = small + "/filler";
    const auto job = at_work(run, m);
    if (!job) return;
    const double since = seconds();
    shell("exec cat /dev/zero >" + filler);
    expect_over(*job, m, since);
    EXPECT_HAS(job->err(), "No space left on device");
    EXPECT_HAS(job->err(),
               "the last good checkpoint is that of step " + std::to_string(last_saved(run)));
    int named = 0;
    for (const std::string& line : job->lines())
      named += line.starts_with(fmt::format("ebb: rank 0 of {} on ", m.ranks)) &&
               line.find("step ") != std::string::npos;
    EXPECT_EQ(named, 1) << job->err();
    EXPECT_LE(job->lines().size(), 2u) << job->err();
    fs::remove(filler);
    expect_good(run, m);
  });
  EXPECT_EQ(::umount(small.c_str()), 0);
}

TEST_F(FailuresOfTraining, CutLink) {
  at_random("training, link down", 1, [this](const Moment& drawn) {
    TwoHosts hosts;
    if (!hosts.why().empty()) GTEST_SKIP() << hosts.why();
    Moment m = drawn;
    m.ranks = 2;
    m.rank = 1;  // the launcher is on the side of rank 0
    if (m.then == 2) m.then = 3;
    struck(m, "on " + hosts.second_name(), [&](Job&) { hosts.cut(); },
           {.mpirun = hosts.mpirun(), .before = hosts.first()});
  });
}

TEST_F(FailuresOfTraining, PauseOfTwoSecondsIsNone) {
  at_random("training, pause", 1, [this](const Moment& m) {
    const std::string run = folder_ + "/run";
    const auto job = at_work(run, m);
    if (!job) return;
    const pid_t process = job->process(m.rank);
    ::kill(process, SIGSTOP);
    sleep_for(2);
    ::kill(process, SIGCONT);
    EXPECT_TRUE(job->over(60)) << job->err();
    EXPECT_EQ(job->code(), 0) << job->err();
    EXPECT_EQ(job->err(), "");
    expect_checkpoint(run, kSteps);
    fs::remove_all(run);
  });
}

}  // namespace
}  // namespace ebb::test
