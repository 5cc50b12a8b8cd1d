// Small values kept as text of csv records, such as schemas: written with quotes, read strictly.
#pragma once

#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/io/text/csv_cursor.hpp"

namespace ebb::io {

std::string in_quotes(std::string_view text);

class Records {
 public:
  Records(const char* what, std::string_view text) : what_(what), cursor_(text, ',', '"') {}

  bool next();          // to the next record; the one before is at its end
  std::string field();  // of this record
  template <class T>
  T number() {
    const std::string text = field();
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      wrong("a field that is no number");
    return value;
  }
  template <class Kind>
  Kind one_of(std::span<const Kind> kinds) {
    const std::string text = field();
    for (const Kind k : kinds)
      if (text == name(k)) return k;
    wrong("an unknown kind");
  }
  std::int64_t rows();              // the first of the first record: rows,N
  std::vector<std::string> list();  // how many, the last of this record; then one a record
  [[noreturn]] void wrong(std::string_view what) const;

 private:
  const char* what_;
  CsvCursor cursor_;
};

}  // namespace ebb::io
