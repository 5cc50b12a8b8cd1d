#include "tests/dist/job.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "ebb/base/files/file.hpp"
#include "ebb/dist/launch.hpp"

namespace ebb::test {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

constexpr char kMark[] = "EBB_TEST_JOB";

// Of a process's environment, whether NAME=value is in it.
bool has(const std::string& environment, const std::string& name, const std::string& value) {
  const std::string word = name + "=" + value + '\0';
  return environment.starts_with(word) || environment.find('\0' + word) != std::string::npos;
}

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

}  // namespace

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string no_jobs() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "Open MPI is not built for sanitizers";
#endif
  if (!file_exists(EBB_PLUGIN)) return "Ebb was built without Open MPI";
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) return "there is no mpirun";
  return "";
}

Job::Job(const std::string& role, const JobOptions& options) : ranks_(options.ranks) {
  std::string name = (std::filesystem::temp_directory_path() / "ebb-job-XXXXXX").string();
  if (!::mkdtemp(name.data())) std::abort();
  folder_ = name;
  dist::Launch launch{.processes = options.ranks, .threads = 1, .program = {}};
  launch.program = options.program;
  if (launch.program.empty())
    launch.program = {std::filesystem::read_symlink("/proc/self/exe").string(), "rank", role,
                      folder_};
  program_ = std::filesystem::canonical(launch.program[0]);
  if (options.by_script)
    launch.program.insert(launch.program.begin(), {"sh", "-c", "\"$0\" \"$@\"; exit $?"});
  std::vector<std::string> line = dist::mpirun_line(launch);
  std::vector<std::string> more = options.mpirun;
  more.insert(more.end(), {"-x", "EBB_DIST_PLUGIN=" EBB_PLUGIN});
  for (const std::string& one : options.environment) more.insert(more.end(), {"-x", one});
  line.insert(line.begin() + 3, more.begin(), more.end());
  line.insert(line.begin(), options.before.begin(), options.before.end());
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setsid();
  ::setenv(kMark, folder_.c_str(), 1);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(::open((folder_ + "/out").c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
  ::dup2(::open((folder_ + "/err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
  try {
    dist::become(line);
  } catch (...) {
    ::_exit(127);
  }
}

Job::~Job() {
  for (const pid_t p : left()) ::kill(p, SIGKILL);
  if (!reaped_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

// By what all of them were given at their start; and who has dropped that is of the session.
std::vector<pid_t> Job::left() const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t process = std::atoi(entry.path().filename().c_str());
    if (process <= 0 || others_.contains(process)) continue;
    const std::string stat = text_of(entry.path() / "stat");
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;  // it has just ended
    char state = 'Z';
    int parent = 0, group = 0, session = 0;
    std::sscanf(stat.c_str() + name_end, ") %c %d %d %d", &state, &parent, &group, &session);
    if (state == 'Z' || state == 'X') continue;
    if (session == pid_ || has(text_of(entry.path() / "environ"), kMark, folder_))
      found.push_back(process);
    else
      others_.insert(process);
  }
  return found;
}

pid_t Job::process(int rank) const {
  for (const pid_t p : left()) {
    const std::string place = fmt::format("/proc/{}", p);
    std::error_code ended;
    if (has(text_of(place + "/environ"), "OMPI_COMM_WORLD_RANK", fmt::format("{}", rank)) &&
        std::filesystem::read_symlink(place + "/exe", ended) == program_)
      return p;
  }
  return 0;
}

bool Job::up(double most_seconds) {
  for (const double end = seconds() + most_seconds; seconds() < end; nap()) {
    int there = 0;
    for (int r = 0; r < ranks_; ++r) there += file_exists(fmt::format("{}/up-{}", folder_, r));
    if (there == ranks_) return true;
    if (launcher_ended()) return false;
  }
  return false;
}

void Job::order(const std::string& what, int rank) {
  std::ofstream(fmt::format("{}/{}-{}", folder_, what, rank)) << "now\n";
}

bool Job::launcher_ended() {
  if (reaped_) return true;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return reaped_ = true;
}

bool Job::over(double most_seconds) {
  for (const double end = seconds() + most_seconds; seconds() < end; nap())
    if (launcher_ended() && left().empty()) return true;
  return false;
}

std::string Job::out() const { return text_of(folder_ + "/out"); }
std::string Job::err() const { return text_of(folder_ + "/err"); }

std::vector<std::string> Job::lines() const {
  std::vector<std::string> found;
  std::istringstream all(err());
  for (std::string line; std::getline(all, line);)
    if (line.starts_with("ebb: ")) found.push_back(line);
  return found;
}

}  // namespace ebb::test
