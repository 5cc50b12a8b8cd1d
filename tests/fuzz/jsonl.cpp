#include "ebb/io/text/jsonl.hpp"

#include "ebb/base/error.hpp"
#include "ebb/io/text/jsonl_table.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace ebb::io;

namespace {

constexpr ebb::ByteSize kLongest{4096};

void read_lists(const std::string& path) {
  const JsonlOptions options{.longest_line = kLongest};
  const JsonlSchema schema = read_jsonl_schema(path, options);
  if (!(parse_jsonl_schema(to_string(schema)) == schema)) std::abort();
  std::size_t words = 0;
  read_jsonl_rows(path, options, schema,
                  [&](const JsonlRows& rows) { words += rows.words.size(); });
  if (words != row_words(schema) * static_cast<std::size_t>(schema.rows)) std::abort();
}

void read_table(const std::string& path) {
  const CsvOptions options{.longest_line = kLongest};
  const CsvSchema schema = read_jsonl_columns(std::span(&path, 1), options);
  if (!(parse_csv_schema(to_string(schema)) == schema)) std::abort();
  CsvLayout layout;
  for (const CsvColumn& c : schema.columns) {
    const auto as = c.kind == ColumnKind::number ? CsvPlace::As::number : CsvPlace::As::one_hot;
    layout.columns.push_back({as, layout.words, 0, 1, true});
    layout.words += as == CsvPlace::As::number ? 1 : c.categories.size();
  }
  std::size_t words = 0;
  read_jsonl_table(path, options, schema, layout, [&](auto rows) { words += rows.size(); });
  if (words != layout.words * static_cast<std::size_t>(schema.rows)) std::abort();
}

}  // namespace

void read_file_of(const std::string& path) {
  try {
    read_lists(path);
  } catch (const ebb::Error&) {  // what is no list may be a table
  }
  read_table(path);
}
