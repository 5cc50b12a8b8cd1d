#include "tests/programs/ebb_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "ebb/base/error.hpp"
#include "models/memory_group.hpp"

namespace ebb::programs {
namespace {

// What comes out of both, until both are closed.
void drain(int (&ends)[2], std::string (&texts)[2]) {
  pollfd all[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}};
  char piece[4096];
  while (all[0].fd >= 0 || all[1].fd >= 0) {
    if (poll(all, 2, -1) < 0) continue;
    for (int i = 0; i < 2; ++i) {
      if (all[i].fd < 0 || all[i].revents == 0) continue;
      const ssize_t some = read(all[i].fd, piece, sizeof piece);
      if (some > 0) texts[i].append(piece, static_cast<std::size_t>(some));
      if (some <= 0) {
        close(all[i].fd);
        all[i].fd = -1;
      }
    }
  }
}

}  // namespace

// A forked process counts what it has of its parent to its peak, and a test program has much: so a copy of this
// program that has done nothing yet forks, and tells on descriptor 3 what became of `ebb`.
struct Ended {
  int status = 0;
  long peak_kib = 0;
};
constexpr int kTold = 3;

Ran run_ebb(std::vector<std::string> arguments, std::uint64_t limit) {
  const MemoryGroup group(limit);
  Ran ran;
  arguments.insert(arguments.begin(), {"/proc/self/exe", "--launch", group.door(), EBB_COMMAND});
  std::vector<char*> argv;
  for (std::string& a : arguments) {
    if (argv.size() > 2) ran.line += (ran.line.empty() ? "" : " ") + a;
    argv.push_back(a.data());
  }
  argv.push_back(nullptr);
  int out[2], err[2], told[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 || pipe2(told, O_CLOEXEC) != 0)
    throw Error("no pipe for ebb");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw Error("no process for ebb");
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    if (told[1] == kTold)
      fcntl(kTold, F_SETFD, 0);
    else
      dup2(told[1], kTold);
    execv(argv[0], argv.data());
    _exit(127);
  }
  for (const int end : {out[1], err[1], told[1]}) close(end);
  int ends[2] = {out[0], err[0]};
  std::string texts[2];
  drain(ends, texts);
  Ended ended;
  const bool heard = read(told[0], &ended, sizeof ended) == sizeof ended;
  close(told[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!heard) ended.status = status;
  ran.out = std::move(texts[0]);
  ran.err = std::move(texts[1]);
  ran.killed = WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGKILL;
  ran.code = WIFEXITED(ended.status) ? WEXITSTATUS(ended.status) : 128 + WTERMSIG(ended.status);
  ran.peak = static_cast<std::uint64_t>(ended.peak_kib) * 1024;
  ran.unlimited = group.why();
  return ran;
}

bool launches(int argc, char** argv) {
  if (argc < 4 || std::strcmp(argv[1], "--launch") != 0) return false;
  fcntl(kTold, F_SETFD, FD_CLOEXEC);
  const pid_t child = fork();
  if (child == 0) {
    if (*argv[2]) {  // the door of a group
      const int door = open(argv[2], O_WRONLY | O_CLOEXEC);
      if (door < 0 || write(door, "0", 1) != 1) _exit(126);  // 0: whoever writes
    }
    execv(argv[3], argv + 3);
    _exit(127);
  }
  Ended ended;
  rusage used{};
  wait4(child, &ended.status, 0, &used);
  ended.peak_kib = used.ru_maxrss;
  (void)!write(kTold, &ended, sizeof ended);
  return true;
}

Scratch::Scratch() : path_("/var/tmp/ebb-test-XXXXXX") {
  if (!mkdtemp(path_.data())) throw Error("no folder for a test under /var/tmp");
}
Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ebb::programs
