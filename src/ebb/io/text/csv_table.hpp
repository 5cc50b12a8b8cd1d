// What both passes over a csv file share: its first record, its blocks, how a wrong one is refused.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "ebb/io/text/csv.hpp"
#include "ebb/io/text/csv_cursor.hpp"
#include "ebb/io/text/text_blocks.hpp"

namespace ebb::io {

struct CsvTable {
  std::string path;
  const CsvOptions& options;
  std::vector<std::string> names;
  std::uint64_t first = 0;  // byte from which rows begin: behind the header, if there is one

  CsvTable(const std::string& path, const CsvOptions& options);

  // The part of a block that is rows: for the first, without the header.
  CsvCursor rows(TextBlock& block) const;
  bool is_missing(std::string_view field) const;
  // Field `column` of the record at the cursor; a wrong one is refused.
  std::string_view field(CsvCursor& cursor, const TextBlock& block, std::size_t column) const;
  // That the record ended with the last column.
  void check_ended(const CsvCursor& cursor, const TextBlock& block) const;
  void check_more(const CsvCursor& cursor, const TextBlock& block, std::size_t column) const;
  [[noreturn]] void refuse_field(const TextBlock& block, std::size_t offset, std::size_t column,
                                 std::string_view why) const;
  TextBlocksOptions blocks() const { return {options.quote, options.longest_line, 256_KiB}; }
};

}  // namespace ebb::io
