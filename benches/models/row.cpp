#include "models/row.hpp"

#include <charconv>
#include <fstream>
#include <iterator>
#include <utility>

#include "ebb/base/error.hpp"

namespace ebb::zoo {
namespace {

constexpr char kFile[] =
#include "rows.inc"
    ;
// Of the frontier: over time, and where rows cannot be split.
constexpr char kMore[] = R"({
  "lstm-1000":  {"kind": "lstm", "input": 64, "units": 256, "classes": 2, "batch": 64, "time": 1000,
                 "optimizer": "adam"},
  "lstm-10000": {"kind": "lstm", "input": 64, "units": 128, "classes": 2, "batch": 32, "time": 10000,
                 "optimizer": "adam"},
  "gpt12-long": {"kind": "gpt", "vocab": 256, "layers": 12, "width": 384, "heads": 6, "positions": 2048,
                 "tied": false, "batch": 1, "time": 2048, "optimizer": "adamw"}
})";

constexpr char kBlank[] = " \t\r\n";

// What stands after "key":, from its first character on; empty where there is no such key.
std::string_view after(std::string_view text, std::string_view key) {
  const std::string quoted = "\"" + std::string(key) + "\"";
  for (std::size_t at = 0; (at = text.find(quoted, at)) != text.npos;) {
    at = text.find_first_not_of(kBlank, at + quoted.size());
    if (at == text.npos || text[at] != ':') continue;  // a value
    at = text.find_first_not_of(kBlank, at + 1);
    return at == text.npos ? std::string_view() : text.substr(at);
  }
  return {};
}

// Numbers from 1 on, by comma; none where anything else is there.
std::vector<std::int64_t> whole_numbers(std::string_view text) {
  std::vector<std::int64_t> all;
  for (const char *at = text.data(), *const end = at + text.size();;) {
    const auto skip = [&] {
      while (at < end && std::string_view(kBlank).find(*at) != std::string_view::npos) ++at;
    };
    skip();
    std::int64_t n = 0;
    const auto read = std::from_chars(at, end, n);
    if (read.ec != std::errc() || n < 1) return {};
    all.push_back(n);
    at = read.ptr;
    skip();
    if (at == end) return all;
    if (*at++ != ',') return {};
  }
}

// The rows of a file, in its order.
std::vector<NamedRow> rows_in(std::string_view file) {
  std::vector<NamedRow> all;
  for (std::size_t at = 0; (at = file.find('"', at)) != file.npos;) {
    const std::size_t last = file.find('"', at + 1), begin = file.find('{', last),
                      end = file.find('}', begin);
    if (end == file.npos) return {};
    all.push_back({std::string(file.substr(at + 1, last - at - 1)),
                   Row(file.substr(begin, end + 1 - begin))});
    at = end;
  }
  return all;
}

}  // namespace

Row Row::named(std::string_view name) {
  for (const char* const file : {kFile, kMore})
    for (NamedRow& r : rows_in(file))
      if (r.name == name) return std::move(r.row);
  throw Error("no row '" + std::string(name) + "' in benches/peers");
}

std::vector<NamedRow> table_rows() { return rows_in(kFile); }

std::vector<NamedRow> rows_of_file(const std::string& path) {
  std::ifstream file(path);
  std::vector<NamedRow> all = rows_in(std::string(std::istreambuf_iterator<char>(file), {}));
  if (all.empty())
    throw Error("no rows in " + path + "; benches/peers/rows.json shows how they are written");
  return all;
}

std::string_view Row::value(std::string_view key) const {
  const std::string_view found = after(text_, key);
  if (found.empty()) throw Error("row without \"" + std::string(key) + "\": " + text_);
  return found;
}

void Row::refuse(std::string_view key, const char* expected) const {
  throw Error("row with \"" + std::string(key) + "\" that is no " + expected + ": " + text_);
}

std::string Row::word(std::string_view key) const {
  const std::string_view v = value(key);
  if (v[0] != '"') refuse(key, "word");
  return std::string(v.substr(1, v.find('"', 1) - 1));
}

std::int64_t Row::number(std::string_view key) const {
  const std::string_view v = value(key);
  const std::vector<std::int64_t> read = whole_numbers(v.substr(0, v.find_first_of(",}")));
  if (read.size() != 1) refuse(key, "number from 1 on");
  return read[0];
}

std::vector<std::int64_t> Row::numbers(std::string_view key) const {
  const std::string_view v = value(key);
  const std::size_t end = v.find(']');
  std::vector<std::int64_t> all;
  if (v[0] == '[' && end != v.npos) all = whole_numbers(v.substr(1, end - 1));
  if (all.empty()) refuse(key, "list of numbers from 1 on");
  return all;
}

bool Row::yes(std::string_view key) const {
  const std::string_view v = after(text_, key);
  if (!v.empty() && !v.starts_with("true") && !v.starts_with("false")) refuse(key, "true or false");
  return v.starts_with("true");
}

}  // namespace ebb::zoo
