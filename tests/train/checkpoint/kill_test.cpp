// kill -9 at random moments of a process that saves every step: whatever it was at, the next one goes on from a good
// checkpoint, and at the end the weights are those of a run that nobody has killed.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "ebb/base/files/file.hpp"
#include "tests/train/checkpoint/training.hpp"

namespace ebb::train {
namespace {

using test::Training;

constexpr char kFolder[] = "EBB_KILL_FOLDER", kUntil[] = "EBB_KILL_UNTIL";

class Killed : public test::FolderTest {
 protected:
  // This very program as another process, which trains up to that step.
  pid_t start(std::int64_t until) const {
    const std::string folder = std::string(kFolder) + "=" + folder_,
                      end = std::string(kUntil) + "=" + std::to_string(until);
    const char* arguments[] = {"/proc/self/exe", "--gtest_filter=Killed.Child", "--gtest_brief=1",
                               nullptr};
    const char* environment[] = {folder.c_str(), end.c_str(), nullptr};
    const pid_t child = ::fork();
    if (child == 0) {
      const int quiet = ::open("/dev/null", O_WRONLY);
      ::dup2(quiet, 1);
      ::execve(arguments[0], const_cast<char**>(arguments), const_cast<char**>(environment));
      ::_exit(127);
    }
    return child;
  }
};

TEST_F(Killed, Child) {
  const char* folder = std::getenv(kFolder);
  if (!folder) return;  // a part of the test below
  Training run(7);
  Checkpoints all(std::string(folder) + "/run", {.keep_last = 2});
  all.claim();
  if (const auto last = all.latest()) run.load(last->path);
  run.steps(std::atoll(std::getenv(kUntil)) - run.done, {},
            [&] { all.save(run.info(), run.model, run.adam, run.ema); });
}

TEST_F(Killed, AtRandomMoments) {
  const char* set = std::getenv("EBB_KILLS");
  const int kills = set ? std::atoi(set) : 40;
  const unsigned seed = std::getenv("EBB_KILL_SEED")
                            ? static_cast<unsigned>(std::atol(std::getenv("EBB_KILL_SEED")))
                            : std::random_device()();
  std::printf("EBB_KILLS=%d EBB_KILL_SEED=%u\n", kills, seed);
  std::mt19937 random(seed);
  const Checkpoints all(folder_ + "/run");
  std::int64_t done = 0;
  int halves = 0;
  for (int i = 0; i < kills; ++i) {
    const pid_t child = start(1'000'000);
    // Until it has saved once more, so that there is progress, and then any moment of the next steps.
    for (int waited = 0; waited < 20'000; ++waited) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      try {
        if (const auto last = all.latest(); last && last->info.step > done) break;
      } catch (const FileError&) {  // it was removed while we looked
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child has ended by itself, with " << status;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/run"))
      halves += entry.path().filename().string().ends_with(".tmp");
    const auto last = all.latest();
    ASSERT_TRUE(last);
    ASSERT_GT(last->info.step, done);
    done = last->info.step;
    verify(last->path);
  }
  EXPECT_GT(halves, kills / 10) << "hardly any was killed while it saved";
  const pid_t child = start(done + 3);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  Training resumed(1);
  resumed.load(all.latest()->path);
  EXPECT_EQ(resumed.done, done + 3);
  const auto found = resumed.all();
  Training whole(7);
  whole.steps(done + 3);
  EXPECT_EQ(found, whole.all());
  std::printf("%d kills, %d while saving or removing, %lld steps\n", kills, halves,
              static_cast<long long>(done));
}

}  // namespace
}  // namespace ebb::train
