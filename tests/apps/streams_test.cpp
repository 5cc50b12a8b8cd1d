// Streams that are closed or full, signals at any moment, directories that are in use.
#include <fcntl.h>
#include <fmt/format.h>
#include <pty.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/apps/command.hpp"
#include "tests/terminals.hpp"

namespace ebb::test {
namespace {

using Json = nlohmann::json;

// Steps that go on until somebody stops them.
constexpr char kEndless[] = "steps = 1000000\n";

class Streams : public Commands {};

TEST_F(Streams, aReaderThatGoesAwayIsNoError) {
  put("c.toml", small_config());
  const Ran ran = shell(
      "$EBB config keys | head -1; echo ${PIPESTATUS[0]}; $EBB help | true; echo ${PIPESTATUS[0]}");
  EXPECT_EQ(ran.err, "");
  EXPECT_HAS(ran.out, "\n0\n0\n");
  const Ran train = shell("$EBB train c.toml 2>&1 | head -1; echo ${PIPESTATUS[0]}");
  EXPECT_HAS(train.out, "\n0\n");
  EXPECT_TRUE(std::filesystem::exists(path("runs/c/model/model.safetensors")))
      << "it trains to its end";
}

TEST_F(Streams, closedAndFullOutputsAreHandled) {
  put("c.toml", small_config());
  EXPECT_EQ(shell("$EBB config show c.toml >&-").code, 0);
  EXPECT_EQ(shell("$EBB train c.toml >&- 2>&- <&-").code, 0);
  EXPECT_TRUE(std::filesystem::exists(path("runs/c/model/model.safetensors")));
  expect_line(shell("$EBB config show c.toml >/dev/full"), 1,
              "cannot write to standard output: No space left");
  expect_line(shell("$EBB --help >/dev/full"), 1, "cannot write to standard output");
  EXPECT_EQ(shell("$EBB train c.toml >/dev/full").code, 0)
      << "what is shown on the way is no result";
}

// What a terminal gets.
std::string on_terminal(const std::string& folder, const char* no_color) {
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    ::setenv("TERM", "xterm-256color", 1);
    if (no_color)
      ::setenv("NO_COLOR", no_color, 1);
    else
      ::unsetenv("NO_COLOR");
    ::alarm(60);
    if (::chdir(folder.c_str()) == 0) ::execl(EBB_BINARY, "ebb", "train", "c.toml", nullptr);
    ::_exit(127);
  }
  std::string text;
  char piece[4096];
  for (ssize_t n; (n = ::read(terminal, piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<std::size_t>(n));
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(terminal);
  EXPECT_EQ(status, 0) << text;
  return text;
}

TEST_F(Streams, noColourWhereNoneIsWanted) {
  if (!ebb::test::has_terminals()) GTEST_SKIP() << ebb::test::kNoTerminals;
  put("c.toml", small_config());
  const std::string plain = on_terminal(folder_, "1");
  EXPECT_HAS(plain, "model: runs/c/model");
  for (std::size_t at = plain.find("\033["); at != plain.npos; at = plain.find("\033[", at + 1)) {
    const std::size_t end = plain.find_first_not_of("0123456789;?", at + 2);
    EXPECT_NE(plain[end], 'm') << "a colour: " << plain.substr(at + 1, end - at);
  }
}

TEST_F(Streams, interruptedAtAnyTimeBeforeTheFirstStepNothingIsLeft) {
  put("t.txt", std::string(20000, 'a') + "bcdefgh");
  put("c.toml",
      "[model]\nkind = \"gpt\"\nwidth = 64\ndepth = 12\nheads = 4\n[data]\npath = "
      "\"t.txt\"\n[train]\n"
      "batch = 32\nsteps = 1000000\n[memory]\nbudget = \"40MiB\"\n");
  const std::vector<std::string> before = files();
  for (const int milliseconds : {5, 40, 120, 250}) {
    const Running r = start({EBB_BINARY, "train", "c.toml", "--out", "o"});
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    ::kill(r.pid, SIGINT);
    const Ran ran = wait_for(r);
    EXPECT_EQ(ran.code, 130) << milliseconds << ran.out << ran.err;
    if (std::filesystem::exists(path("o/checkpoints"))) {  // it was quick, and has begun
      std::filesystem::remove_all(path("o"));
      continue;
    }
    EXPECT_EQ(files(), before) << milliseconds;
  }
}

TEST_F(Streams, aDirectoryInUseIsRefusedWithTheHoldersNumber) {
  put("c.toml", small_config(kEndless) + "[every]\nsave = 1\n");
  const Running holder = start({EBB_BINARY, "train", "c.toml", "--out", "o"});
  ASSERT_TRUE(appears("o/log.txt", "save"));
  expect_line(ebb({"resume", "o", "-q"}), 2,
              fmt::format("process {} is at work there", holder.pid));
  EXPECT_EQ(ebb({"inspect", "o", "--json"}).code, 0) << "looking is allowed";
  ::kill(holder.pid, SIGTERM);
  EXPECT_EQ(wait_for(holder).code, 143);
}

}  // namespace
}  // namespace ebb::test
