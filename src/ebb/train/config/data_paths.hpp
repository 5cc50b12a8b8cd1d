// What paths of [data] name: a format by the ending of a file or by what a folder holds, and the files of a folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ebb/train/config/config.hpp"

namespace ebb::train {

struct ToldFormat {
  std::optional<DataFormat> format;
  std::string why;  // of a folder: why it does not tell
};
// A folder of folders with pictures is images; one of files is what all of them are whose ending is known.
ToldFormat format_of(const std::string& path);
bool has_tabs(const std::string& path);  // .tsv, or a folder of such files

// The files that these paths name, where the format takes several: a folder stands for its files of that format, in
// the order of their names. An Error where there is none, or a folder is named that cannot be one.
std::vector<std::string> files_of(DataFormat format, const std::vector<std::string>& paths);

}  // namespace ebb::train
