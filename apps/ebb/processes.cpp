#include "apps/ebb/processes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "ebb/base/error.hpp"
#include "ebb/dist/launch.hpp"
#include "ebb/dist/open.hpp"

namespace ebb::app {
namespace {

// The words of this process's command line.
std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  char program[4096];
  const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program);
  if (words.empty() || length <= 0)
    throw Error("how this program was started cannot be found out (/proc/self)");
  words[0] = std::string(program, static_cast<std::size_t>(length));
  return words;
}

}  // namespace

void add_processes(CLI::App& command, int& processes) {
  command
      .add_option(
          "--processes", processes,
          "so many share every step on this machine, started by mpirun; the bits are those of "
          "one. For several machines, start it by mpirun or srun yourself")
      ->type_name(value::kNumber)
      ->check(number_from(1, 1024));
}

void start_processes(const char* command, int processes) {
  const auto as = dist::started();
  if (as && processes && processes != as->size)
    throw dist::OnEveryRank(
        fmt::format("{}: {} has started {} processes, and --processes says {}; leave one of "
                    "them out",
                    command, as->by, as->size, processes),
        as->rank == 0);
  if (processes < 2 || dist::launched()) return;
  dist::Launch launch{processes, 0, {}};
  const std::vector<std::string> words = own_words();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--processes")
      ++i;  // and its number
    else if (!words[i].starts_with("--processes="))
      launch.program.push_back(words[i]);
  }
  const auto line = dist::mpirun_line(launch);
  if (!quiet()) print(wrapped(dist::shell_line(line), 2) + "\n\n");
  dist::become(line);
}

}  // namespace ebb::app
