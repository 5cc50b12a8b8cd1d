#include "ebb/train/build/sequences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "ebb/base/error.hpp"
#include "ebb/base/rng.hpp"

namespace ebb::train {
namespace {

// 0 pads.
constexpr std::int32_t kNot = 1, kPraise = 2, kBlame = 8, kOther = 14;
constexpr std::int64_t kShortest = 4;

int worth(std::int32_t token) {
  if (token >= kPraise && token < kBlame) return 1;
  return token >= kBlame && token < kOther ? -1 : 0;
}

struct Sequence {
  std::int32_t length = 0, label = 0;
};

Sequence draw_sequence(std::uint64_t seed, std::int64_t row, std::span<std::int32_t> ids) {
  std::uint64_t drawn = 0;
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(
        mix(mix(mix(seed) + static_cast<std::uint64_t>(row)) + ++drawn) %
        static_cast<std::uint64_t>(n));
  };
  const auto window = static_cast<std::int64_t>(ids.size());
  int score = 0;
  std::int64_t length = 0;
  while (score == 0) {  // neither is none of the classes
    std::fill(ids.begin(), ids.end(), 0);
    length = kShortest + below(window - kShortest + 1);
    for (std::int64_t i = 0; i < length; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool turned = i > 0 && ids[at - 1] == kNot;
      const std::int64_t kind = below(8);
      if (kind < 2 && !turned && i + 1 < length) {
        ids[at] = kNot;
      } else if (kind < 5 || turned) {
        ids[at] = static_cast<std::int32_t>(kPraise + below(kOther - kPraise));
      } else {
        ids[at] = static_cast<std::int32_t>(kOther + below(kSequenceTokens - kOther));
      }
      score += turned ? -worth(ids[at]) : worth(ids[at]);
    }
  }
  return {static_cast<std::int32_t>(length), score > 0 ? 1 : 0};
}

}  // namespace

Dataset sequences(std::int64_t rows, std::int64_t window, std::uint64_t seed) {
  if (rows < 1 || window < kShortest)
    throw Error(fmt::format("sequences: {} rows of {} tokens; expected at least 1 of at least {}",
                            rows, window, kShortest));
  Tensor ids = Tensor::uninitialized({{rows, window}, DType::i32}, "sequences", Category::data);
  Tensor lengths = Tensor::uninitialized({{rows}, DType::i32}, "sequences", Category::data);
  Tensor labels = Tensor::uninitialized({{rows}, DType::i32}, "sequences", Category::data);
  auto* id = reinterpret_cast<std::int32_t*>(ids.bytes());
  for (std::int64_t i = 0; i < rows; ++i) {
    const Sequence s = draw_sequence(seed, i, {id + i * window, static_cast<std::size_t>(window)});
    reinterpret_cast<std::int32_t*>(lengths.bytes())[i] = s.length;
    reinterpret_cast<std::int32_t*>(labels.bytes())[i] = s.label;
  }
  return Dataset::of({{"ids", ids}, {"lengths", lengths}, {"label", labels}});
}

DataFacts sequences_facts(const Dataset& data) {
  DataFacts facts = facts_of(data, Task::sequence_classification, "ids", "label");
  facts.lengths = "lengths";
  facts.classes = kSequenceClasses;
  facts.vocabulary = kSequenceTokens;
  return facts;
}

}  // namespace ebb::train
