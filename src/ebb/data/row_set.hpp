// Which rows of the columns a data set has, and in what order: a pure function from 0 … size - 1 to rows.
//
//   rows(10, 20)   every(3, from 1)   repeated(2)   those of a bitmap
//
// Sets are made of sets, and take next to no memory; a bitmap, of a filter or a split, a bit for each row.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ebb/base/memory/memory.hpp"

namespace ebb::data {

// A bit for each of some rows, and where the n-th that is set stands.
class Bitmap {
 public:
  explicit Bitmap(std::int64_t bits);
  void set(std::int64_t bit) { words()[bit / 64] |= std::uint64_t{1} << bit % 64; }
  bool test(std::int64_t bit) const { return words()[bit / 64] >> bit % 64 & 1; }
  void seal();  // after the last set(): counts them
  std::int64_t count() const { return count_; }
  std::int64_t nth(std::int64_t n) const;  // the place of the n-th, 0 <= n < count()
  std::uint64_t fingerprint() const { return fingerprint_; }
  std::shared_ptr<const Bitmap> inverse() const;

 private:
  static constexpr std::int64_t kWords = 8;  // from one sample to the next
  std::int64_t word_count() const { return (bits_ + 63) / 64; }
  std::uint64_t* words() const { return reinterpret_cast<std::uint64_t*>(words_.data()); }
  std::uint32_t* samples() const { return reinterpret_cast<std::uint32_t*>(samples_.data()); }

  std::int64_t bits_, count_ = 0;
  std::uint64_t fingerprint_ = 0;
  memory::Buffer words_, samples_;  // samples: how many are set before each kWords-th word
};

class RowSet {
 public:
  RowSet() = default;
  explicit RowSet(std::int64_t size) : size_(size) {}

  std::int64_t size() const { return size_; }
  std::int64_t at(std::int64_t i) const {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) i = (*step)(i);
    return i;
  }
  // Neighbours are neighbours, and the first is first().
  bool contiguous() const;
  std::int64_t first() const { return size_ ? at(0) : steps_.empty() ? 0 : steps_[0].first; }

  RowSet rows(std::int64_t begin, std::int64_t end) const;
  RowSet every(std::int64_t from, std::int64_t step) const;
  RowSet repeated(std::int64_t times) const;
  RowSet chosen(std::shared_ptr<const Bitmap> those) const;  // of as many bits as there are rows
  std::uint64_t fingerprint() const;

 private:
  struct Step {
    std::int64_t first = 0, step = 1, period = 0;  // (first + i * step) % period; 0: no period
    std::shared_ptr<const Bitmap> those = {};      // the i-th of them, instead
    std::int64_t operator()(std::int64_t i) const {
      if (those) return those->nth(i);
      i = first + i * step;
      return period ? i % period : i;
    }
  };
  RowSet with(Step step, std::int64_t size) const;

  std::int64_t size_ = 0;
  std::vector<Step> steps_;  // the last is applied first
};

}  // namespace ebb::data
