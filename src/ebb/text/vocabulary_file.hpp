// Vocabularies as files, to be kept with a model. Text, to be read by people, too; one token a line:
//
//   ebb vocabulary 1               ebb vocabulary 1
//   bpe 4096                       bytes 65
//   256 = 32 116 " t"              0 = 10 "\n"
//   257 = 104 101 "he"             1 = 32 " "
//   …                              …
//
// bpe: the number of a token, the two it is made of, and its bytes; the first 256 tokens are the bytes, and
// have no line. bytes: the number of a token and its byte. In quotes stand printable ASCII as it is, \\ \" \n
// \t and else \x and two digits.
//
// A file is read as if an enemy had written it: what is not, to the byte, what save_vocabulary would write
// for some vocabulary is refused with the line it is in.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ebb/data/tokenizer.hpp"

namespace ebb::text {

void save_vocabulary(const data::Tokenizer& tokenizer,
                     const std::string& path);  // a Bpe or a Vocabulary
std::shared_ptr<const data::Tokenizer> load_vocabulary(const std::string& path);

// The same of what is in memory; `name` is what errors call it.
std::string vocabulary_text(const data::Tokenizer& tokenizer);
std::shared_ptr<const data::Tokenizer> parse_vocabulary(std::string_view text,
                                                        const std::string& name);

}  // namespace ebb::text
