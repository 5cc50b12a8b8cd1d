#include "ebb/io/text/csv_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ebb/base/error.hpp"
#include "ebb/io/bytes/refuse.hpp"

namespace ebb::io {
namespace {

constexpr std::size_t kMostColumns = 100'000, kLongestName = 1000;
constexpr std::string_view kMark = "\xef\xbb\xbf";  // of UTF-8, which some programs put in front

void check(const CsvOptions& o) {
  const auto bad = [](char c) { return c == '\n' || c == '\r'; };
  if (o.separator == 0 || bad(o.separator) || bad(o.quote) || o.separator == o.quote)
    throw Error("csv: separator and quote must be two characters other than those that end a line");
  if (static_cast<unsigned char>(o.separator) >= 0x80 ||
      static_cast<unsigned char>(o.quote) >= 0x80)
    throw Error("csv: separator and quote must be plain (ASCII) characters");
  if (o.longest_line.bytes < 16)
    throw Error(fmt::format("csv: lines of at most {}; expected 16 bytes or more",
                            to_string(o.longest_line)));
}

// Enough of the front for its first record.
std::string first_record(const std::string& path, const TextBlocksOptions& options) {
  std::string found;
  TextBlocks blocks(path, {options.quote, options.longest, 4_KiB});
  struct Enough {};
  try {
    blocks.each(
        [&](std::size_t slot, const TextBlock& b) {
          if (slot == 0) check_text(path, b), found = b.text;
        },
        [](std::size_t) { throw Enough(); });
  } catch (const Enough&) {
  }
  return found;
}

}  // namespace

CsvTable::CsvTable(const std::string& p, const CsvOptions& o) : path(p), options(o) {
  check(o);
  const std::string front = first_record(p, blocks());
  TextBlock block{front, 0};
  if (block.text.starts_with(kMark)) block.text.remove_prefix(first = kMark.size());
  CsvCursor cursor(block.text, o.separator, o.quote);
  if (!cursor.next_record()) refuse(p, "it holds no record; expected a table");
  block.offset = first;
  std::set<std::string> seen;
  while (cursor.more()) {
    if (names.size() == kMostColumns)
      refuse(p, fmt::format("its first record has more than {} fields; is the separator '{}'?",
                            kMostColumns, o.separator));
    const char* wrong = nullptr;
    const std::string_view text = cursor.field(wrong);
    if (wrong)
      refuse_at(p, block.offset + cursor.offset(),
                fmt::format("{} in field {}", wrong, names.size() + 1));
    std::string name = o.header ? std::string(text) : fmt::format("column{}", names.size() + 1);
    if (name.size() > kLongestName)
      refuse_at(p, 0,
                fmt::format("the name of column {} is longer than {} bytes", names.size() + 1,
                            kLongestName));
    if (!seen.insert(name).second)
      refuse_at(p, 0,
                fmt::format("two columns are called \"{}\"; give each a name of its own, or set "
                            "data.header = false where the first line is a row",
                            shown(name)));
    names.push_back(std::move(name));
  }
  if (o.header) first += cursor.offset();
  for (const auto& [name, kind] : o.kinds)
    if (!seen.contains(name)) refuse_name(p, "column", name, names);
}

CsvCursor CsvTable::rows(TextBlock& block) const {
  if (block.offset < first) {  // the header lies in the first block
    block.text.remove_prefix(std::min<std::uint64_t>(first - block.offset, block.text.size()));
    block.offset = first;
  }
  return {block.text, options.separator, options.quote};
}

bool CsvTable::is_missing(std::string_view field) const {
  return std::find(options.missing.begin(), options.missing.end(), field) != options.missing.end();
}

void CsvTable::refuse_field(const TextBlock& block, std::size_t offset, std::size_t column,
                            std::string_view why) const {
  refuse_at(path, block.offset + offset,
            fmt::format("column \"{}\": {}", shown(names[column]), why));
}

std::string_view CsvTable::field(CsvCursor& cursor, const TextBlock& block,
                                 std::size_t column) const {
  const std::size_t at = cursor.offset();
  const char* wrong = nullptr;
  const std::string_view text = cursor.field(wrong);
  if (wrong) refuse_field(block, at, column, wrong);
  return text;
}

void CsvTable::check_more(const CsvCursor& cursor, const TextBlock& block,
                          std::size_t column) const {
  if (cursor.more()) return;
  refuse_at(path, block.offset + cursor.offset() - 1,
            fmt::format("it has {} field{}; expected {}, as in the first line", column,
                        column == 1 ? "" : "s", names.size()));
}

void CsvTable::check_ended(const CsvCursor& cursor, const TextBlock& block) const {
  if (!cursor.more()) return;
  refuse_at(path, block.offset + cursor.offset(),
            fmt::format("it has more than the {} fields of the first line", names.size()));
}

}  // namespace ebb::io
