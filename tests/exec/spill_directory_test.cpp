// Where a spill file lies, and that it leaves nothing there.
#include <signal.h>
#include <sys/wait.h>

#include <vector>

#include "tests/exec/spill_fixture.hpp"

namespace ebb::exec {
#if defined(__SANITIZE_THREAD__)  // tests fork, and the child writes from a thread of its own
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

namespace {

class SpillDirectoryTest : public SpillFixture {};

TEST_P(SpillDirectoryTest, LeavesNothingInTheDirectory) {
  SpillFile spill(options(), std::vector<SpillSlot>{{kMiB}});
  EXPECT_EQ(files(), 0u);
  struct stat info;
  ASSERT_EQ(::fstat(spill.descriptor(), &info), 0);
  EXPECT_EQ(info.st_nlink, 0u);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_GE(static_cast<std::uint64_t>(info.st_blocks) * 512, kMiB);  // reserved, not just long
}

TEST_P(SpillDirectoryTest, IsGoneAfterKill9) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    SpillFile spill(options(), std::vector<SpillSlot>{{kMiB}});
    Bytes a(kMiB);
    put(spill, 0, a);
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char c;
  ASSERT_EQ(::read(ready[0], &c, 1), 1);
  ::kill(child, SIGKILL);
  int status;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(files(), 0u);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_P(SpillDirectoryTest, RefusesADirectoryThatWillNotDo) {
  const std::vector<SpillSlot> slots{{kMiB}};
  SpillOptions o = options();
  o.directory = folder_ + "/missing";
  EXPECT_HAS(error_of([&] { SpillFile spill(o, slots); }), "/missing\": No such file");
  const std::string file = folder_ + "/file";
  ::close(::open(file.c_str(), O_CREAT | O_WRONLY, 0600));
  o.directory = file;
  EXPECT_HAS(error_of([&] { SpillFile spill(o, slots); }), "Not a directory");
  o = options();
  o.bytes = kMiB - 1;
  EXPECT_THROW(SpillFile(o, slots), Error);

  file_faults::Guard guard;
  file_faults::fail(Call::open, 1, Fault::eio);
  error_of([&] { SpillFile spill(options(), slots); });
  file_faults::fail(Call::reserve, 1, Fault::enospc);
  const std::string line = error_of([&] { SpillFile spill(options(), slots); });
  EXPECT_HAS(line, "1048576 bytes are needed");
  EXPECT_HAS(line, "are free there");
  // More than the disk has: found at once, nothing taken.
  const std::vector<SpillSlot> huge{{std::uint64_t{1} << 55}};
  EXPECT_HAS(error_of([&] { SpillFile spill(options(), huge); }), "No space left");
}

TEST_P(SpillDirectoryTest, RefusesADirectoryThatIsReadOnly) {
  ::chmod(folder_.c_str(), 0555);
  int line[2];
  ASSERT_EQ(::pipe(line), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    std::string text = "no error";
    try {
      SpillFile spill(options(), std::vector<SpillSlot>{{kPage}});
    } catch (const FileError& e) {
      text = e.what();
    }
    ::_exit(::write(line[1], text.data(), text.size()) > 0 ? 0 : 1);
  }
  int status;
  ::waitpid(child, &status, 0);
  ::chmod(folder_.c_str(), 0755);
  ASSERT_EQ(status, 0);
  char text[1000] = {};
  ASSERT_GT(::read(line[0], text, sizeof text - 1), 0);
  EXPECT_HAS(std::string(text), "spill: ");
  EXPECT_HAS(std::string(text), "Permission denied");
  ::close(line[0]);
  ::close(line[1]);
}

TEST_P(SpillDirectoryTest, RefusesMemoryAsADisk) {
  SpillOptions o = options();
  o.directory = "/dev/shm";
  const std::vector<SpillSlot> slots{{kMiB + 1}};
  try {
    SpillFile spill(o, slots);
    GTEST_SKIP() << "/dev/shm is not a tmpfs here";
  } catch (const FileError& e) {
    EXPECT_HAS(std::string(e.what()), "tmpfs");
  }
  o.allow_memory = true;
  SpillFile spill(o, slots);
  Bytes a(kMiB + 1), c(kMiB + 1);
  put(spill, 0, a.fill(3));
  get(spill, 0, c);
  EXPECT_TRUE(a == c);
}

INSTANTIATE_TEST_SUITE_P(SpillDirectory, SpillDirectoryTest, testing::Bool(), transfers);

}  // namespace
}  // namespace ebb::exec
