// Values of a table's columns → the words of a row, as a layout says: what both kinds of table share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ebb/io/text/csv.hpp"

namespace ebb::io {

inline constexpr char kMissingValue[] =
    "a value is missing; say what to do about it (data.missing), or mend the file";

class RowPlaces {
 public:
  // An Error where the layout is of another table.
  RowPlaces(const CsvSchema& schema, const CsvLayout& layout);

  const CsvPlace& operator[](std::size_t column) const { return layout_.columns[column]; }
  std::size_t columns() const { return layout_.columns.size(); }
  std::size_t words() const { return layout_.words; }
  std::size_t categories(std::size_t column) const { return ids_[column].size(); }

  void put_number(std::size_t column, float value, std::uint32_t* row) const {
    const CsvPlace& place = layout_.columns[column];
    if (place.mean != 0 || place.scale != 1)
      value = static_cast<float>((static_cast<double>(value) - place.mean) * place.scale);
    row[place.word] = std::bit_cast<std::uint32_t>(value);
  }
  // False: it is none of the column's categories.
  bool put_category(std::size_t column, std::string_view text, std::uint32_t* row) const {
    const auto found = ids_[column].find(text);
    if (found == ids_[column].end()) return false;
    put_id(column, found->second, row);
    return true;
  }
  // As the place says; a category that is missing is none of them, or has the number after the last.
  void put_missing(std::size_t column, std::uint32_t* row) const {
    const CsvPlace& place = layout_.columns[column];
    if (place.as == CsvPlace::As::number) return put_number(column, place.missing, row);
    put_id(column, static_cast<std::uint32_t>(ids_[column].size()), row);
  }

 private:
  void put_id(std::size_t column, std::uint32_t id, std::uint32_t* row) const {
    const CsvPlace& place = layout_.columns[column];
    if (place.as == CsvPlace::As::id) {
      row[place.word] = id;
      return;
    }
    std::fill_n(row + place.word, ids_[column].size(), 0u);
    if (id < ids_[column].size()) row[place.word + id] = std::bit_cast<std::uint32_t>(1.0f);
  }

  const CsvLayout& layout_;
  std::vector<std::unordered_map<std::string_view, std::uint32_t>> ids_;  // of the schema's texts
};

}  // namespace ebb::io
