// Rows of a table as tests look at them.
#pragma once

#include "ebb/io/text/csv.hpp"

namespace ebb::test {

// Numbers as such, categories as said, one after the other; nothing of other columns. A number that is missing is -1.
inline io::CsvLayout layout_of(const io::CsvSchema& schema, io::CsvPlace::As categories,
                               bool may_miss = true) {
  using As = io::CsvPlace::As;
  io::CsvLayout layout;
  for (const io::CsvColumn& c : schema.columns) {
    const As as = c.kind == io::ColumnKind::number     ? As::number
                  : c.kind == io::ColumnKind::category ? categories
                                                       : As::nothing;
    layout.columns.push_back({as, layout.words, 0, 1, may_miss, -1});
    layout.words += as == As::one_hot ? c.categories.size() : as != As::nothing;
  }
  return layout;
}

}  // namespace ebb::test
