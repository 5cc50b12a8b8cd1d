// A text file as windows of tokens to train on.
//
//   auto bpe = text::load_vocabulary("vocabulary.txt");
//   Dataset windows = text::token_windows("book.txt", *bpe, {.window = 256});   // "input", "target"
//
// The file is read and encoded once, piece by piece, into a file of tokens without a name that goes with the
// data set; windows are cut from there when a batch is made, or from memory.
#pragma once

#include <cstdint>
#include <string>

#include "ebb/base/files/file.hpp"
#include "ebb/data/dataset.hpp"
#include "ebb/data/row_store.hpp"
#include "ebb/data/tokenizer.hpp"

namespace ebb::text {

struct TokenWindowsOptions {
  std::int64_t window = 64;  // tokens a model sees at once
  std::int64_t stride = 0;   // from one window to the next; 0: as long as the window
  bool in_memory = false;    // four bytes a token; false: the tokens stay in their file
  std::string folder = {};   // of that file; empty: temporary_folder()
  bool shape_only = false;   // to plan with: tokens are counted, and none of them is held in memory
  data::RowsHeld* held = nullptr;  // as in data::StoreOptions
};

// "input" and "target", i32(window): target[t] follows input[t] in the text. What is left over at the end,
// shorter than a window and one more, is not used.
Dataset token_windows(const std::string& path, const data::Tokenizer& tokenizer,
                      const TokenWindowsOptions& options = {});
// The same of a file that is open, which is called `name` in errors.
Dataset token_windows(File file, const std::string& name, const data::Tokenizer& tokenizer,
                      const TokenWindowsOptions& options = {});

}  // namespace ebb::text
