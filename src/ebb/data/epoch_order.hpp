// The order in which an epoch deals out its rows: a function of seed and epoch alone, so nobody has to walk to
// a place in it.
//
// Of a set that is not too large it is a list, shuffled once an epoch. Beyond that a list would take long to
// shuffle and megabytes to hold: the row at each place is computed, and takes no memory.
#pragma once

#include <array>
#include <cstdint>

#include "ebb/base/memory/memory.hpp"
#include "ebb/base/rng.hpp"

namespace ebb::data {

// A permutation of 0 … count - 1 that is drawn by its key, one number at a time.
class Permutation {
 public:
  Permutation() = default;
  Permutation(std::int64_t count, const Key& key);  // at most 2^32
  std::uint32_t operator[](std::int64_t i) const;

 private:
  std::uint64_t count_ = 0, rows_ = 1,
                columns_ = 1;  // numbers stand in a table that just holds them
  std::array<std::uint64_t, 8> keys_ = {};
};

class EpochOrder {
 public:
  static constexpr std::int64_t kListed = std::int64_t{1} << 20;  // more rows have no list

  EpochOrder(std::int64_t rows, std::uint64_t seed) : rows_(rows), seed_(seed) {}
  void start(std::int64_t epoch);  // takes the memory of the list, if there is one
  std::uint32_t operator[](std::int64_t i) const { return listed() ? list()[i] : permutation_[i]; }

  bool listed() const { return rows_ <= kListed; }
  const std::uint32_t* list() const {  // null: there is none
    return reinterpret_cast<const std::uint32_t*>(list_.data());
  }

 private:
  void shuffle(const Key& key);

  std::int64_t rows_, epoch_ = -1;
  std::uint64_t seed_;
  memory::Buffer list_;
  Permutation permutation_;
};

}  // namespace ebb::data
