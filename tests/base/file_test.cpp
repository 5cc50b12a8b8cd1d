#include "ebb/base/files/file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file_faults.hpp"
#include "tests/error_of.hpp"

namespace ebb {
namespace {

namespace fs = std::filesystem;
using file_faults::Call;
using file_faults::Fault;
using file_faults::Repeat;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string name = (fs::temp_directory_path() / "ebb-file-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~FileTest() override {
    file_faults::clear();
    fs::remove_all(folder_);
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  std::string folder_;
};

std::string pattern(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i * 131 + i / 7) & 0xff);
  return text;
}
std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::span<std::byte> room_in(std::string& text) {
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}

// The line of the FileError that `f` must give.
std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const FileError& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  ADD_FAILURE() << "no FileError";
  return "";
}

TEST_F(FileTest, WritesAndReads) {
  const std::string text = pattern(100'000);
  File out = File::create(path("a"));
  out.write(bytes_of(text));
  out.sync();
  EXPECT_EQ(out.position(), text.size());
  out.close();
  EXPECT_FALSE(out.is_open());
  out.close();  // once is enough, twice is fine

  File in = File::open(path("a"));
  EXPECT_EQ(in.size(), text.size());
  std::string back(text.size(), '\0');
  in.read(room_in(back));
  EXPECT_EQ(back, text);
  std::string none(10, 'x');
  EXPECT_EQ(in.read_some(room_in(none)), 0u);
}

TEST_F(FileTest, ReadsAndWritesAtOffsetsWithoutMoving) {
  File file = File::open(path("a"), {.access = Access::read_write, .create = true});
  file.write_at(1000, bytes_of("middle"));
  EXPECT_EQ(file.position(), 0u);
  EXPECT_EQ(file.size(), 1006u);
  std::string back(6, '\0');
  file.read_at(1000, room_in(back));
  EXPECT_EQ(back, "middle");
  file.seek(1003);
  EXPECT_EQ(file.position(), 1003u);
  file.truncate(1002);
  EXPECT_EQ(file.size(), 1002u);
  EXPECT_HAS(error_of([&] { file.read_at(1000, room_in(back)); }),
             "it ends after 2 of 6 bytes wanted");
  EXPECT_HAS(error_of([&] { file.seek(UINT64_MAX); }), "cannot seek in");
  EXPECT_HAS(error_of([&] { file.read_at(INT64_MAX - 2, room_in(back)); }), "cannot read");
}

TEST_F(FileTest, ErrorsNameOperationPathCauseAndRemedy) {
  const std::string missing = error_of([&] { File::open(path("none")); });
  EXPECT_HAS(missing, "cannot open \"" + path("none") + "\": No such file or directory; check the");
  write_file(path("a"), "old");
  const std::string taken = error_of(
      [&] { File::open(path("a"), {.access = Access::write, .create = true, .exclusive = true}); });
  EXPECT_HAS(taken, "cannot create");
  EXPECT_HAS(taken, "File exists; remove it or choose another name");
  EXPECT_HAS(error_of([&] { File::open(folder_); }), "name a file, not a folder");
  EXPECT_HAS(error_of([&] { File::open(path("a/b")); }), "not a folder; check the path");
  EXPECT_HAS(error_of([&] { write_file(path("no/such/a"), "x"); }), "cannot create a file beside");
  EXPECT_HAS(error_of([&] { write_file(folder_, "x"); }), "name a file, not a folder");
  File read_only = File::open(path("a"));
  EXPECT_HAS(error_of([&] { read_only.write("x"); }), "cannot write");
  File closed;
  EXPECT_HAS(error_of([&] { closed.write("x"); }), "Bad file descriptor");
  EXPECT_HAS(error_of([&] { File::open(std::string("a\0b", 3)); }), "cannot open");
}

TEST_F(FileTest, AFullDiskIsReported) {
  if (!fs::exists("/dev/full")) GTEST_SKIP();
  File full = File::open("/dev/full", {.access = Access::write});
  EXPECT_HAS(error_of([&] { full.write("x"); }),
             "No space left on device; free some space there or choose another folder");
}

TEST_F(FileTest, MovesOwnership) {
  File a = File::create(path("a"));
  const int descriptor = a.descriptor();
  File b = std::move(a);
  EXPECT_FALSE(a.is_open());
  EXPECT_EQ(b.descriptor(), descriptor);
  b = File::create(path("b"));
  EXPECT_EQ(b.path(), path("b"));
}

TEST_F(FileTest, SmallFilesAreReadWholeAndLargeOnesRefused) {
  const std::string text = pattern(50'000);
  write_file(path("a"), text);
  EXPECT_EQ(read_file(path("a")), text);
  EXPECT_EQ(read_file(path("a"), {text.size()}), text);
  EXPECT_HAS(error_of([&] { read_file(path("a"), {text.size() - 1}); }), "it is larger than");
  EXPECT_FALSE(file_exists(path("empty")));
  write_file(path("empty"), "");
  EXPECT_TRUE(file_exists(path("empty")));
  EXPECT_EQ(read_file(path("empty")), "");
  EXPECT_FALSE(read_file("/proc/self/status").empty()) << "a file without a size";
}

TEST_F(FileTest, ReplacingKeepsPermissionsAndFollowsLinks) {
  write_file(path("real"), "old");
  ASSERT_EQ(::chmod(path("real").c_str(), 0640), 0);
  fs::create_symlink("real", path("link"));
  write_file(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("real")), "new");
  EXPECT_EQ(static_cast<unsigned>(fs::status(path("real")).permissions()), 0640u);
  EXPECT_EQ(files(), 2u);
  EXPECT_HAS(error_of([&] { write_file("/dev/null", "x"); }), "not a regular file");
}

TEST_F(FileTest, WithoutCommitNothingChanges) {
  write_file(path("a"), "old");
  {
    AtomicFile out(path("a"));
    out.file().write("new");
    EXPECT_EQ(files(), 2u);
  }
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(files(), 1u);
}

// Every call of an atomic write fails in turn, each way: the old file stays, and nothing else does.
TEST_F(FileTest, AFailureAnywhereLeavesTheOldFile) {
  const std::string text = pattern(70'000);
  write_file(path("a"), "old");
  for (const Call call : {Call::open, Call::write, Call::sync, Call::close, Call::rename}) {
    for (const Fault fault : {Fault::enospc, Fault::eio}) {
      for (const Repeat repeat : {Repeat::once, Repeat::from_then_on}) {
        file_faults::Guard guard;
        file_faults::fail(call, 1, fault, repeat);
        const std::string line = error_of([&] { write_file(path("a"), text); });
        EXPECT_HAS(line, fault == Fault::enospc ? "No space left" : "Input/output error");
        EXPECT_HAS(line, path("a"));
        EXPECT_EQ(line.find(".tmp"), std::string::npos) << line;
        file_faults::clear();
        ASSERT_EQ(read_file(path("a")), "old") << static_cast<int>(call);
        ASSERT_EQ(files(), 1u) << static_cast<int>(call);
      }
    }
  }
  // Only the folder is left to sync after the rename: the new file is there, and whole.
  file_faults::fail_sync(2, Fault::eio);
  EXPECT_HAS(error_of([&] { write_file(path("a"), text); }), "it is in place");
  file_faults::clear();
  EXPECT_EQ(read_file(path("a")), text);
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileTest, ShortCountsAreContinued) {
  const std::string text = pattern(10'000);
  file_faults::fail_write(1, Fault::short_count, Repeat::from_then_on);
  file_faults::fail_read(1, Fault::short_count, Repeat::from_then_on);
  const auto writes = file_faults::count(Call::write), reads = file_faults::count(Call::read);
  {
    File file = File::open(path("a"), {.access = Access::read_write, .create = true});
    file.write(bytes_of(text));
    file.write_at(20'000, bytes_of(text));
    std::string back(text.size(), '\0');
    file.read_at(20'000, room_in(back));
    EXPECT_EQ(back, text);
    file.seek(0);
    file.read(room_in(back));
    EXPECT_EQ(back, text);
  }
  EXPECT_GT(file_faults::count(Call::write), writes + 20);
  EXPECT_GT(file_faults::count(Call::read), reads + 20);
  write_file(path("b"), text);
  EXPECT_EQ(read_file(path("b")), text);
}

TEST_F(FileTest, TheNthCallFailsOnceOrFromThenOn) {
  File file = File::create(path("a"));
  file_faults::fail_write(3, Fault::eio);
  for (int i = 1; i <= 6; ++i) {
    if (i == 3)
      EXPECT_HAS(error_of([&] { file.write("x"); }), "Input/output error");
    else
      file.write("x");
  }
  EXPECT_EQ(file.size(), 5u);
  file_faults::fail_write(2, Fault::enospc, Repeat::from_then_on);
  file.write("x");
  for (int i = 0; i < 3; ++i) {
    EXPECT_HAS(error_of([&] { file.write("x"); }), "after 0 of 1 bytes: No space left");
  }
  file_faults::clear();
  file.write("x");
  EXPECT_EQ(file.size(), 7u);
  {
    file_faults::Guard guard;
    file_faults::fail(Call::truncate, 1, Fault::eio, Repeat::from_then_on);
    EXPECT_HAS(error_of([&] { file.truncate(1); }), "cannot resize");
  }
  file.truncate(1);
  EXPECT_EQ(file.size(), 1u);
  EXPECT_THROW(file_faults::fail_write(0, Fault::eio), Error);
  EXPECT_THROW(file_faults::fail_sync(1, Fault::short_count), Error);
}

TEST_F(FileTest, AFailedReadIsReported) {
  write_file(path("a"), "0123456789");
  File file = File::open(path("a"));
  std::string back(10, '\0');
  file_faults::fail_read(1, Fault::short_count);
  file.read(room_in(back));
  EXPECT_EQ(back, "0123456789");
  file.seek(0);
  file_faults::fail_read(1, Fault::eio);
  EXPECT_HAS(error_of([&] { file.read(room_in(back)); }),
             "after 0 of 10 bytes: Input/output error; the disk");
  EXPECT_HAS(error_of([&] {
               file_faults::fail_read(1, Fault::eio);
               read_file(path("a"));
             }),
             "cannot read");
}

// A reader of a pipe, shaken by a signal every millisecond while the writer dawdles.
TEST_F(FileTest, InterruptedCallsAreRestarted) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  static volatile sig_atomic_t signals;
  signals = 0;
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { signals = signals + 1; };
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);

  std::thread writer([&] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);  // so that the reader is the one interrupted
    File out = File::open(path("pipe"), {.access = Access::write});
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      out.write("ab");
    }
  });
  itimerval timer = {{0, 1000}, {0, 1000}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &timer, nullptr), 0);
  std::string back(10, '\0');
  File in = File::open(path("pipe"));
  in.read(room_in(back));
  timer = {};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  writer.join();
  EXPECT_EQ(back, "ababababab");
  EXPECT_GT(signals, 5);
  EXPECT_HAS(error_of([&] { (void)in.size(); }), "not a regular file");
}

}  // namespace
}  // namespace ebb
