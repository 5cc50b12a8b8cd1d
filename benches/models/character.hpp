// The small GPT of the benchmarks, which predicts a text character by character, and a text for it
// that is the same everywhere.
#pragma once

#include <string>

#include "ebb/ebb.hpp"

namespace ebb::zoo {

// Sentences of an invented language, in paragraphs: words of syllables, few of them frequent and
// most of them rare, in the order of a small grammar; a verb prefers some nouns to others.
std::string invented_text(std::size_t bytes = 1'000'000);

struct Characters {
  static constexpr std::int64_t kBatch = 16, kWindow = 64;
  data::Text text;
  Dataset batches;  // windows in the order of the text, so that another framework can take the same
  explicit Characters(const std::string& text);
  nn::Gpt model(DType dtype = DType::f32) const;  // 2 layers of 128
};

}  // namespace ebb::zoo
