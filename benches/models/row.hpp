// What a row of benches/peers/rows.json says, or one that a user wrote: a flat object of JSON.
//
//   Row row = Row::named("gpt-mini");
//   Row other(R"({"kind": "mlp", "sizes": [100, 300, 7], "batch": 64,
//                 "optimizer": "adam"})");
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::zoo {

class Row {
 public:
  explicit Row(std::string_view text) : text_(text) {}
  static Row named(std::string_view name);  // of the table, or of the frontier
  const std::string& text() const { return text_; }

  std::string word(std::string_view key) const;
  std::int64_t number(std::string_view key) const;
  std::vector<std::int64_t> numbers(std::string_view key) const;
  bool yes(std::string_view key) const;

 private:
  std::string_view value(std::string_view key) const;  // from its first character on
  [[noreturn]] void refuse(std::string_view key, const char* expected) const;
  std::string text_;
};

struct NamedRow {
  std::string name;
  Row row;
};
std::vector<NamedRow> table_rows();                           // of rows.json
std::vector<NamedRow> rows_of_file(const std::string& path);  // of one like it

}  // namespace ebb::zoo
