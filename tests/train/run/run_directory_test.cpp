#include "ebb/train/run/run_directory.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/error_of.hpp"
#include "tests/train/folder.hpp"

namespace ebb::train {
namespace {

using ebb::test::error_of;
using test::Folder;
using Names = std::vector<std::string>;

TEST(RunDirectory, IsMadeAndFoundAgain) {
  const Folder folder;
  const auto made = RunDirectory::create(folder / "runs/digits");
  EXPECT_EQ(made.path(), folder / "runs/digits");
  EXPECT_EQ(made.config(), folder / "runs/digits/config.toml");
  EXPECT_EQ(made.checkpoints(), folder / "runs/digits/checkpoints");
  EXPECT_EQ(RunDirectory::open(folder / "runs/digits").log(), folder / "runs/digits/log.txt");
  EXPECT_TRUE(RunDirectory::is_run(folder / "runs/digits/"));
  EXPECT_FALSE(RunDirectory::is_run(folder / "runs"));
}

TEST(RunDirectory, TakesAnEmptyDirectory) {
  const Folder folder;
  EXPECT_EQ(RunDirectory::create(folder.path).path(), folder.path);
  EXPECT_EQ(test::names_in(folder.path), Names{".ebb-run"});
}

TEST(RunDirectory, NeverTouchesADirectoryOfOthers) {
  const Folder folder;
  test::put(folder / "config.toml", "mine");
  const std::string error = error_of([&] { RunDirectory::create(folder.path); });
  EXPECT_HAS(error, "not empty and not a run (it holds \"config.toml\")");
  EXPECT_HAS(error_of([&] { RunDirectory::create_next(folder.path); }), "not empty");
  EXPECT_HAS(error_of([&] { RunDirectory::open(folder.path); }), "it has no .ebb-run");
  EXPECT_EQ(test::names_in(folder.path), Names{"config.toml"});
  EXPECT_EQ(test::content(folder / "config.toml"), "mine");
}

TEST(RunDirectory, ARunIsNotMadeTwice) {
  const Folder folder;
  const std::string path = folder / "run";
  RunDirectory::create(path);
  EXPECT_HAS(error_of([&] { RunDirectory::create(path); }), "it holds a run already; go on with");
  EXPECT_EQ(RunDirectory::create_next(path).path(), path + "-2");
  EXPECT_EQ(RunDirectory::create_next(path).path(), path + "-3");
}

TEST(RunDirectory, OneThatHasSavedNothingIsBegunAnew) {
  const Folder folder;
  const std::string path = folder / "run";
  const RunDirectory run = RunDirectory::create(path, "a = 1\n");
  std::filesystem::create_directories(run.checkpoints() + "/.step-00000002.7-0.tmp");
  test::put(run.checkpoints() + "/.lock", "");
  RunDirectory::check_free(path);
  EXPECT_EQ(RunDirectory::next_free(path), path + "-2") << "unless it is asked for by name";
  RunDirectory::begin_anew(path, "a = 2\n");
  EXPECT_EQ(test::content(run.config()), "a = 2\n");
  std::filesystem::create_directory(run.checkpoints() + "/step-00000002");
  EXPECT_HAS(error_of([&] { RunDirectory::check_free(path); }), "it holds a run already");
  EXPECT_HAS(error_of([&] { RunDirectory::begin_anew(path, "a = 3\n"); }), "a run already");
  EXPECT_EQ(test::content(run.config()), "a = 2\n");
}

TEST(RunDirectory, SaysWhatIsInTheWay) {
  const Folder folder;
  test::put(folder / "file", "x");
  EXPECT_HAS(error_of([&] { RunDirectory::create(folder / "file"); }), "a file of that name");
  EXPECT_HAS(error_of([&] { RunDirectory::create(folder / "file/run"); }), "File exists");
  EXPECT_HAS(error_of([&] { RunDirectory::open(folder / "file"); }), "it is a file");
  EXPECT_HAS(error_of([&] { RunDirectory::open(folder / "none"); }), "no such directory");
  EXPECT_HAS(error_of([&] { RunDirectory::create(""); }), "name is empty");
  EXPECT_HAS(error_of([&] { RunDirectory::create(std::string("a\0b", 3)); }), "zero byte");
  RunDirectory::create(folder / "newer");
  test::put(folder / "newer/.ebb-run", "ebb run, format 2\n");
  EXPECT_HAS(error_of([&] { RunDirectory::open(folder / "newer"); }), "newer Ebb");
}

TEST(RunDirectory, AFullDiskLeavesNothingBehind) {
  const Folder folder;
  const file_faults::Guard guard;
  file_faults::fail_write(1, file_faults::Fault::enospc);
  EXPECT_HAS(error_of([&] { RunDirectory::create(folder / "run"); }), "No space left");
  EXPECT_EQ(test::names_in(folder.path), Names{});
  RunDirectory::create(folder / "run");
}

TEST(RunDirectory, AReadOnlyPlaceIsNamed) {
  const Folder folder;
  ASSERT_EQ(::chmod(folder.path.c_str(), 0555), 0);
  const pid_t child = ::fork();  // as somebody whom permissions bind
  if (child == 0) {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(2);
    const std::string here = error_of([&] { RunDirectory::create(folder.path); });
    const std::string below = error_of([&] { RunDirectory::create(folder / "run"); });
    for (const std::string& e : {here, below})
      if (e.find("Permission denied; check the permissions") == std::string::npos) ::_exit(1);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::chmod(folder.path.c_str(), 0755);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(test::names_in(folder.path), Names{});
}

TEST(RunDirectory, TheConfigIsThereFromTheBeginning) {
  const Folder folder;
  EXPECT_EQ(test::content(RunDirectory::create(folder / "run", "a = 1\n").config()), "a = 1\n");
  EXPECT_HAS(error_of([&] { RunDirectory::create(folder / "run", "a = 2\n"); }), "already");
  std::filesystem::create_directory(folder / "empty");
  RunDirectory::create(folder / "empty", "a = 1\n");
  EXPECT_EQ(test::names_in(folder / "empty"), (Names{".ebb-run", "config.toml"}));
  // As a process leaves it that is killed between the two files.
  std::filesystem::remove(folder / "empty/config.toml");
  RunDirectory::create(folder / "empty", "a = 3\n");
  EXPECT_EQ(test::content(folder / "empty/config.toml"), "a = 3\n");
  EXPECT_EQ(test::names_in(folder.path), (Names{"empty", "run"}));
}

TEST(RunDirectory, OfTwoProcessesOneMakesTheRun) {
  for (int i = 0; i < 20; ++i) {
    const Folder folder;
    pid_t children[4];
    for (pid_t& child : children) {
      child = ::fork();
      if (child != 0) continue;
      try {
        RunDirectory::create(folder / "run");
      } catch (const Error&) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    int made = 0;
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      made += WEXITSTATUS(status) == 0;
    }
    EXPECT_EQ(made, 1);
  }
}

}  // namespace
}  // namespace ebb::train
