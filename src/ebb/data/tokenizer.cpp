#include "ebb/data/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/memory.hpp"

namespace ebb::data {

Tensor Tokenizer::encode(std::string_view text) const {
  const memory::Buffer most(text.size() * sizeof(std::int32_t), "encode", Category::data);
  const std::size_t count = encode_into(text, reinterpret_cast<std::int32_t*>(most.data()));
  Tensor out = Tensor::uninitialized({{static_cast<std::int64_t>(count)}, DType::i32}, "encode",
                                     Category::data);
  if (count) std::memcpy(out.bytes(), most.data(), count * sizeof(std::int32_t));
  return out;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  for (const std::int32_t id : ids) {
    check(id);
    out += piece(id);
  }
  return out;
}

void Tokenizer::check(std::int32_t id) const {
  if (id < 0 || id >= size())
    throw Error(
        fmt::format("vocabulary: {} is no token's number; expected 0 to {}", id, size() - 1));
}

Vocabulary::Vocabulary(std::string_view text) {
  std::fill(std::begin(ids_), std::end(ids_), -1);
  for (const char c : text) ids_[static_cast<unsigned char>(c)] = 0;
  for (int c = 0; c < 256; ++c) {
    if (ids_[c] < 0) continue;
    ids_[c] = size();
    characters_ += static_cast<char>(c);
  }
}

std::size_t Vocabulary::encode_into(std::string_view text, std::int32_t* to) const {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (ids_[c] < 0)
      throw Error(fmt::format(
          "vocabulary: the character {} at place {} is not one of the {} known",
          c > ' ' && c <= '~' ? fmt::format("'{}'", text[i]) : fmt::format("with code {}", c), i,
          size()));
    to[i] = ids_[c];
  }
  return text.size();
}

std::shared_ptr<const Codes> Vocabulary::codes() const {
  auto codes = std::make_shared<Codes>();
  std::copy(std::begin(ids_), std::end(ids_), codes->begin());
  return codes;
}

}  // namespace ebb::data
