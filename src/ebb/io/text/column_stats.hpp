// What a pass over a table, csv or jsonl, gathers of its columns: block by block, put together in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ebb/io/text/csv.hpp"

namespace ebb::io {

inline constexpr std::size_t kLongestCategory = 1000;  // bytes

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
using Words = std::unordered_set<std::string, TextHash, std::equal_to<>>;

// Mean and squared deviations, by block: sums from a value near the mean, put together in order.
struct Moments {
  std::int64_t count = 0;
  double shift = 0, sum = 0, squares = 0;  // of value - shift
  float least = std::numeric_limits<float>::infinity(), largest = -least;

  void add(float value) {
    if (count++ == 0) shift = value;
    const double d = value - shift;
    sum += d;
    squares += d * d;
    least = std::min(least, value);
    largest = std::max(largest, value);
  }
};

struct Gathered {
  std::int64_t count = 0;
  double mean = 0, squares = 0;  // of value - mean
  float least = std::numeric_limits<float>::infinity(), largest = -least;

  void add(const Moments& m) {
    if (m.count == 0) return;
    const auto n = static_cast<double>(m.count), all = n + static_cast<double>(count);
    const double other = m.shift + m.sum / n, apart = other - mean;
    squares += std::max(0.0, m.squares - m.sum * m.sum / n) +
               apart * apart * static_cast<double>(count) * n / all;
    mean += apart * n / all;
    count += m.count;
    least = std::min(least, m.least);
    largest = std::max(largest, m.largest);
  }
};

struct BlockColumn {
  Moments numbers;
  std::int64_t missing = 0, texts = 0;
  Words words;  // what was no number, or all where the column is said to be categories
  bool too_many = false;
  std::string first_text;  // of columns that are not known to be categories
  std::uint64_t first_at = 0;

  void add_word(std::string_view text, std::int64_t most) {
    ++texts;
    if (words.contains(text)) return;
    if (static_cast<std::int64_t>(words.size()) < most)
      words.emplace(text);
    else
      too_many = true;
  }
};

struct BlockColumns {
  std::vector<BlockColumn> columns;
  std::int64_t rows = 0;

  void clear(std::size_t count) {
    rows = 0;
    columns.assign(count, {});
  }
};

class ColumnStats {
 public:
  explicit ColumnStats(std::vector<std::string> names)
      : names_(std::move(names)), all_(names_.size()) {}

  // The next block, of this file. More different texts than a column may have are refused.
  void take(BlockColumns& block, const std::string& path, std::int64_t most_categories);
  // What is known of a column, to be said where it is refused.
  void hint(std::size_t i, std::string text) { all_[i].hint = std::move(text); }
  std::int64_t numbers(std::size_t i) const { return all_[i].numbers.count; }
  std::int64_t texts(std::size_t i) const { return all_[i].texts; }
  CsvMixed mixed(std::size_t i) const;  // its line is counted, for which the file is read
  CsvSchema schema(const std::vector<ColumnKind>& kinds) const;

 private:
  struct Column {
    Gathered numbers;
    std::int64_t missing = 0, texts = 0;
    Words words;
    std::string hint, path, first_text;
    std::uint64_t first_at = 0;
  };
  std::vector<std::string> names_;
  std::vector<Column> all_;
  std::int64_t rows_ = 0;
};

}  // namespace ebb::io
