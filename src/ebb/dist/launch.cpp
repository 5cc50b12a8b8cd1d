#include "ebb/dist/launch.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/dist/open.hpp"

namespace ebb::dist {
namespace {

constexpr int kMostProcesses = 1024;

}  // namespace

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0)
    return static_cast<int>(std::thread::hardware_concurrency());
  return CPU_COUNT(&set);
}

int threads_of_each(int processes) { return std::max(1, cores() / std::max(1, processes)); }

std::vector<std::string> mpirun_line(const Launch& launch) {
  if (launch.processes < 1 || launch.processes > kMostProcesses)
    throw Error(
        fmt::format("launch: {} processes; expected 1 to {}", launch.processes, kMostProcesses));
  if (launch.program.empty()) throw Error("launch: there is no program to start");
  const int threads = launch.threads > 0 ? launch.threads : threads_of_each(launch.processes);
  std::vector<std::string> line{"mpirun", "-np", fmt::format("{}", launch.processes)};
  const auto add = [&](std::initializer_list<std::string> words) {
    line.insert(line.end(), words);
  };
  if (::geteuid() == 0) add({"--allow-run-as-root"});
  add({"--oversubscribe", "--bind-to", "none", "-x", fmt::format("EBB_THREADS={}", threads)});
  add({"--mca", "mpi_yield_when_idle", "1"});
  add({"--mca", "oob_tcp_keepalive_time", "2", "--mca", "oob_tcp_keepalive_intvl", "1", "--mca",
       "oob_tcp_keepalive_probes", "3"});
  line.insert(line.end(), launch.program.begin(), launch.program.end());
  return line;
}

std::string shell_line(const std::vector<std::string>& arguments) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
  std::string text;
  for (const std::string& word : arguments) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

namespace {

[[noreturn]] void refuse_missing(const std::string& program) {
  throw Error(
      fmt::format("launch: there is no {} here; install Open MPI (apt-get install openmpi-bin), or "
                  "start the processes by another launcher",
                  program));
}

}  // namespace

void check_launcher() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/bin:/bin");
  bool found = false;
  for (std::string folder; std::getline(folders, folder, ':') && !found;)
    found = ::access((folder + "/mpirun").c_str(), X_OK) == 0;
  if (!found) refuse_missing("mpirun");
  const std::vector<std::string> places = plugin_places();
  if (std::none_of(places.begin(), places.end(), file_exists)) throw Error(missing_plugin(places));
}

void become(const std::vector<std::string>& arguments) {
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  if (errno == ENOENT) refuse_missing(arguments[0]);
  throw Error(fmt::format("launch: {} cannot be started: {}", arguments[0], std::strerror(errno)));
}

}  // namespace ebb::dist
