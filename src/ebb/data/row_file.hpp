// Rows of one length in a file, or in several one after the other, read when a batch wants them.
//
// Under a budget what is read leaves the page cache again, which else is memory of the process's group. So each
// read goes to the disk, and a batch's rows are asked for together: ascending, neighbours in one
// read, and announced some way ahead, so that the disk has more than one thing to do.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/files/file.hpp"

namespace ebb::data {

class RowFile {
 public:
  struct Wanted {
    std::uint32_t row, slot;  // which row of the file, and which of the batch it becomes
    bool operator<(const Wanted& other) const { return row < other.row; }
  };
  using Place = std::function<void(const Wanted&, const std::byte* row)>;

  // Row i is the `row_bytes` bytes at first + i * stride; the file is long enough for all of them.
  RowFile(File file, std::uint64_t first, std::size_t row_bytes, std::size_t stride,
          std::int64_t rows);
  // Row 0 of a part follows the last one of the part before it.
  struct Part {
    File file;
    std::uint64_t first;
    std::int64_t rows;
  };
  RowFile(std::vector<Part> parts, std::size_t row_bytes, std::size_t stride);
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  std::int64_t rows() const { return rows_; }
  std::size_t row_bytes() const { return row_bytes_; }
  std::size_t stride() const { return stride_; }
  std::size_t buffer_bytes() const;  // what read() needs: a few neighbours, and at least one row
  static std::size_t buffer_for(std::int64_t rows, std::size_t row_bytes, std::size_t stride);

  // Calls `place` for each of these rows, which ascend. Any number of threads may read at once.
  void read(std::span<const Wanted> wanted, std::span<std::byte> buffer, const Place& place) const;
  [[noreturn]] void refuse_change() const;  // a FileError: one of them is not what it was

 private:
  struct Run {  // rows that one read covers
    std::size_t rows;
    std::uint64_t offset;
    std::size_t bytes;
  };
  struct Stamp {
    std::uint64_t bytes = 0;
    std::int64_t seconds = 0, nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct Opened {
    File file;
    std::uint64_t first;  // byte of row `begin`
    std::int64_t begin, rows;
    Stamp stamp;
  };
  static Stamp stamp(const File& file);
  [[noreturn]] static void refuse_change(const Opened& part);
  Run run(const Opened& part, std::span<const Wanted> wanted, std::size_t most) const;
  void read(Opened& part, std::span<const Wanted> wanted, std::span<std::byte> buffer,
            const Place& place) const;

  mutable std::vector<Opened> parts_;  // reads name their offset, and leave files as they are
  std::size_t row_bytes_, stride_;
  std::int64_t rows_ = 0;
};

}  // namespace ebb::data
