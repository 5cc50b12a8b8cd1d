#include "ebb/data/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ebb/base/error.hpp"

namespace ebb::data {

Vocabulary::Vocabulary(std::string_view text) {
  std::fill(std::begin(ids_), std::end(ids_), -1);
  for (const char c : text) ids_[static_cast<unsigned char>(c)] = 0;
  for (int c = 0; c < 256; ++c) {
    if (ids_[c] < 0) continue;
    ids_[c] = size();
    characters_ += static_cast<char>(c);
  }
}

Tensor Vocabulary::encode(std::string_view text) const {
  Tensor out = Tensor::uninitialized({{static_cast<std::int64_t>(text.size())}, DType::i32},
                                     "encode", Category::data);
  auto* ids = reinterpret_cast<std::int32_t*>(out.bytes());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (ids_[c] < 0)
      throw Error(fmt::format(
          "vocabulary: the character {} at place {} is not one of the {} known",
          c > ' ' && c <= '~' ? fmt::format("'{}'", text[i]) : fmt::format("with code {}", c), i,
          size()));
    ids[i] = ids_[c];
  }
  return out;
}

std::string Vocabulary::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= size())
      throw Error(
          fmt::format("vocabulary: {} is no character's number; expected 0 to {}", id, size() - 1));
    out += characters_[static_cast<std::size_t>(id)];
  }
  return out;
}

Text text(std::string_view text, TextOptions options) {
  const std::int64_t window = options.window, stride = options.stride ? options.stride : window;
  if (window < 1 || stride < 1)
    throw Error(fmt::format("text: a window of {} and a stride of {}; both must be at least 1",
                            window, stride));
  const auto length = static_cast<std::int64_t>(text.size());
  if (length - 1 < window)
    throw Error(
        fmt::format("text: {} characters are too few for a window of {} and the character "
                    "after it; give more text or a smaller window",
                    length, window));
  const std::int64_t count = (length - 1 - window) / stride + 1;
  Vocabulary vocabulary(text);
  const Tensor ids = vocabulary.encode(text);
  Tensor input = Tensor::uninitialized({{count, window}, DType::i32}, "text", Category::data);
  Tensor target = Tensor::uninitialized({{count, window}, DType::i32}, "text", Category::data);
  const std::int32_t* from = ids.data<std::int32_t>().data();
  auto* now = reinterpret_cast<std::int32_t*>(input.bytes());
  auto* next = reinterpret_cast<std::int32_t*>(target.bytes());
  for (std::int64_t row = 0; row < count; ++row) {
    std::copy_n(from + row * stride, window, now + row * window);
    std::copy_n(from + row * stride + 1, window, next + row * window);
  }
  return {Dataset::of({{"input", input}, {"target", target}}), std::move(vocabulary)};
}

}  // namespace ebb::data
