// Models of many kinds at small sizes, each with data of its own, for whole programs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ebb/ebb.hpp"

namespace ebb::programs {

struct Subject {
  std::shared_ptr<void> model;               // holds the variables
  std::vector<Variable> params, variables;   // trainable ones; all
  std::function<Loss(const Batch&)> loss;    // of a batch, as training or evaluation says
  std::function<Tensor(const Batch&)> rows;  // what it answers, row by row; may be empty
};

// The kinds there are: the first four are the ordinary ones. Two more: "tiny", of next to nothing, and
// "mnist:FOLDER", of digits that stay in the files of a folder.
const std::vector<std::string>& kinds();
Subject make(const std::string& kind, std::uint64_t seed);
// Columns as the kind takes them; the same for the same seed.
Dataset data_for(const std::string& kind, std::int64_t rows, std::uint64_t seed);

}  // namespace ebb::programs
