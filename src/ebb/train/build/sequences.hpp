// Generated token sequences with classes: data.format = "sequences".
#pragma once

#include <cstdint>

#include "ebb/data/dataset.hpp"
#include "ebb/train/build/facts.hpp"

namespace ebb::train {

inline constexpr std::int64_t kSequenceTokens = 32, kSequenceClasses = 2;

// "ids": i32(window), padded with 0; "lengths": i32; "label": i32, 1 where there is more praise than
// blame. Some words praise, some blame, most do neither, and "not" turns the next one round: counting
// words is not enough. Row i depends on the seed and i alone.
Dataset sequences(std::int64_t rows, std::int64_t window, std::uint64_t seed);
DataFacts sequences_facts(const Dataset& data);

}  // namespace ebb::train
