#include "ebb/train/checkpoint/directory_lock.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "ebb/base/files/file.hpp"
#include "tests/train/checkpoint/training.hpp"

namespace ebb::train {
namespace {

using test::error_of;

class DirectoryLockTest : public test::FolderTest {
 protected:
  std::string text() const { return read_file(folder_ + "/" + DirectoryLock::kName); }
};

// A process that holds the lock until it is killed.
pid_t holder(const std::string& folder) {
  int ready[2];
  EXPECT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const DirectoryLock lock(folder);
    (void)!::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char c;
  EXPECT_EQ(::read(ready[0], &c, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  return child;
}

TEST_F(DirectoryLockTest, ASecondProcessIsToldWhoIsThere) {
  const pid_t child = holder(folder_);
  EXPECT_EQ(text(), fmt::format("{}\n", child));
  const std::string error = error_of([&] { DirectoryLock lock(folder_); });
  EXPECT_NE(error.find(fmt::format("process {} is at work there", child)), std::string::npos)
      << error;
  EXPECT_NE(error.find(folder_), std::string::npos) << error;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(text(), fmt::format("{}\n", child)) << "a number that means nothing any more";
  {
    const DirectoryLock lock(folder_);
    EXPECT_EQ(text(), fmt::format("{}\n", ::getpid()));
    EXPECT_NE(error_of([&] { DirectoryLock again(folder_); }).find("this process"),
              std::string::npos);
  }
  EXPECT_EQ(text(), "");
  const DirectoryLock once_more(folder_);
}

TEST_F(DirectoryLockTest, WhateverStandsInTheFile) {
  for (const std::string content :
       {"", "\n", "-1\n", "99999999999999999999999999", "no number", "1\n2\n3"}) {
    File::create(folder_ + "/" + DirectoryLock::kName).write(content);
    const DirectoryLock lock(folder_);
    EXPECT_EQ(text(), fmt::format("{}\n", ::getpid()));
  }
  std::optional<DirectoryLock> lock(folder_);
  File::open(folder_ + "/" + DirectoryLock::kName, {.access = Access::write})
      .write_at(0, std::as_bytes(std::span("?", 1)));
  EXPECT_NE(error_of([&] { DirectoryLock again(folder_); }).find("at work there"),
            std::string::npos);
  std::filesystem::remove(folder_ + "/" + DirectoryLock::kName);
  EXPECT_NE(error_of([&] { DirectoryLock none(folder_ + "/none"); }).find("cannot create"),
            std::string::npos);
}

}  // namespace
}  // namespace ebb::train
