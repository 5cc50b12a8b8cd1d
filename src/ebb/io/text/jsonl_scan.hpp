// One line of a jsonl file, field by field. The only place that knows simdjson.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ebb/io/text/growing_bytes.hpp"
#include "ebb/io/text/jsonl.hpp"
#include "ebb/io/text/text_blocks.hpp"

namespace ebb::io {

inline constexpr std::size_t kMostFields = 1000;

// What a line says of a field.
struct JsonValue {
  enum class Type { none, number, list, string };
  Type type = Type::none;
  std::size_t first = 0, count = 0;  // of numbers: where in `words`, how many
  bool integers = true;              // all of them, within i32
  std::string_view text;             // of a string; of a single number, as it is written
};

// Parses the lines of a block. It keeps simdjson's memory, of which the Ledger is told.
class JsonLines {
 public:
  enum class As : std::uint8_t { skip, f32, i32, either };  // how numbers are wanted; either: both

  JsonLines();
  ~JsonLines();
  JsonLines(JsonLines&&) noexcept;

  // The fields by which values are known. Others are passed over. `may_miss`: a field that is null or not there has
  // no value, and true and false are 1 and 0; else these are refused.
  void set_fields(std::vector<std::string> names, std::vector<As> as, bool may_miss = false);
  // Calls `row` for each line that is not empty, with a value for each field. Numbers are in
  // words(): f32 or i32, of `either` f32.
  using Row = std::function<void(const std::vector<JsonValue>& values, std::size_t offset)>;
  void parse(const std::string& path, const TextBlock& block, const Row& row);
  std::span<const std::uint32_t> words() const { return words_.words(); }
  std::size_t found() const { return found_; }  // fields of the line at hand that are known
  // Names of other fields since the last call, in the order in which they were met; where fields may miss.
  std::vector<std::string> take_unknown() { return std::exchange(unknown_, {}); }

  // What is in the object of the first line that is not empty.
  std::vector<JsonlFirst> first(const std::string& path, const TextBlock& block);

 private:
  struct Parser;
  void add_unknown(std::string_view key);
  void line(const std::string& path, const TextBlock& block, std::size_t begin, std::size_t end);
  std::unique_ptr<Parser> parser_;
  std::vector<std::string> names_;
  std::vector<As> as_;
  bool may_miss_ = false;
  std::vector<JsonValue> values_;
  std::size_t found_ = 0;
  std::vector<std::string> unknown_;
  GrowingBytes words_;
};

}  // namespace ebb::io
