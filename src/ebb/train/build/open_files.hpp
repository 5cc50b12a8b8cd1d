// One function for each data.format: a file, or what is drawn, as rows with their facts.
#pragma once

#include <optional>
#include <string>

#include "ebb/train/build/run_data.hpp"

namespace ebb::train {

// Where rows come from.
struct RowFiles {
  std::vector<std::string> path, target_path;
};

struct OpenedRows {
  Dataset rows;
  Reading reading;
  std::uint64_t scanned = 0;            // bytes of files that had to be read to know all this
  std::vector<std::string> notes = {};  // what the owner of the data should hear of, a line each
};

struct How {
  Opening opening = Opening::rows;
  data::RowsHeld* held =
      nullptr;  // for all files of a run; none: for these alone, as the budget decides
};

// `known`: of the data that the model learns from, where these are other rows to be read alike; their
// targets may be missing then.
OpenedRows open_rows_of(const Config& config, const RowFiles& files, const Reading* known,
                        const How& how = {});

}  // namespace ebb::train
