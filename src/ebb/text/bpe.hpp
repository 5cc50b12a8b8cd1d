// Byte-pair encoding: tokens are the 256 bytes and, each made of two tokens before it, what occurs together
// most often. Any bytes can be encoded, and come back as they were.
//
//   text::Bpe bpe = text::train_bpe_file("book.txt", {.vocabulary = 4096});
//   text::save_vocabulary(bpe, "vocabulary.txt");                    // vocabulary_file.hpp
//   Tensor ids = bpe.encode("it was the best of times");
//   std::string same = bpe.decode(ids.data<std::int32_t>());
//
// Tokens do not reach across words (words.hpp). A word is encoded by its merges in the order in which they
// were learned, of equal ones the leftmost first.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ebb/base/bytes.hpp"
#include "ebb/data/tokenizer.hpp"

namespace ebb::text {

struct Merge {
  std::int32_t left, right;
  bool operator==(const Merge&) const = default;
};

class Bpe final : public data::Tokenizer {
 public:
  static constexpr std::int32_t kBytes = 256;       // the first tokens
  static constexpr std::int32_t kMost = 1 << 20;    // tokens of a vocabulary
  static constexpr std::size_t kLongestPiece = 64;  // bytes of a token: a word's

  // Merge i makes token 256 + i of two tokens before it. Refuses others, a pair that occurs twice, and
  // pieces that no word can hold.
  explicit Bpe(std::span<const Merge> merges);

  std::int32_t size() const override;
  std::string_view piece(std::int32_t id) const override;
  std::size_t encode_into(std::string_view text, std::int32_t* to) const override;
  std::size_t settled(std::string_view text) const override;
  std::span<const Merge> merges() const;

 private:
  struct Tables;
  std::shared_ptr<const Tables> tables_;  // a Bpe is cheap to copy
};

struct BpeOptions {
  std::int32_t vocabulary =
      4096;                   // tokens, the 256 bytes among them; fewer where no pair occurs twice
  ByteSize memory = 128_MiB;  // about so much to train in: of a text with more words than fit, the
                              // rarest are forgotten
};

// Of pairs that occur equally often the one of the smaller left token is merged, then of the smaller right
// one: the vocabulary is a function of the text and the options.
Bpe train_bpe(std::string_view text, const BpeOptions& options = {});
Bpe train_bpe_file(const std::string& path,
                   const BpeOptions& options = {});  // read once, in pieces

}  // namespace ebb::text
