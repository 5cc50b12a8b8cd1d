// One process at a time in a directory: the second one is refused, and told who is there.
//
//   const train::DirectoryLock lock("run");   // "cannot use "run": process 4711 is at work there; …"
//
// It is held until it goes out of scope or the process ends, however it ends: a number that a killed process has
// left in the file means nothing. The file stays, so that nobody locks one that another has just removed.
#pragma once

#include <string>

#include "ebb/base/files/file.hpp"

namespace ebb::train {

class DirectoryLock {
 public:
  explicit DirectoryLock(const std::string& directory);  // which is there
  DirectoryLock(DirectoryLock&&) = default;
  DirectoryLock& operator=(DirectoryLock&&) = default;
  ~DirectoryLock();

  static constexpr char kName[] = ".lock";

 private:
  File file_;  // its first line is the number of the process
};

}  // namespace ebb::train
