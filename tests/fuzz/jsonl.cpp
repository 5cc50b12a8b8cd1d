#include "ebb/io/text/jsonl.hpp"

#include "tests/fuzz/fuzz.hpp"

void read_file_of(const std::string& path) {
  using namespace ebb::io;
  const JsonlOptions options{.longest_line = ebb::ByteSize{4096}};
  const JsonlSchema schema = read_jsonl_schema(path, options);
  if (!(parse_jsonl_schema(to_string(schema)) == schema)) std::abort();
  std::size_t words = 0;
  read_jsonl_rows(path, options, schema,
                  [&](const JsonlRows& rows) { words += rows.words.size(); });
  if (words != row_words(schema) * static_cast<std::size_t>(schema.rows)) std::abort();
}
