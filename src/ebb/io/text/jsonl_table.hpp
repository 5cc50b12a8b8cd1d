// Objects a line as a table: each field is a column of numbers or of categories, as those of a csv file are.
//
//   {"rooms": 3, "city": "Oslo", "new": true, "price": 271}
//   {"rooms": 4, "city": null, "price": 310}
//
// Columns are the fields of all lines, in the order in which they come. null, or a field that is not there, is a missing
// value; true and false are 1 and 0; strings are categories. Of the options `kinds`, `most_categories` and `longest_line` count.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ebb/io/text/csv.hpp"

namespace ebb::io {

// Fields of any line beside these.
std::vector<std::string> other_jsonl_fields(const std::string& path,
                                            const std::vector<std::string>& names);

CsvSchema read_jsonl_columns(std::span<const std::string> paths, const CsvOptions& options);

// Calls `sink` with whole rows, in the order of the file. A line that has none of the fields of `schema` is refused.
// Gives the names of those that `schema` does not know: they are not read.
std::vector<std::string> read_jsonl_table(const std::string& path, const CsvOptions& options,
                                          const CsvSchema& schema, const CsvLayout& layout,
                                          const CsvSink& sink);

}  // namespace ebb::io
