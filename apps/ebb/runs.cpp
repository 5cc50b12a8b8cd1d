#include "apps/ebb/runs.hpp"

#include <fmt/core.h>

#include "ebb/base/error.hpp"
#include "ebb/train/run/run_directory.hpp"

namespace ebb::app {

std::string usual_run(const std::string& path) {
  const std::size_t folder = path.rfind('/');
  const std::string name = path.substr(folder == std::string::npos ? 0 : folder + 1);
  return "runs/" + name.substr(0, name.rfind('.'));
}

std::string last_run(const train::Config& config, const std::string& config_path) {
  const std::string first =
      config.output.directory.empty() ? usual_run(config_path) : config.output.directory;
  if (!train::RunDirectory::is_run(first))
    throw Error(fmt::format("{}: there is no run of it ({}) yet; ebb train {} makes one",
                            config_path, first, config_path));
  std::string last = first;
  if (config.output.directory.empty())
    for (int number = 2;; ++number) {
      const std::string next = fmt::format("{}-{}", first, number);
      if (!train::RunDirectory::is_run(next)) break;
      last = next;
    }
  return last;
}

}  // namespace ebb::app
