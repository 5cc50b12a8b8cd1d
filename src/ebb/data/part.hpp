// How some share the rows of a batch: each has a stretch of them, in order, none twice and none left out. The
// first ones have one more where it does not come out even; the last ones have none where there are too few.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ebb::data {

struct Part {
  std::int64_t index = 0, count = 1;  // which one, of how many

  bool whole() const { return count == 1; }
  // Of a batch of so many rows, [begin, end) are its own. A larger batch never gives it fewer.
  std::int64_t begin(std::int64_t rows) const {
    return rows / count * index + std::min(index, rows % count);
  }
  std::int64_t end(std::int64_t rows) const { return begin(rows) + this->rows(rows); }
  std::int64_t rows(std::int64_t rows) const { return rows / count + (index < rows % count); }
  bool operator==(const Part&) const = default;
};

}  // namespace ebb::data
