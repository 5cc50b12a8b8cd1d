#include "ebb/io/text/row_places.hpp"

#include <fmt/format.h>

#include "ebb/base/error.hpp"

namespace ebb::io {

RowPlaces::RowPlaces(const CsvSchema& schema, const CsvLayout& layout)
    : layout_(layout), ids_(schema.columns.size()) {
  if (schema.columns.size() != layout.columns.size())
    throw Error(fmt::format("csv: a layout of {} columns for a schema of {}", layout.columns.size(),
                            schema.columns.size()));
  for (std::size_t i = 0; i < ids_.size(); ++i)
    for (const std::string& word : schema.columns[i].categories)
      ids_[i].emplace(word, static_cast<std::uint32_t>(ids_[i].size()));
}

}  // namespace ebb::io
