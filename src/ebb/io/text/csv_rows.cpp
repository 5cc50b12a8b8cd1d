// The pass that makes rows of numbers of a csv file.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/csv_table.hpp"
#include "ebb/io/text/growing_bytes.hpp"
#include "ebb/io/text/row_places.hpp"

namespace ebb::io {
namespace {

class Conversion {
 public:
  Conversion(const std::string& path, const CsvOptions& options, const CsvSchema& schema,
             const CsvLayout& layout)
      : table_(path, options), schema_(schema), places_(schema, layout) {
    options.header ? find_columns() : take_in_order();
  }
  const std::vector<std::string>& unknown() const { return unknown_; }

  void run(const CsvSink& sink) {
    TextBlocks blocks(table_.path, table_.blocks());
    std::vector<GrowingBytes> slots(blocks.slots());
    blocks.each([&](std::size_t i, const TextBlock& b) { parse(b, slots[i]); },
                [&](std::size_t i) { sink(slots[i].words()); });
  }

 private:
  static constexpr auto kUnknown = static_cast<std::size_t>(-1);

  void find_columns() {
    std::map<std::string_view, std::size_t> by_name;
    for (std::size_t i = 0; i < schema_.columns.size(); ++i)
      by_name.emplace(schema_.columns[i].name, i);
    for (const std::string& name : table_.names) {
      const auto found = by_name.find(name);
      column_.push_back(found == by_name.end() ? kUnknown : found->second);
      if (column_.back() == kUnknown) unknown_.push_back(name);
    }
    for (std::size_t i = 0; i < schema_.columns.size(); ++i)
      if (places_[i].as != CsvPlace::As::nothing &&
          std::find(column_.begin(), column_.end(), i) == column_.end())
        refuse_name(table_.path, "column", schema_.columns[i].name, table_.names);
  }

  void take_in_order() {
    if (schema_.columns.size() != table_.names.size())
      refuse(table_.path, fmt::format("it has {} columns; expected {}, since without a header they "
                                      "are known by their places",
                                      table_.names.size(), schema_.columns.size()));
    for (std::size_t i = 0; i < schema_.columns.size(); ++i) column_.push_back(i);
  }

  void parse(TextBlock block, GrowingBytes& rows) const {
    check_text(table_.path, block);
    rows.clear();
    for (CsvCursor cursor = table_.rows(block); cursor.next_record();) {
      std::uint32_t* const row = rows.add_words(places_.words());
      for (std::size_t i = 0; i < column_.size(); ++i) {
        table_.check_more(cursor, block, i);
        const std::size_t at = cursor.offset(), k = column_[i];
        float value = 0;
        const bool number = k != kUnknown && places_[k].as == CsvPlace::As::number;
        const NumberState state = number ? cursor.number(value) : NumberState::none;
        if (state == NumberState::good) {
          places_.put_number(k, value, row);
          continue;
        }
        if (state == NumberState::too_large) refuse_large(block, at, i);
        const std::string_view field = table_.field(cursor, block, i);
        if (k != kUnknown) put(block, at, i, field, row);
      }
      table_.check_ended(cursor, block);
    }
  }

  [[noreturn]] void refuse_large(const TextBlock& block, std::size_t at, std::size_t i) const {
    table_.refuse_field(block, at, i, "a number beyond what f32 holds, 3.4e38");
  }

  void put(const TextBlock& block, std::size_t at, std::size_t i, std::string_view field,
           std::uint32_t* row) const {
    const std::size_t k = column_[i];
    const CsvPlace& place = places_[k];
    if (place.as == CsvPlace::As::nothing) return;
    if (table_.is_missing(field)) {
      if (!place.may_miss) table_.refuse_field(block, at, i, kMissingValue);
      return places_.put_missing(k, row);
    }
    if (place.as == CsvPlace::As::number) {
      const Number n = parse_number(field.data(), field.data() + field.size());
      if (n.state == NumberState::none || n.end != field.data() + field.size())
        table_.refuse_field(block, at, i, fmt::format("\"{}\" is no number", shown(field)));
      if (n.state == NumberState::too_large) refuse_large(block, at, i);
      return places_.put_number(k, n.value, row);
    }
    if (!places_.put_category(k, field, row))
      table_.refuse_field(block, at, i,
                          fmt::format("\"{}\" is none of the {} categories of its schema",
                                      shown(field), places_.categories(k)));
  }

  CsvTable table_;
  const CsvSchema& schema_;
  RowPlaces places_;
  std::vector<std::size_t> column_;  // of the schema, for each of the file
  std::vector<std::string> unknown_;
};

}  // namespace

std::vector<std::string> read_csv_rows(const std::string& path, const CsvOptions& options,
                                       const CsvSchema& schema, const CsvLayout& layout,
                                       const CsvSink& sink) {
  Conversion conversion(path, options, schema, layout);
  conversion.run(sink);
  return conversion.unknown();
}

}  // namespace ebb::io
