// Loads by position under range additions: the largest, where it is, and the largest of a range.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "ebb/plan/graph/graph.hpp"

namespace ebb::plan {

class LoadTree {
 public:
  void build(const std::vector<std::uint64_t>& loads) {
    count_ = static_cast<Id>(loads.size());
    leaves_ = static_cast<Id>(std::bit_ceil(loads.size()));
    add_.assign(2 * leaves_, 0);
    max_.assign(2 * leaves_, kLeast);
    for (Id i = 0; i < count_; ++i) max_[leaves_ + i] = static_cast<std::int64_t>(loads[i]);
    for (Id i = leaves_ - 1; i > 0; --i) max_[i] = std::max(max_[2 * i], max_[2 * i + 1]);
  }

  // Positions first … last, inclusive; empty and outside parts are ignored.
  void add(Id first, Id last, std::int64_t bytes) {
    first = std::max(first, 0);
    last = std::min(last, count_ - 1);
    if (first > last) return;
    Id l = first + leaves_, r = last + leaves_ + 1;
    const Id l0 = l, r0 = r - 1;
    for (; l < r; l /= 2, r /= 2) {
      if (l & 1) put(l++, bytes);
      if (r & 1) put(--r, bytes);
    }
    pull(l0);
    pull(r0);
  }

  std::int64_t max(Id first, Id last) const {
    first = std::max(first, 0);
    last = std::min(last, count_ - 1);
    if (first > last) return 0;
    // Walks up from both ends, adding on the way what lies on the parents.
    Id l = first + leaves_, r = last + leaves_;
    std::int64_t left = max_[l], right = max_[r];
    while (l != r) {
      if (l / 2 == r / 2) {
        return std::max(left, right) + above(l);
      }
      if (!(l & 1)) left = std::max(left, max_[l + 1]);
      if (r & 1) right = std::max(right, max_[r - 1]);
      l /= 2;
      r /= 2;
      left += add_[l];
      right += add_[r];
    }
    return left + above(l);
  }

  std::int64_t largest() const { return max_[1]; }
  Id where() const {
    Id i = 1;
    while (i < leaves_) i = max_[2 * i] + add_[i] == max_[i] ? 2 * i : 2 * i + 1;
    return i - leaves_;
  }

 private:
  static constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min() / 2;

  void put(Id i, std::int64_t bytes) {
    max_[i] += bytes;
    if (i < leaves_) add_[i] += bytes;
  }
  void pull(Id i) {
    for (i /= 2; i > 0; i /= 2) max_[i] = std::max(max_[2 * i], max_[2 * i + 1]) + add_[i];
  }
  std::int64_t above(Id i) const {
    std::int64_t sum = 0;
    for (i /= 2; i > 0; i /= 2) sum += add_[i];
    return sum;
  }

  Id count_ = 0, leaves_ = 1;
  std::vector<std::int64_t> max_, add_;  // max_ of a node holds its own add_, not its parents'
};

}  // namespace ebb::plan
