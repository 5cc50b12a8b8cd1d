// train::save with a time to write into the manifest, which tells checkpoints of a run apart.
#pragma once

#include <cstdint>
#include <string>

#include "ebb/train/checkpoint/checkpoint.hpp"

namespace ebb::train {

void write_checkpoint(const std::string& directory, CheckpointInfo info, std::int64_t written,
                      const CheckpointParts& parts);

}  // namespace ebb::train
