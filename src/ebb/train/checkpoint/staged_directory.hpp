// A directory that is written beside its place and put there in one step, and the reverse: one that is moved out
// of its place in one step before it is removed. Whatever ends the process in between, nothing half made or half
// removed bears the name.
//
//   StagedDirectory staged("run/step-00000012");
//   …                                             // files in staged.path(), each synced
//   staged.commit();                              // without it nothing is left behind
//
// What a killed process has left is "run/.step-00000012.4711-0.tmp". It is locked while somebody is at it, so it
// is known for a leftover when it is not.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ebb/base/files/folder.hpp"

namespace ebb::train {

class StagedDirectory {
 public:
  explicit StagedDirectory(std::string target);  // its parent is there
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;
  ~StagedDirectory();

  const std::string& path() const { return path_; }
  void commit();  // in the place of a directory of that name, too, which is removed

 private:
  void replace();
  std::string target_, path_;
  std::optional<HeldFolder> held_;
  bool ours_ = true;  // what is at path() is what was written here, and nobody misses it
};

void remove_directory(const std::string& target);

// Of those names in `parent` that are ours: removed, or where one was about to be replaced and no other is in its
// place, put back.
void remove_leftovers(const std::string& parent,
                      const std::function<bool(std::string_view name)>& ours);

}  // namespace ebb::train
