#include "ebb/io/text/jsonl_table.hpp"

#include <fmt/format.h>

#include <algorithm>
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

std::string no_number(const JsonValue& value) {
  if (value.type == Type::list) return "a list, which is no number";
  return fmt::format("\"{}\" is text, and no number", shown(value.text));
}

// A number as a category: without what follows it in the line.
std::string_view written(const JsonValue& value) {
  return value.text.substr(0, value.text.find_last_not_of(" \t\r\n") + 1);
}

// Names behind those that are there already, each once.
void add_names(std::vector<std::string> names, std::vector<std::string>& to) {
  for (std::string& name : names)
    if (std::find(to.begin(), to.end(), name) == to.end()) to.push_back(std::move(name));
}

// Both passes: the lines of a file with the values of these columns, which `line` puts into a slot, and `take` out of it.
// Gives the names of other fields, in the order of the file.
template <class Slot, class Line, class Take>
std::vector<std::string> each_line(const std::string& path, const CsvOptions& options,
                                   const std::vector<std::string>& names, const std::vector<As>& as,
                                   const Line& line, const Take& take) {
  TextBlocks blocks(path, {0, options.longest_line, 256_KiB});
  std::vector<Slot> slots(blocks.slots());
  std::vector<JsonLines> lines(blocks.slots());
  std::vector<std::string> unknown;
  for (JsonLines& l : lines) l.set_fields(names, as, true);
  blocks.each(
      [&](std::size_t i, const TextBlock& block) {
        if constexpr (std::is_same_v<Slot, BlockColumns>)
          slots[i].clear(names.size());
        else
          slots[i].clear();
        lines[i].parse(path, block, [&](const std::vector<JsonValue>& values, std::size_t at) {
          line(slots[i], values, lines[i], block.offset + at);
        });
      },
      [&](std::size_t i) {
        take(slots[i]);
        add_names(lines[i].take_unknown(), unknown);
        if (unknown.size() > kMostFields)
          refuse(path, fmt::format("its lines have more than {} different fields", kMostFields));
      });
  return unknown;
}

class Inference {
 public:
  Inference(std::span<const std::string> paths, const CsvOptions& options)
      : paths_(paths), options_(options) {
    if (paths.empty()) throw Error("jsonl: there is no file to read");
    std::vector<std::string> names;
    for (JsonlFirst& f : read_jsonl_first(paths[0], options.longest_line))
      names.push_back(std::move(f.name));
    know(std::move(names));
  }

  CsvSchema run() {
    for (
        ;
        ;) {  // fields that the first line lacks are gathered by another pass, from the first line on
      ColumnStats stats(names_);
      std::vector<std::string> more;
      for (const std::string& path : paths_) add_names(look_at(path, stats), more);
      if (more.empty()) return schema(stats);
      know(std::move(more));
    }
  }

 private:
  void know(std::vector<std::string> names) {
    for (std::string& name : names) {
      const auto said = options_.kinds.find(name);
      said_.push_back(said == options_.kinds.end() ? nullptr : &said->second);
      as_.push_back(is(said_.size() - 1, ColumnKind::ignored) ? As::skip : As::f32);
      names_.push_back(std::move(name));
    }
    if (names_.size() > kMostFields)
      refuse(paths_[0], fmt::format("its lines have more than {} different fields", kMostFields));
  }

  std::vector<std::string> look_at(const std::string& path, ColumnStats& stats) const {
    return each_line<BlockColumns>(
        path, options_, names_, as_,
        [&](BlockColumns& slot, const std::vector<JsonValue>& values, const JsonLines& lines,
            std::uint64_t offset) {
          ++slot.rows;
          for (std::size_t k = 0; k < values.size(); ++k)
            look(path, offset, k, values[k], lines.words(), slot.columns[k]);
        },
        [&](BlockColumns& slot) { stats.take(slot, path, options_.most_categories); });
  }

  CsvSchema schema(const ColumnStats& stats) const {
    for (const auto& [name, kind] : options_.kinds)
      if (std::find(names_.begin(), names_.end(), name) == names_.end())
        refuse_name(paths_[0], "field", name, names_);
    std::vector<ColumnKind> kinds;
    for (std::size_t k = 0; k < names_.size(); ++k) {
      if (!said_[k] && stats.texts(k) > 0 && stats.numbers(k) > 0) refuse(paths_[0], mixed(k));
      kinds.push_back(said_[k]             ? *said_[k]
                      : stats.texts(k) > 0 ? ColumnKind::category
                                           : ColumnKind::number);
    }
    return stats.schema(kinds);
  }

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
        if (is(k, ColumnKind::number)) refuse_field(path, offset, names_[k], no_number(value));
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

  std::string first_read() const {
    for (std::size_t k = 0; k < places_.columns(); ++k)
      if (places_[k].as != CsvPlace::As::nothing) return shown(schema_.columns[k].name);
    return "";
  }

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
      if (value.type != Type::number) refuse_field(path_, offset, name, no_number(value));
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

std::vector<std::string> other_jsonl_fields(const std::string& path,
                                            const std::vector<std::string>& names) {
  return each_line<BlockColumns>(
      path, {}, names, std::vector<As>(names.size(), As::skip), [](const auto&...) {},
      [](const auto&) {});
}

CsvSchema read_jsonl_columns(std::span<const std::string> paths, const CsvOptions& options) {
  return Inference(paths, options).run();
}

std::vector<std::string> read_jsonl_table(const std::string& path, const CsvOptions& options,
                                          const CsvSchema& schema, const CsvLayout& layout,
                                          const CsvSink& sink) {
  const RowPlaces places(schema, layout);
  const Line to(path, schema, places);
  std::vector<std::string> names;
  std::vector<As> as;
  for (std::size_t k = 0; k < places.columns(); ++k) {
    names.push_back(schema.columns[k].name);
    as.push_back(places[k].as == CsvPlace::As::nothing ? As::skip : As::f32);
  }
  return each_line<GrowingBytes>(
      path, options, names, as,
      [&](GrowingBytes& rows, const std::vector<JsonValue>& values, const JsonLines& lines,
          std::uint64_t offset) {
        if (lines.found() == 0)
          refuse_at(path, offset,
                    fmt::format("it has none of the fields that are read, such as \"{}\"",
                                to.first_read()));
        std::uint32_t* const row = rows.add_words(places.words());
        for (std::size_t k = 0; k < values.size(); ++k)
          to.put(k, values[k], lines.words(), offset, row);
      },
      [&](const GrowingBytes& rows) { sink(rows.words()); });
}

}  // namespace ebb::io
