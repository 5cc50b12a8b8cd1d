#include "models/row.hpp"

#include <charconv>

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

// What stands after "key":, from its first character on; empty where there is no such key.
std::string_view after(std::string_view text, std::string_view key) {
  const std::string quoted = "\"" + std::string(key) + "\"";
  for (std::size_t at = 0; (at = text.find(quoted, at)) != text.npos;) {
    at = text.find_first_not_of(" \n", at + quoted.size());
    if (at == text.npos || text[at] != ':') continue;  // a value
    at = text.find_first_not_of(" \n", at + 1);
    return at == text.npos ? std::string_view() : text.substr(at);
  }
  return {};
}

// The rows of a file, one after the other: f(name, row).
void each_row(std::string_view file, auto&& f) {
  for (std::size_t at = 1; (at = file.find('"', at)) != file.npos;) {
    const std::size_t last = file.find('"', at + 1), begin = file.find('{', last),
                      end = file.find('}', begin);
    f(file.substr(at + 1, last - at - 1), file.substr(begin, end + 1 - begin));
    at = end;
  }
}

}  // namespace

Row Row::named(std::string_view name) {
  std::string_view found;
  for (const char* const file : {kFile, kMore})
    each_row(file, [&](std::string_view n, std::string_view row) {
      if (n == name) found = row;
    });
  if (found.empty()) throw Error("no row '" + std::string(name) + "' in benches/peers");
  return Row(found);
}

std::vector<std::string> Row::names() {
  std::vector<std::string> all;
  each_row(kFile, [&](std::string_view name, std::string_view) { all.emplace_back(name); });
  return all;
}

std::string_view Row::value(std::string_view key) const {
  const std::string_view found = after(text_, key);
  if (found.empty()) throw Error("row without \"" + std::string(key) + "\": " + text_);
  return found;
}

std::string Row::word(std::string_view key) const {
  const std::string_view v = value(key);
  return std::string(v.substr(1, v.find('"', 1) - 1));
}

std::int64_t Row::number(std::string_view key) const {
  const std::string_view v = value(key);
  std::int64_t n = 0;
  if (std::from_chars(v.data(), v.data() + v.size(), n).ec != std::errc() || n < 1)
    throw Error("row with \"" + std::string(key) + "\" that is no number from 1 on: " + text_);
  return n;
}

std::vector<std::int64_t> Row::numbers(std::string_view key) const {
  const std::string_view v = value(key);
  std::vector<std::int64_t> all;
  const char* const end = v.data() + v.find(']');
  for (const char* at = v.data() + 1; at < end; ++at) {
    std::int64_t n = 0;
    const auto read = std::from_chars(at, end, n);
    if (read.ec == std::errc()) all.push_back(n), at = read.ptr;
  }
  if (v[0] != '[' || all.empty())
    throw Error("row with \"" + std::string(key) + "\" that is no list of numbers: " + text_);
  return all;
}

bool Row::yes(std::string_view key) const { return after(text_, key).starts_with("true"); }

}  // namespace ebb::zoo
