// Sizes of a model: those that the config gives and those that the data has, brought together.
#pragma once

#include "ebb/train/build/facts.hpp"

namespace ebb::train {

struct Sizes {
  Spec example;                 // as the model takes it
  bool reshaped = false;        // the data has it in another shape
  std::int64_t outputs = 0;     // classes, vocabulary of a language model, numbers to predict
  std::int64_t vocabulary = 0;  // of token ids; 0: the input is no ids
  std::int64_t context = 0;     // tokens of a sequence at most
  bool tokens() const { return !is_float(example.dtype); }
};

// An Error where config and data do not fit, or neither tells.
Sizes sizes_of(const Config& config, const DataFacts& facts);

}  // namespace ebb::train
