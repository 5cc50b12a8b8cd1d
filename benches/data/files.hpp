// Files to read: made once, in a folder that goes with the program.
#pragma once

#include <cstdint>
#include <string>

namespace ebb::input {

class Folder {
 public:
  Folder();
  ~Folder();
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// About so many bytes of rows that repeat after a while.
void write_csv(const std::string& path,
               std::uint64_t bytes);  // 20 numbers of six digits and a class
void write_jsonl(const std::string& path,
                 std::uint64_t bytes);  // 16 numbers, 5 to 39 tokens and a class
// So many rows of `columns` numbers, x of them, and one of ten classes, y.
void write_classes_csv(const std::string& path, std::int64_t rows, std::int64_t columns);
void write_classes_jsonl(const std::string& path, std::int64_t rows, std::int64_t columns);
void write_short_jsonl(const std::string& path, std::int64_t rows);  // {"y": row % 1000}
void write_pictures(const std::string& folder, int count,
                    int side);  // PNG, colours, in two classes

void read_through(const std::string& path);  // so that it is in the page cache

}  // namespace ebb::input
