// What a model has to know of the data: what a batch holds, and what is to be told from it.
//
//   train::DataFacts facts = train::facts_of(digits, train::Task::classification, "image", "label");
//   facts.classes = 10;
//   train::Model model = train::Model::of(Mlp(nn::Init(1)), facts);     // with a loss and figures that suit it
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/data/dataset.hpp"
#include "ebb/train/config/config.hpp"

namespace ebb::train {

struct DataFacts {
  Task task = Task::classification;
  std::string input = "x", target = "y";  // columns of a batch
  std::string lengths = {};  // column i32(rows): how many tokens of a padded row count; or none
  Spec example = {};         // of one input, without the axis of rows: f32(784), i32(64)
  Spec answer = {};          // of one target: i32(), f32(), f32(3), i32(64)
  std::int64_t classes = 0, vocabulary = 0;  // 0: not known
  std::int64_t rows = 0;                     // to train on
  double target_scale = 1;  // what 1 is worth in the target's own unit, where it was standardised
};

// Specs and rows as a data set gives them; classes and vocabulary are left to the caller.
DataFacts facts_of(const Dataset& data, Task task, std::string_view input, std::string_view target);

}  // namespace ebb::train
