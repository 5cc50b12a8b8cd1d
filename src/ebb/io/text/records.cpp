#include "ebb/io/text/records.hpp"

#include <fmt/format.h>

#include "ebb/base/error.hpp"

namespace ebb::io {

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

void Records::wrong(std::string_view what) const {
  throw Error(fmt::format("{}: {}; the text is not what to_string gave", what_, what));
}

bool Records::next() {
  if (cursor_.more()) wrong("a record is too long");
  return cursor_.next_record();
}

std::string Records::field() {
  const char* bad = nullptr;
  if (!cursor_.more()) wrong("a record is too short");
  const std::string_view got = cursor_.field(bad);
  if (bad) wrong(bad);
  return std::string(got);
}

std::int64_t Records::rows() {
  if (!next() || field() != "rows") wrong("it does not begin with the number of rows");
  const auto rows = number<std::int64_t>();
  if (rows < 0) wrong("a negative number of rows");
  return rows;
}

std::vector<std::string> Records::list() {
  const auto count = number<std::uint64_t>();
  std::vector<std::string> all;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!next()) wrong("a list is cut short");
    all.push_back(field());
  }
  return all;
}

}  // namespace ebb::io
