#include "tests/apps/process_state.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace ebb::test {
namespace {

namespace fs = std::filesystem;

std::string of(int pid, const std::string& name) { return "/proc/" + std::to_string(pid) + name; }

std::string text_of(int pid, const std::string& name) {
  std::ifstream in(of(pid, name));
  return {std::istreambuf_iterator<char>(in), {}};
}

// The word behind "NAME:".
std::string value_in(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name + ":");
  if (at == text.npos) return "0";
  std::istringstream in(text.substr(at + name.size() + 1));
  std::string word;
  in >> word;
  return word;
}

// False where it has ended.
bool stop(int pid) {
  ::kill(pid, SIGSTOP);
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WEXITED | WNOWAIT) != 0)
    return false;
  if (info.si_code != CLD_STOPPED) return false;
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED) == 0;
}

bool has_ended(int pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | WNOHANG) != 0 ||
         info.si_pid != 0;
}

}  // namespace

std::uint64_t bytes_read(int pid) { return std::stoull(value_in(text_of(pid, "/io"), "rchar")); }

double cpu_seconds(int pid) {
  const std::string stat = text_of(pid, "/stat");
  std::istringstream in(stat.substr(std::min(stat.rfind(')') + 2, stat.size())));
  std::string word;
  for (int i = 0; i < 11; ++i) in >> word;  // from the state to cmajflt
  double user = 0, system = 0;
  in >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

bool has_open(int pid, const std::string& path) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(of(pid, "/fd"), error))
    if (fs::read_symlink(entry.path(), error) == path) return true;
  return false;
}

bool is_writing(int pid, int descriptor) {
  std::istringstream in(text_of(pid, "/syscall"));
  long call = -1;
  std::string first;
  in >> call >> first;
  return call == SYS_write && std::strtol(first.c_str(), nullptr, 16) == descriptor;
}

bool is_pending(int pid, int signal) {
  const std::string status = text_of(pid, "/status");
  return std::stoull(value_in(status, "ShdPnd"), nullptr, 16) >> (signal - 1) & 1;
}

bool stopped_where(int pid, const std::function<bool()>& is_there) {
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + std::chrono::seconds(30); Clock::now() < end;) {
    if (is_there()) {
      if (!stop(pid)) return false;
      if (is_there()) return true;
      ::kill(pid, SIGCONT);
    }
    if (has_ended(pid)) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return false;
}

void signal_and_go_on(int pid, int signal) {
  ::kill(pid, signal);
  ::kill(pid, SIGCONT);
}

}  // namespace ebb::test
