// JSON objects, one a line, by simdjson:
//
//   {"pixels": [0.5, 1, 0], "label": "cat"}
//   {"ids": [17, 4, 92], "score": 0.25}
//
// A field is a number, a list of numbers, or a string. A pass over the file finds out what each is, and
// another makes rows of them; both stream it (also .gz) in bounded memory, on all threads, with the same
// result for any number of them. A line that does not fit is refused by its number.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/bytes.hpp"

namespace ebb::io {

// number: f32; integer: i32 (a list with one below 0 is of numbers, where nothing else is said); label: a string as the number, i32, of its class; tokens: i32, as many as
// there are; text: a string's bytes, u8, as many as there are; ignored: not read.
enum class JsonKind { number, integer, label, tokens, text, ignored };
const char* name(JsonKind kind);

struct JsonlOptions {
  std::vector<std::string> fields =
      {};  // those that are read; none: all of the first line's object
  std::map<std::string, JsonKind> kinds = {};  // of fields that are not to be looked at for it
  ByteSize longest_line = 1_MiB;
  std::int64_t most_classes = 10'000;
};

struct JsonlField {
  std::string name;
  JsonKind kind = JsonKind::number;
  bool list = false;                      // else a single one
  bool ragged = false;                    // lists of different lengths
  std::int64_t longest = 1;               // list
  std::int64_t elements = 0;              // of all ragged lists together
  std::vector<std::string> classes = {};  // of labels, in the order of their bytes
  std::int64_t least = 0, largest = 0;    // of integers, also within lists

  bool operator==(const JsonlField&) const = default;
};

struct JsonlSchema {
  std::vector<JsonlField> fields;
  std::int64_t rows = 0;
  bool operator==(const JsonlSchema&) const = default;
};

// A schema as text that a model is saved with, and back. What is no such text is an Error.
std::string to_string(const JsonlSchema& schema);
JsonlSchema parse_jsonl_schema(std::string_view text);

// The object of the first line, field by field.
enum class JsonType { null, number, list, string, object };
struct JsonlFirst {
  std::string name;
  JsonType type = JsonType::null;
};
std::vector<JsonlFirst> read_jsonl_first(const std::string& path, ByteSize longest_line = 1_MiB);

JsonlSchema read_jsonl_schema(const std::string& path, const JsonlOptions& options = {});
// Of several files, as of one: fields are those of the first line of the first.
JsonlSchema read_jsonl_schema(std::span<const std::string> paths, const JsonlOptions& options);

// Rows of a part of the file. A row is, field by field, of 32-bit words: the number, the numbers of a
// list that is not ragged, or of a ragged one how many it has.
struct JsonlRows {
  std::span<const std::uint32_t> words;
  std::vector<std::span<const std::byte>>
      lists;  // of ragged fields, in order: one list behind the other
};
std::size_t row_words(const JsonlSchema& schema);

using JsonlSink = std::function<void(const JsonlRows& rows)>;
void read_jsonl_rows(const std::string& path, const JsonlOptions& options,
                     const JsonlSchema& schema, const JsonlSink& sink);

}  // namespace ebb::io
