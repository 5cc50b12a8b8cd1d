#include "ebb/io/text/csv.hpp"

#include "tests/fuzz/fuzz.hpp"

void read_file_of(const std::string& path) {
  using namespace ebb::io;
  const CsvOptions options{.longest_line = ebb::ByteSize{4096}};
  const CsvSchema schema = read_csv_schema(path, options);
  if (!(parse_csv_schema(to_string(schema)) == schema)) std::abort();
  CsvLayout layout;
  for (const CsvColumn& c : schema.columns) {
    const auto as = c.kind == ColumnKind::number ? CsvPlace::As::number : CsvPlace::As::one_hot;
    layout.columns.push_back({as, layout.words, c.mean, 1, true, 0});
    layout.words += c.kind == ColumnKind::number ? 1 : c.categories.size();
  }
  std::size_t words = 0;
  read_csv_rows(path, options, schema, layout, [&](auto rows) { words += rows.size(); });
  if (words != layout.words * static_cast<std::size_t>(schema.rows)) std::abort();
}
