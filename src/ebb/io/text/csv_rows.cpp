// The pass that makes rows of numbers of a csv file.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <unordered_map>

#include "ebb/base/error.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/csv_table.hpp"
#include "ebb/io/text/growing_bytes.hpp"

namespace ebb::io {
namespace {

class Conversion {
 public:
  Conversion(const std::string& path, const CsvOptions& options, const CsvSchema& schema,
             const CsvLayout& layout)
      : table_(path, options), schema_(schema), layout_(layout), ids_(schema.columns.size()) {
    check_columns();
    for (std::size_t i = 0; i < ids_.size(); ++i)
      for (const std::string& word : schema.columns[i].categories)
        ids_[i].emplace(word, static_cast<std::int32_t>(ids_[i].size()));
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
    if (columns.size() != layout_.columns.size())
      throw Error(fmt::format("csv: a layout of {} columns for a schema of {}",
                              layout_.columns.size(), columns.size()));
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
      std::uint32_t* const row = rows.add_words(layout_.words);
      for (std::size_t i = 0; i < layout_.columns.size(); ++i) {
        const CsvPlace& place = layout_.columns[i];
        table_.check_more(cursor, block, i);
        const std::size_t at = cursor.offset();
        float value = 0;
        if (place.as == CsvPlace::As::number && cursor.number(value) == NumberState::good)
          row[place.word] = word_of(place, value);
        else
          put(block, at, i, table_.field(cursor, block, i), row + place.word);
      }
      table_.check_ended(cursor, block);
    }
  }

  static std::uint32_t word_of(const CsvPlace& place, float value) {
    if (place.mean != 0 || place.scale != 1)
      value = static_cast<float>((static_cast<double>(value) - place.mean) * place.scale);
    return std::bit_cast<std::uint32_t>(value);
  }

  void put(const TextBlock& block, std::size_t at, std::size_t i, std::string_view field,
           std::uint32_t* words) const {
    const CsvPlace& place = layout_.columns[i];
    if (place.as == CsvPlace::As::nothing) return;
    const bool missing = table_.is_missing(field);
    if (missing && !place.may_miss)
      table_.refuse_field(
          block, at, i,
          "a value is missing; mend the file, or say what stands for it (missing: mean or zero)");
    if (place.as == CsvPlace::As::number) {
      const Number n = parse_number(field.data(), field.data() + field.size());
      const bool whole = n.end == field.data() + field.size();
      if (!missing && (n.state == NumberState::none || !whole))
        table_.refuse_field(block, at, i, fmt::format("\"{}\" is no number", shown(field)));
      if (!missing && n.state == NumberState::too_large)
        table_.refuse_field(block, at, i, "a number beyond what f32 holds, 3.4e38");
      *words = word_of(place, missing ? place.missing : n.value);
      return;
    }
    const std::size_t categories = ids_[i].size();
    const auto found = ids_[i].find(field);
    const bool known = !missing && found != ids_[i].end();
    if (!known && !missing)
      table_.refuse_field(block, at, i,
                          fmt::format("\"{}\" is none of the {} categories of its schema",
                                      shown(field), categories));
    if (place.as == CsvPlace::As::id) {  // a missing one has the number after the last
      *words =
          static_cast<std::uint32_t>(known ? found->second : static_cast<std::int32_t>(categories));
      return;
    }
    std::fill_n(words, categories, 0u);  // a missing one is none of them
    if (known) words[found->second] = std::bit_cast<std::uint32_t>(1.0f);
  }

  CsvTable table_;
  const CsvSchema& schema_;
  const CsvLayout& layout_;
  std::vector<std::unordered_map<std::string_view, std::int32_t>> ids_;
};

}  // namespace

void read_csv_rows(const std::string& path, const CsvOptions& options, const CsvSchema& schema,
                   const CsvLayout& layout, const CsvSink& sink) {
  Conversion(path, options, schema, layout).run(sink);
}

}  // namespace ebb::io
