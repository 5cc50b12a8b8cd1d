// Text for a terminal, from pieces that may end inside a character: tokens are bytes, and one may be a part
// of a character only.
//
//   text::Utf8Stream out;
//   for (std::int32_t id : nn::generate(gpt, prompt, {})) std::cout << out.put(bpe.piece(id)) << std::flush;
//   std::cout << out.finish();
//
// What comes out is whole characters of valid UTF-8, as soon as they are there. Bytes that are none become
// U+FFFD, one for each longest part that could have begun a character; bytes as they are: Tokenizer::decode.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ebb::text {

class Utf8Stream {
 public:
  std::string put(std::string_view bytes);
  std::string finish();  // what was left of a character, as U+FFFD

 private:
  std::string held_;  // the beginning of a character, at most three bytes
};

}  // namespace ebb::text
