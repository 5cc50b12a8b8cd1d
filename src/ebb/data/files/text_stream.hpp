// A text wherever it lies: in files, one after the other, or in a field of objects a line.
//
//   const data::TextStream stories = data::text_of_field({"stories.jsonl"}, "text");
//   stories([&](std::string_view piece) { … });               // piece by piece, in bounded memory
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/files/file.hpp"

namespace ebb::data {

using UseText = std::function<void(std::string_view piece)>;
using TextStream = std::function<void(const UseText& use)>;

TextStream text_of_files(std::vector<std::string> paths);
// The strings of that field, a newline behind each.
TextStream text_of_field(std::vector<std::string> paths, std::string field);

// All of it in a file without a name, at its beginning, which is gone when it is closed.
File as_file(const TextStream& text);

struct TextShape {
  std::uint64_t bytes = 0;
  std::string characters;  // the bytes that occur, in order
};
TextShape shape_of(const TextStream& text);

}  // namespace ebb::data
