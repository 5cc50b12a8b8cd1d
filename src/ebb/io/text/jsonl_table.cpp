#include "ebb/io/text/jsonl_table.hpp"

#include <fmt/format.h>

#include <bit>

#include "ebb/base/error.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/column_stats.hpp"
#include "ebb/io/text/jsonl_scan.hpp"
#include "ebb/io/text/row_places.hpp"

namespace ebb::io {
namespace {

using As = JsonLines::As;
using Type = JsonValue::Type;

[[noreturn]] void refuse_field(const std::string& path, std::uint64_t offset,
                               const std::string& name, std::string_view why) {
  refuse_at(path, offset, fmt::format("field \"{}\": {}", shown(name), why));
}

float number_of(const JsonValue& value, std::span<const std::uint32_t> words) {
  return std::bit_cast<float>(words[value.first]);
}

// A number as a category: without what follows it in the line.
std::string_view written(const JsonValue& value) {
  return value.text.substr(0, value.text.find_last_not_of(" \t\r\n") + 1);
}

// Both passes: the lines of a file with the values of these columns, which `line` puts into a slot, and `take` out of it.
template <class Slot, class Line, class Take>
void each_line(const std::string& path, const CsvOptions& options,
               const std::vector<std::string>& names, const std::vector<As>& as, const Line& line,
               const Take& take) {
  TextBlocks blocks(path, {0, options.longest_line, 256_KiB});
  std::vector<Slot> slots(blocks.slots());
  std::vector<JsonLines> lines(blocks.slots());
  for (JsonLines& l : lines) l.set_fields(names, as, true);
  blocks.each(
      [&](std::size_t i, const TextBlock& block) {
        if constexpr (std::is_same_v<Slot, BlockColumns>)
          slots[i].clear(names.size());
        else
          slots[i].clear();
        lines[i].parse(path, block, [&](const std::vector<JsonValue>& values, std::size_t at) {
          line(slots[i], values, lines[i].words(), block.offset + at);
        });
      },
      [&](std::size_t i) { take(slots[i]); });
}

class Inference {
 public:
  Inference(std::span<const std::string> paths, const CsvOptions& options)
      : paths_(paths), options_(options) {
    if (paths.empty()) throw Error("jsonl: there is no file to read");
    for (JsonlFirst& f : read_jsonl_first(paths[0], options.longest_line))
      names_.push_back(std::move(f.name));
    for (const auto& [name, kind] : options.kinds)
      if (std::find(names_.begin(), names_.end(), name) == names_.end())
        refuse_name(paths[0], "field", name, names_);
    for (const std::string& name : names_) {
      const auto said = options.kinds.find(name);
      said_.push_back(said == options.kinds.end() ? nullptr : &said->second);
      as_.push_back(is(said_.size() - 1, ColumnKind::ignored) ? As::skip : As::f32);
    }
  }

  CsvSchema run() {
    ColumnStats stats(names_);
    for (const std::string& path : paths_) {
      each_line<BlockColumns>(
          path, options_, names_, as_,
          [&](BlockColumns& slot, const std::vector<JsonValue>& values,
              std::span<const std::uint32_t> words, std::uint64_t offset) {
            ++slot.rows;
            for (std::size_t k = 0; k < values.size(); ++k)
              look(path, offset, k, values[k], words, slot.columns[k]);
          },
          [&](BlockColumns& slot) { stats.take(slot, path, options_.most_categories); });
    }
    std::vector<ColumnKind> kinds;
    for (std::size_t k = 0; k < names_.size(); ++k) {
      if (!said_[k] && stats.texts(k) > 0 && stats.numbers(k) > 0) refuse(paths_[0], mixed(k));
      kinds.push_back(said_[k]             ? *said_[k]
                      : stats.texts(k) > 0 ? ColumnKind::category
                                           : ColumnKind::number);
    }
    return stats.schema(kinds);
  }

 private:
  bool is(std::size_t k, ColumnKind kind) const { return said_[k] && *said_[k] == kind; }
  std::string mixed(std::size_t k) const {
    return fmt::format(
        "field \"{}\" is a number in some lines and a string in others; expected one of them, or "
        "say that it is a category (data.categorical)",
        shown(names_[k]));
  }

  void look(const std::string& path, std::uint64_t offset, std::size_t k, const JsonValue& value,
            std::span<const std::uint32_t> words, BlockColumn& column) const {
    if (as_[k] == As::skip) return;
    switch (value.type) {
      case Type::none:
        ++column.missing;
        return;
      case Type::list:
        refuse_field(path, offset, names_[k],
                     "a list, which is no column of a table; make it the input (data.input), or "
                     "leave it out (data.ignore)");
      case Type::number:
        if (is(k, ColumnKind::category))
          column.add_word(written(value), options_.most_categories);
        else
          column.numbers.add(number_of(value, words));
        break;
      case Type::string:
        if (is(k, ColumnKind::number)) refuse_field(path, offset, names_[k], "it is no number");
        if (value.text.size() > kLongestCategory)
          refuse_field(path, offset, names_[k],
                       fmt::format("a text of {} bytes, which is no category; leave it out "
                                   "(data.ignore)",
                                   value.text.size()));
        column.add_word(value.text, options_.most_categories);
        break;
    }
    if (!said_[k] && column.texts > 0 && column.numbers.count > 0)
      refuse_at(path, offset, mixed(k));
  }

  std::span<const std::string> paths_;
  const CsvOptions& options_;
  std::vector<std::string> names_;
  std::vector<const ColumnKind*> said_;  // null: not said
  std::vector<As> as_;
};

// One line into its row.
class Line {
 public:
  Line(const std::string& path, const CsvSchema& schema, const RowPlaces& places)
      : path_(path), schema_(schema), places_(places) {}

  void put(std::size_t k, const JsonValue& value, std::span<const std::uint32_t> words,
           std::uint64_t offset, std::uint32_t* row) const {
    const CsvPlace& place = places_[k];
    const std::string& name = schema_.columns[k].name;
    if (place.as == CsvPlace::As::nothing) return;
    if (value.type == Type::none) {
      if (!place.may_miss) refuse_field(path_, offset, name, kMissingValue);
      return places_.put_missing(k, row);
    }
    if (place.as == CsvPlace::As::number) {
      if (value.type != Type::number) refuse_field(path_, offset, name, "it is no number");
      return places_.put_number(k, number_of(value, words), row);
    }
    if (value.type == Type::list)
      refuse_field(path_, offset, name, "a list; expected one of the categories of its schema");
    const std::string_view text = value.type == Type::string ? value.text : written(value);
    if (!places_.put_category(k, text, row))
      refuse_field(path_, offset, name,
                   fmt::format("\"{}\" is none of the {} categories of its schema", shown(text),
                               places_.categories(k)));
  }

 private:
  const std::string& path_;
  const CsvSchema& schema_;
  const RowPlaces& places_;
};

}  // namespace

CsvSchema read_jsonl_columns(std::span<const std::string> paths, const CsvOptions& options) {
  return Inference(paths, options).run();
}

void read_jsonl_table(const std::string& path, const CsvOptions& options, const CsvSchema& schema,
                      const CsvLayout& layout, const CsvSink& sink) {
  const RowPlaces places(schema, layout);
  const Line to(path, schema, places);
  std::vector<std::string> names;
  std::vector<As> as;
  for (std::size_t k = 0; k < places.columns(); ++k) {
    names.push_back(schema.columns[k].name);
    as.push_back(places[k].as == CsvPlace::As::nothing ? As::skip : As::f32);
  }
  each_line<GrowingBytes>(
      path, options, names, as,
      [&](GrowingBytes& rows, const std::vector<JsonValue>& values,
          std::span<const std::uint32_t> words, std::uint64_t offset) {
        std::uint32_t* const row = rows.add_words(places.words());
        for (std::size_t k = 0; k < values.size(); ++k) to.put(k, values[k], words, offset, row);
      },
      [&](const GrowingBytes& rows) { sink(rows.words()); });
}

}  // namespace ebb::io
