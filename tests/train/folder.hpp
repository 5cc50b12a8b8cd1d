// Small helpers to look at files of a run.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/folder.hpp"

namespace ebb::train::test {

using ebb::test::Folder;

// Where nothing waits for a disk, for runs that save often and are not about that.
inline std::filesystem::path in_memory() {
  return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path();
}

inline std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
inline std::vector<std::string> lines(const std::string& path) {
  std::vector<std::string> all;
  std::istringstream in(content(path));
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}
inline std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    all.push_back(entry.path().filename().string());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace ebb::train::test
