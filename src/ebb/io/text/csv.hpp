// Tables as text: values apart by a separator, one record a line, RFC 4180 with any separator.
//
//   const CsvOptions options{.separator = ';'};
//   const CsvSchema schema = read_csv_schema("rows.csv", options);    // one pass: kinds, statistics
//   read_csv_rows("rows.csv", options, schema, layout, [&](auto rows) { … });   // another: numbers
//
// Both passes stream the file (also .gz) in bounded memory, on all threads, with the same result for
// any number of them. A file that is not such a table is refused with its line.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/bytes.hpp"

namespace ebb::io {

enum class ColumnKind { number, category, ignored };
const char* name(ColumnKind kind);

struct CsvOptions {
  bool header = true;  // the first record names the columns; else they are "column1", "column2", …
  char separator = ',';
  char quote = '"';  // 0: none
  std::vector<std::string> missing = {"",    "NA",   "N/A", "NaN",
                                      "nan", "null", "?"};  // what stands for nothing
  ByteSize longest_line = 1_MiB;
  std::int64_t most_categories = 10'000;         // different values of a column of text
  std::map<std::string, ColumnKind> kinds = {};  // of columns that are not to be looked at for it
};

// What a column held. Of numbers, as f32: their mean, deviation (of the population), least and largest.
struct CsvColumn {
  std::string name;
  ColumnKind kind = ColumnKind::number;
  std::int64_t count = 0, missing = 0;  // values there and not there
  double mean = 0, deviation = 0;
  float least = 0, largest = 0;
  std::vector<std::string> categories = {};  // in order: of numbers if all are, else of their bytes

  bool operator==(const CsvColumn&) const = default;
};

struct CsvSchema {
  std::vector<CsvColumn> columns;
  std::int64_t rows = 0;

  bool operator==(const CsvSchema&) const = default;
  std::size_t index_of(std::string_view column) const;  // an Error that names those there are
};

// A schema as text that a model is saved with, and back. What is no such text is an Error.
std::string to_string(const CsvSchema& schema);
CsvSchema parse_csv_schema(std::string_view text);

// A column of categories that would be one of numbers but for some values: a slip of the pen, most often.
struct CsvMixed {
  std::size_t column = 0;
  std::int64_t numbers = 0, texts = 0;
  std::string path, value;  // of the first text
  std::uint64_t line = 0;
};

CsvSchema read_csv_schema(const std::string& path, const CsvOptions& options = {});
// Of several files with the same columns, as of one. `mixed` are columns of which more than half are numbers.
CsvSchema read_csv_schema(std::span<const std::string> paths, const CsvOptions& options,
                          std::vector<CsvMixed>* mixed = nullptr);
// The names of the columns alone, from the first record.
std::vector<std::string> read_csv_names(const std::string& path, const CsvOptions& options = {});

// Where a column of the file goes in a row of 32-bit words.
struct CsvPlace {
  enum class As { nothing, number, id, one_hot };  // f32; i32, the category's; f32 for each of them
  As as = As::nothing;
  std::size_t word = 0;        // the first
  double mean = 0, scale = 1;  // of numbers: (value - mean) * scale, rounded once
  bool may_miss = false;
  float missing = 0;  // what a number that is missing becomes, as it is
};
struct CsvLayout {
  std::vector<CsvPlace> columns;  // as many as the schema has
  std::size_t words = 0;          // of a row
};

// Calls `sink` with whole rows, in the order of the file. Columns are found by their names, without a header by
// their places. A file that lacks one that has a place, or that has a category that is not in `schema`, is refused.
// Gives the names of those that `schema` does not know: they are not read.
using CsvSink = std::function<void(std::span<const std::uint32_t> rows)>;
std::vector<std::string> read_csv_rows(const std::string& path, const CsvOptions& options,
                                       const CsvSchema& schema, const CsvLayout& layout,
                                       const CsvSink& sink);

}  // namespace ebb::io
