// One line of a jsonl file, field by field. The only place that knows simdjson.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/io/text/growing_bytes.hpp"
#include "ebb/io/text/text_blocks.hpp"

namespace ebb::io {

// What a line says of a field.
struct JsonValue {
  enum class Type { none, number, list, string };
  Type type = Type::none;
  std::size_t first = 0, count = 0;  // of numbers: where in `words`, how many
  bool integers = true;              // all of them, within i32
  std::string_view text;             // of a string
};

// Parses the lines of a block. It keeps simdjson's memory, of which the Ledger is told.
class JsonLines {
 public:
  enum class As : std::uint8_t { skip, f32, i32, either };  // how numbers are wanted; either: both

  JsonLines();
  ~JsonLines();
  JsonLines(JsonLines&&) noexcept;

  // The fields by which values are known. Others are passed over.
  void set_fields(std::vector<std::string> names, std::vector<As> as);
  // Calls `row` for each line that is not empty, with a value for each field, all there. Numbers are in
  // words(): f32 or i32, of `either` f32.
  using Row = std::function<void(const std::vector<JsonValue>& values, std::size_t offset)>;
  void parse(const std::string& path, const TextBlock& block, const Row& row);
  std::span<const std::uint32_t> words() const { return words_.words(); }

  // The names in the object of a line.
  std::vector<std::string> names(const std::string& path, const TextBlock& line);

 private:
  struct Parser;
  void line(const std::string& path, const TextBlock& block, std::size_t begin, std::size_t end);
  std::unique_ptr<Parser> parser_;
  std::vector<std::string> names_;
  std::vector<As> as_;
  std::vector<JsonValue> values_;
  GrowingBytes words_;
};

}  // namespace ebb::io
