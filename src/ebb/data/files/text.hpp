// Text for models of characters: windows of a text, each with what follows every character of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ebb/data/dataset.hpp"
#include "ebb/data/files/text_stream.hpp"
#include "ebb/data/row_store.hpp"
#include "ebb/data/tokenizer.hpp"

namespace ebb::data {

struct TextOptions {
  std::int64_t window = 64;  // characters a model sees at once
  std::int64_t stride = 0;   // from one window to the next; 0: as long as the window
};

struct Text {
  Dataset windows;  // "input" and "target", i32(window): target[t] follows input[t] in the text
  Vocabulary vocabulary;
};

// What is left over at the end, shorter than a window and one more, is not used. The text is held
// once, a byte each; windows are cut when a batch is made.
Text text(std::string_view text, TextOptions options = {});

struct TextFileOptions {
  std::int64_t window = 64, stride = 0;  // as above
  bool in_memory = true;  // false: the text stays in its file, and a batch reads its own
  bool shape_only =
      false;  // to plan with: nothing is kept of the text, and batches are not to be made
  RowsHeld* held = nullptr;  // as in StoreOptions
};

// The same of a file. It is read through once, for the vocabulary.
Text text_file(const std::string& path, TextFileOptions options = {});
// The same of any text, which is called `name` in errors. Windows reach from one file into the next. Where the text is
// not held in memory, it is put together in a file without a name.
Text text_windows(const TextStream& text, const std::string& name, TextFileOptions options = {});

}  // namespace ebb::data
