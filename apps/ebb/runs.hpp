// Where the runs of a config are.
#pragma once

#include <string>

#include "ebb/train/config/config.hpp"

namespace ebb::app {

std::string usual_run(const std::string& config_path);  // "runs/train" of "first/train.toml"
// The run that was begun last with this config: output.directory, or the last of runs/NAME, runs/NAME-2 …
std::string last_run(const train::Config& config, const std::string& config_path);

}  // namespace ebb::app
