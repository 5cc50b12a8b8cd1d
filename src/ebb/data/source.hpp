// Where the rows of a column lie: in memory, or in a file that is read when a batch is made.
//
//   Dataset::of({{"x", data::npy_rows("x.npy")}, {"y", y}})   // x stays in its file, y is a Tensor
//
// Batches are the same, to the bit, wherever the rows lie.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "ebb/data/lists.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb::data {

class RowFile;

// What a byte becomes, as i32; -1: it must not occur.
using Codes = std::array<std::int32_t, 256>;

// Where rows are taken to lie, by those who weigh one against the other: all that could lie elsewhere do, or don't.
enum class Lying { as_they_do, in_memory, in_files };

class Source {
 public:
  Source(Tensor values);  // all rows, in memory
  // All rows of `spec`, a part of each row of the file from `offset` on; `swapped`: the bytes of an
  // element are in the other order than this machine's.
  Source(std::shared_ptr<const RowFile> file, const Spec& spec, std::size_t offset = 0,
         bool swapped = false);
  // (count, window) of a text of bytes or tokens, (length): row i begins at offset + i * stride.
  static Source windows(Tensor text, std::int64_t count, std::int64_t window, std::int64_t stride,
                        std::int64_t offset);

  // The same of rows in memory, u8(rows, bytes of a row).
  static Source part(Tensor rows, const Spec& spec, std::size_t offset);
  // Lists: of each row a ListPlace, as `places` has them, and what it leads to. `longest` of them.
  static Source of_lists(Source places, std::shared_ptr<const Lists> lists, std::int64_t longest);

  Source flat() const;                                     // each row in one axis
  Source scaled(float factor) const;                       // of u8: f32, each byte times it
  Source coded(std::shared_ptr<const Codes> codes) const;  // of u8: i32, looked up
  Source padded(PadOptions options) const;                 // of lists
  explicit operator bool() const { return file_ || values_; }
  const Spec& spec() const {
    return spec_;
  }                                    // of all rows, as batches hold them; of lists the longest
  Spec spec(std::int64_t rows) const;  // of some
  float factor() const { return factor_; }  // 0: not scaled

  const std::shared_ptr<const Lists>& lists() const { return lists_; }  // none: rows of one length
  const PadOptions& padding() const { return *padding_; }
  std::int64_t longest() const { return longest_; }     // of the lists there are
  std::int64_t length_for(std::int64_t longest) const;  // of a batch whose longest list is that

  // The same, which could lie in a file that is read through so large a buffer, and in memory; `whole`: as a tensor of
  // its own.
  Source movable(std::size_t file_buffer, bool whole) const;
  bool in_file(Lying where) const {
    return movable_ && where != Lying::as_they_do ? where == Lying::in_files : bool(file_);
  }
  std::size_t file_buffer() const;  // what a file is read through, be it one now or not
  bool as_it_lies(Lying where) const;

  // For those who make batches.
  const std::shared_ptr<const RowFile>& file() const { return file_; }  // none: in memory
  Spec stored(std::int64_t rows) const;  // what copy() and place() fill: of lists, their places
  bool as_it_lies() const;               // in memory, as batches hold it: view() is a batch
  Tensor view(std::int64_t begin, std::int64_t end) const { return values_.rows(begin, end); }
  // Rows order[0] + first, … of memory; without an order first, first + 1, …
  void copy(const std::uint32_t* order, std::int64_t first, std::int64_t count, Tensor& to) const;
  // Row `slot` of `to` from a row of the file; false where it holds a byte without a code.
  bool place(const std::byte* file_row, std::size_t slot, Tensor& to) const;

 private:
  Source() = default;
  bool put(const std::byte* from, std::byte* to) const;
  std::size_t placed_bytes() const;  // of a row in a batch

  Tensor values_;
  std::shared_ptr<const RowFile> file_;
  Spec spec_;
  std::size_t offset_ = 0, row_bytes_ = 0, stride_ = 0;  // of a row as it lies
  std::size_t width_ = 1;                                // of an element as it lies
  bool swapped_ = false;
  float factor_ = 0;
  std::shared_ptr<const Codes> codes_;
  std::shared_ptr<const Lists> lists_;
  std::shared_ptr<const PadOptions> padding_;
  std::int64_t longest_ = 0;
  bool movable_ = false, whole_ = false;
  std::size_t file_buffer_ = 0;
};

}  // namespace ebb::data
