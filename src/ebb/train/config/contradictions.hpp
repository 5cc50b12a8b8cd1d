// Keys that do not go together, each said in one line.
#pragma once

#include <string>

#include "ebb/train/config/config.hpp"
#include "ebb/train/config/toml.hpp"

namespace ebb::train {

// Names of the figures that train.metrics may list.
extern const std::vector<std::string> kMetrics;

void refuse_contradictions(const Config& config, const TomlTable& document,
                           const std::string& name);

}  // namespace ebb::train
