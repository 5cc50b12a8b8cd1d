// A folder for one test, which goes with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "ebb/base/files/file_faults.hpp"

namespace ebb::test {

struct Folder {
  explicit Folder(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "ebb-test-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() {
    file_faults::clear();
    std::filesystem::remove_all(path);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

}  // namespace ebb::test
