// Lists of different lengths, one a row, one behind the other: in memory, or in a file from which a batch
// reads its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/files/file.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb::data {

// How the lists of a batch become one tensor, (rows, length).
struct PadOptions {
  // Lengths that a batch may have: the least that holds its longest list. None: as long as that list.
  std::vector<std::int64_t> buckets = {};
  bool cut = false;          // lists longer than the last bucket end there; else they are an Error
  double value = 0;          // what stands behind the end of a list
  std::string mask = {};     // name of a column bool(rows, length): where there is a list's element
  std::string lengths = {};  // name of a column i32(rows): how many there are
};

// Where a list lies: part of a row, as it is in memory and in a file.
struct ListPlace {
  std::uint64_t offset = 0;  // bytes
  std::uint32_t count = 0;   // elements
  static constexpr std::size_t kBytes = 12;

  static ListPlace read(const std::byte* from);
  void write(std::byte* to) const;
};

class Lists {
 public:
  // Of f32, i32 or u8.
  Lists(Tensor bytes, DType dtype);  // u8, all of them
  Lists(File file, std::uint64_t first, std::uint64_t bytes, DType dtype);
  DType dtype() const { return dtype_; }

  // Row i of `to`, (rows, length), becomes the i-th of these, cut or padded.
  void gather(std::span<const std::byte> places, double pad, Tensor& to) const;

 private:
  void announce(std::span<const std::byte> places, std::size_t length) const;
  void read(const ListPlace& place, std::size_t bytes, std::byte* to) const;

  Tensor memory_;
  mutable File file_;  // reads name their offset, and leave it as it is
  std::uint64_t first_ = 0, bytes_ = 0;
  DType dtype_;
};

}  // namespace ebb::data
