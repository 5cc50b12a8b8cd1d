// A text that a language model makes while it is trained.
//
//   sample_text(model, *reading.tokenizer, config.output, {.seed = step});
//
// It ends early where a signal asks the process to stop (run/stop_signal.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "ebb/data/tokenizer.hpp"
#include "ebb/train/build/model.hpp"

namespace ebb::train {

struct SampleRun {
  std::uint64_t seed = 0;
  bool trial = false;  // only a few tokens, that take as much memory as any text would
};
// Of output.sample_tokens tokens behind output.prompt, in valid UTF-8.
std::string sample_text(const Model& model, const data::Tokenizer& tokenizer,
                        const OutputConfig& output, const SampleRun& run);

}  // namespace ebb::train
