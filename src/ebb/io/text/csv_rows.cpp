// The pass that makes rows of numbers of a csv file.
#include <fmt/format.h>

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
    check_columns();
  }

  void run(const CsvSink& sink) {
    TextBlocks blocks(table_.path, table_.blocks());
    std::vector<GrowingBytes> slots(blocks.slots());
    blocks.each([&](std::size_t i, const TextBlock& b) { parse(b, slots[i]); },
                [&](std::size_t i) { sink(slots[i].words()); });
  }

 private:
  void check_columns() const {
    const auto& columns = schema_.columns;
    if (columns.size() != table_.names.size())
      refuse(table_.path, fmt::format("it has {} columns; expected the {} of its schema",
                                      table_.names.size(), columns.size()));
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i].name != table_.names[i])
        refuse(table_.path, fmt::format("its column {} is \"{}\"; expected \"{}\", by its schema",
                                        i + 1, shown(table_.names[i]), shown(columns[i].name)));
  }

  void parse(TextBlock block, GrowingBytes& rows) const {
    check_text(table_.path, block);
    rows.clear();
    for (CsvCursor cursor = table_.rows(block); cursor.next_record();) {
      std::uint32_t* const row = rows.add_words(places_.words());
      for (std::size_t i = 0; i < places_.columns(); ++i) {
        table_.check_more(cursor, block, i);
        const std::size_t at = cursor.offset();
        float value = 0;
        if (places_[i].as == CsvPlace::As::number && cursor.number(value) == NumberState::good)
          places_.put_number(i, value, row);
        else
          put(block, at, i, table_.field(cursor, block, i), row);
      }
      table_.check_ended(cursor, block);
    }
  }

  void put(const TextBlock& block, std::size_t at, std::size_t i, std::string_view field,
           std::uint32_t* row) const {
    const CsvPlace& place = places_[i];
    if (place.as == CsvPlace::As::nothing) return;
    if (table_.is_missing(field)) {
      if (!place.may_miss) table_.refuse_field(block, at, i, kMissingValue);
      return places_.put_missing(i, row);
    }
    if (place.as == CsvPlace::As::number) {
      const Number n = parse_number(field.data(), field.data() + field.size());
      if (n.state == NumberState::none || n.end != field.data() + field.size())
        table_.refuse_field(block, at, i, fmt::format("\"{}\" is no number", shown(field)));
      if (n.state == NumberState::too_large)
        table_.refuse_field(block, at, i, "a number beyond what f32 holds, 3.4e38");
      return places_.put_number(i, n.value, row);
    }
    if (!places_.put_category(i, field, row))
      table_.refuse_field(block, at, i,
                          fmt::format("\"{}\" is none of the {} categories of its schema",
                                      shown(field), places_.categories(i)));
  }

  CsvTable table_;
  const CsvSchema& schema_;
  RowPlaces places_;
};

}  // namespace

void read_csv_rows(const std::string& path, const CsvOptions& options, const CsvSchema& schema,
                   const CsvLayout& layout, const CsvSink& sink) {
  Conversion(path, options, schema, layout).run(sink);
}

}  // namespace ebb::io
