// Text ↔ tokens: what data and generation ask of a vocabulary, and the simplest one, of bytes.
//
// A token stands for some bytes, whatever text it occurs in, so that decoding is putting bytes together. A
// text of n bytes has at most n tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ebb/data/source.hpp"
#include "ebb/tensor/tensor.hpp"

namespace ebb::data {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int32_t size() const = 0;  // tokens are 0 to size() - 1
  virtual std::string_view piece(
      std::int32_t id) const = 0;  // the bytes it stands for; id is a token
  // The tokens of a text; gives how many. There is room for one a byte.
  virtual std::size_t encode_into(std::string_view text, std::int32_t* to) const = 0;
  // Of a text that goes on: bytes from its beginning whose tokens are the same, whatever follows.
  virtual std::size_t settled(std::string_view text) const = 0;

  Tensor encode(std::string_view text) const;                   // i32(tokens)
  std::string decode(std::span<const std::int32_t> ids) const;  // refuses what is no token
  void check(std::int32_t id) const;                            // likewise
};

// The bytes that occur in a text, in order, numbered from 0.
class Vocabulary final : public Tokenizer {
 public:
  explicit Vocabulary(std::string_view text);
  std::int32_t size() const override { return static_cast<std::int32_t>(characters_.size()); }
  std::string_view piece(std::int32_t id) const override {
    return std::string_view(characters_).substr(static_cast<std::size_t>(id), 1);
  }
  std::size_t encode_into(std::string_view text,
                          std::int32_t* to) const override;  // refuses others
  std::size_t settled(std::string_view text) const override { return text.size(); }

  const std::string& characters() const { return characters_; }
  std::shared_ptr<const Codes> codes() const;  // of every byte

 private:
  std::string characters_;
  std::int32_t ids_[256];
};

}  // namespace ebb::data
