// What a disk may hold after a power cut: everything that was synced, and of all else any part.
//
// A file's bytes are those up to its last sync, and any of the later writes, the last of them cut short anywhere; a
// folder's names are those up to its last sync, and any of the later changes. A move is one change. This is less than
// any file system keeps, and more than the order of writes allows: a program that is right here is right there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ebb/base/files/file_record.hpp"

namespace ebb::train::test {

class Disk {
 public:
  explicit Disk(std::string root);  // an empty folder, as far as is recorded

  void apply(const file_record::Operation& operation);

  // Of the operations that a cut may lose, in the order in which they were made, which ones it does not.
  std::size_t pending() const;
  // `cut`: so many bytes are missing at the end of the last write that is kept.
  void materialise(const std::string& to, const std::function<bool(std::size_t)>& kept,
                   std::size_t cut = 0) const;

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  struct Change {  // of a folder: names and what they stand for now; null: nothing
    std::vector<std::pair<std::string, NodePtr>> names;
  };
  struct Node {
    bool folder = false;
    std::vector<file_record::Operation> writes;  // of a file
    std::vector<Change> changes;                 // of a folder
    std::vector<std::size_t> times;              // when each of them was made
    std::size_t durable = 0;                     // so many of them are
  };
  static NodePtr name_in(const Node& folder, const std::string& name);  // as the program sees it
  std::pair<NodePtr, std::string> place(const std::string& path) const;
  NodePtr at(const std::string& path) const;
  void change(const NodePtr& folder, Change change);
  std::vector<std::size_t> lost_times() const;

  std::string root_;
  NodePtr top_;
  std::vector<NodePtr> all_;  // also those that have no name any more
  std::size_t clock_ = 0;
};

}  // namespace ebb::train::test
