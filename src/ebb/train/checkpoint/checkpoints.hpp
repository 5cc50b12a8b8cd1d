// The checkpoints of a run: one directory for each, the last ones and the best ones kept.
//
//   train::Checkpoints checkpoints("run/checkpoints", {.keep_last = 3, .keep_best = 1});
//   if (const auto last = checkpoints.latest()) info = train::load(last->path, model, adam);
//   …
//   checkpoints.save({.step = step, .metric = "loss", .value = loss}, model, adam);
//
// They are step-00001200/ and the like. Looking changes nothing on the disk, and may be done while another process
// trains. The first save takes a lock on the directory, so that one process writes there (directory_lock.hpp), and
// removes what killed processes have left half written or half removed.
//
// After each save those that are neither among the last nor among the best are removed: first moved to another
// name, so that no half of one is ever taken for a checkpoint. What cannot be read is not counted, and left as it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebb/train/checkpoint/checkpoint.hpp"
#include "ebb/train/checkpoint/directory_lock.hpp"

namespace ebb::train {

struct KeepOptions {
  int keep_last = 3;              // at least 1
  int keep_best = 1;              // of those with a value
  bool higher_is_better = false;  // of a value; it is a loss otherwise
};

struct Checkpoint {
  std::string path;
  CheckpointInfo info;
  std::int64_t written = 0;  // when: microseconds since 1970, and after all before it
  std::string damage = {};   // why its manifest cannot be believed; empty where it can
};

class Checkpoints {
 public:
  explicit Checkpoints(std::string directory, KeepOptions keep = {});

  // Returns where it is. A value that is NaN or infinite is left out: it is never a best one. `best` is that
  // of `info`, or `value` where that is better.
  template <class... Parts>
  std::string save(const CheckpointInfo& info, Parts&&... parts) {
    return save_parts(info, CheckpointParts::of(parts...));
  }
  std::string save_parts(CheckpointInfo info, const CheckpointParts& parts);

  // In the order in which they were written; damaged ones, whose order is not known, by their step.
  std::vector<Checkpoint> list() const;
  // The one that was written last. An error where it is damaged, as far as its manifest and the lengths of its
  // files tell: going on from an older one is for the user to say, with latest_good().
  std::optional<Checkpoint> latest() const;
  // The last one that is whole: all bytes are read. `skipped`, where given, are the errors of those after it.
  std::optional<Checkpoint> latest_good(std::vector<std::string>* skipped = nullptr) const;
  std::optional<Checkpoint> best() const;  // by its value; of equal ones the first
  // What to do where this one is damaged, to be put behind an error about it; "": there is no other.
  std::string way_on(const std::string& damaged) const;

  // What the first save does before it writes. For those who want to know at once whether they may.
  void claim();

  const std::string& directory() const { return directory_; }

 private:
  bool better(double a, double b) const { return keep_.higher_is_better ? a > b : a < b; }
  std::vector<Checkpoint> by_value(std::vector<Checkpoint> all) const;
  void rotate(const std::string& saved) const;

  std::string directory_;
  KeepOptions keep_;
  std::optional<DirectoryLock> lock_;
};

}  // namespace ebb::train
