// A file that grows at its end in whole pieces: lines, records.
//
// Pieces are gathered in memory and written together by flush(). A write that fails is no loss: what
// reached the disk of it is overwritten by the next try. Whoever is killed leaves whole pieces, or a
// torn one at the very end, which the reader of the format cuts off when it opens the file again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "ebb/base/files/file.hpp"

namespace ebb::train {

class AppendFile {
 public:
  // Made where there is none; with `exclusive` it must not be there.
  explicit AppendFile(const std::string& path, bool exclusive = false);
  AppendFile(AppendFile&&) = default;
  AppendFile& operator=(AppendFile&&) = default;
  ~AppendFile();  // tries to write what is left

  void add(std::string_view piece);  // an Error where so much waits that writing must have failed
  void flush();                      // to the system: outlives the process
  void sync();                       // to the disk: outlives the machine's power
  void cut(std::uint64_t end);       // what lies behind is gone; nothing may be waiting

  std::uint64_t end() const { return end_; }  // bytes written
  std::size_t waiting() const { return waiting_.size(); }
  const std::string& path() const { return file_.path(); }
  File& file() { return file_; }

 private:
  File file_;
  std::uint64_t end_ = 0;
  std::string waiting_;
};

// A whole line of a file.
struct LineSeen {
  std::string_view start;  // its first bytes, at most kStart
  char last = 0;           // the one before the newline; 0 of an empty line
  std::size_t commas = 0;  // in all of it
  bool is_text = true;     // it has no control characters
  std::uint64_t end = 0;   // offset behind the newline

  static constexpr std::size_t kStart = 64;
};
// Calls `f` for each whole line, in pieces of memory, until it returns false.
void each_line(File& file, const std::function<bool(const LineSeen&)>& f);

}  // namespace ebb::train
