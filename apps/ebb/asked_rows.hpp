// Rows that a trained model is asked about.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ebb/train/job.hpp"

namespace ebb::app {

struct AskedRows {
  // `names`: of the files that the rows come from, one each; none where they are rows of one file.
  using Visit = std::function<void(const Batch& batch, const std::vector<std::string>& names)>;

  BatchSpec spec;
  std::int64_t count = 0;
  bool named = false;
  std::function<void(const Visit&)> each;  // batch by batch, in their order
  std::vector<std::string> notes = {};     // what the owner of the file should hear of
};

// A file like the one that the model has learnt from; a picture or a folder of pictures for a model of pictures;
// an .npy file for one that has learnt from generated rows.
AskedRows asked_rows(const train::Job& job, const std::string& path);

// Rows with their targets, for figures, and what is to be said of them said; `targets`: their file, of formats that have one of its own.
Dataset rows_with_targets(const train::Job& job, const std::string& path,
                          const std::string& targets);

}  // namespace ebb::app
