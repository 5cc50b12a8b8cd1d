// The pass that finds out what the columns of csv files are.
#include <fmt/format.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/column_stats.hpp"
#include "ebb/io/text/csv_table.hpp"

namespace ebb::io {
namespace {

class Inference {
 public:
  Inference(std::span<const std::string> paths, const CsvOptions& options) : options_(options) {
    if (paths.empty()) throw Error("csv: there is no file to read");
    for (const std::string& path : paths) tables_.emplace_back(path, options);
    for (const CsvTable& t : tables_) check_names(t);
    const std::size_t columns = names().size();
    kinds_.resize(columns);
    known_.resize(columns);
    for (std::size_t i = 0; i < columns; ++i) {
      const auto said = options.kinds.find(names()[i]);
      known_[i] = said != options.kinds.end();
      kinds_[i] = known_[i] ? said->second : ColumnKind::number;
    }
  }

  CsvSchema run() {
    // A column in which text follows numbers is one of categories, the numbers among them: they are
    // gathered by another pass.
    for (;;) {
      ColumnStats stats(names());
      for (const CsvMixed& m : mixed_)
        stats.hint(m.column, fmt::format(", of which all would be numbers but for {} such as "
                                         "\"{}\" in line {}",
                                         m.texts, shown(m.value), m.line));
      for (const CsvTable& table : tables_) look_at(table, stats);
      if (settled(stats)) return stats.schema(kinds_);
    }
  }
  const std::vector<CsvMixed>& mixed() const { return mixed_; }

 private:
  const std::vector<std::string>& names() const { return tables_[0].names; }

  void check_names(const CsvTable& table) const {
    if (table.names.size() != names().size())
      refuse(table.path, fmt::format("it has {} columns, and \"{}\" has {}; files of one data set "
                                     "have the same",
                                     table.names.size(), tables_[0].path, names().size()));
    for (std::size_t i = 0; i < names().size(); ++i)
      if (table.names[i] != names()[i])
        refuse(table.path,
               fmt::format("its column {} is \"{}\", and that of \"{}\" is \"{}\"; files "
                           "of one data set have the same",
                           i + 1, shown(table.names[i]), tables_[0].path, shown(names()[i])));
  }

  void look_at(const CsvTable& table, ColumnStats& stats) const {
    TextBlocks blocks(table.path, table.blocks());
    std::vector<BlockColumns> slots(blocks.slots());
    blocks.each([&](std::size_t i, const TextBlock& b) { parse(table, b, slots[i]); },
                [&](std::size_t i) { stats.take(slots[i], table.path, options_.most_categories); });
  }

  // False: it has to be done again, with some kinds known that were not.
  bool settled(const ColumnStats& stats) {
    bool all = true;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (known_[i] || stats.texts(i) == 0) continue;
      known_[i] = true;
      kinds_[i] = ColumnKind::category;
      all = all && stats.numbers(i) == 0;
      if (stats.numbers(i) > stats.texts(i)) mixed_.push_back(stats.mixed(i));
    }
    return all;
  }

  void parse(const CsvTable& table, TextBlock block, BlockColumns& slot) const {
    check_text(table.path, block);
    slot.clear(kinds_.size());
    for (CsvCursor cursor = table.rows(block); cursor.next_record(); ++slot.rows) {
      for (std::size_t i = 0; i < kinds_.size(); ++i) {
        table.check_more(cursor, block, i);
        const std::size_t at = cursor.offset();
        float value = 0;
        if (kinds_[i] == ColumnKind::number) {
          const NumberState state = cursor.number(value);
          if (state == NumberState::good) {
            slot.columns[i].numbers.add(value);
            continue;
          }
          if (state == NumberState::too_large) refuse_large(table, block, at, i);
        }
        text(table, block, at, i, table.field(cursor, block, i), slot.columns[i]);
      }
      table.check_ended(cursor, block);
    }
  }

  [[noreturn]] static void refuse_large(const CsvTable& table, const TextBlock& block,
                                        std::size_t at, std::size_t i) {
    table.refuse_field(block, at, i, "a number beyond what f32 holds, 3.4e38");
  }

  void text(const CsvTable& table, const TextBlock& block, std::size_t at, std::size_t i,
            std::string_view field, BlockColumn& column) const {
    if (kinds_[i] == ColumnKind::ignored) return;
    if (table.is_missing(field)) {
      ++column.missing;
      return;
    }
    if (kinds_[i] == ColumnKind::number) {  // it may be a number in quotes
      const Number n = parse_number(field.data(), field.data() + field.size());
      if (n.state != NumberState::none && n.end == field.data() + field.size()) {
        if (n.state == NumberState::too_large) refuse_large(table, block, at, i);
        return column.numbers.add(n.value);
      }
      if (known_[i])
        table.refuse_field(
            block, at, i,
            fmt::format("\"{}\" is no number; expected one, or nothing where it is missing",
                        shown(field)));
    }
    if (field.size() > kLongestCategory)
      table.refuse_field(
          block, at, i,
          fmt::format("a text of {} bytes, which is no category; leave the column out "
                      "(data.ignore)",
                      field.size()));
    if (column.texts == 0 && !known_[i]) {
      column.first_text = field;
      column.first_at = block.offset + at;
    }
    column.add_word(field, options_.most_categories);
  }

  const CsvOptions& options_;
  std::vector<CsvTable> tables_;
  std::vector<ColumnKind> kinds_;
  std::vector<bool> known_;  // the kind: said, or found
  std::vector<CsvMixed> mixed_;
};

}  // namespace

CsvSchema read_csv_schema(std::span<const std::string> paths, const CsvOptions& options,
                          std::vector<CsvMixed>* mixed) {
  Inference inference(paths, options);
  CsvSchema schema = inference.run();
  if (mixed) *mixed = inference.mixed();
  return schema;
}

CsvSchema read_csv_schema(const std::string& path, const CsvOptions& options) {
  return read_csv_schema(std::span(&path, 1), options, nullptr);
}

std::vector<std::string> read_csv_names(const std::string& path, const CsvOptions& options) {
  return CsvTable(path, options).names;
}

}  // namespace ebb::io
