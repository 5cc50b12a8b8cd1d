#include "ebb/text/words.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace ebb::text {
namespace {

enum class Kind : std::uint8_t { space, letter, digit, other };
constexpr std::size_t kMostDigits = 3;

constexpr std::array<Kind, 256> kKinds = [] {
  std::array<Kind, 256> kinds{};
  for (int c = 0; c < 256; ++c) {
    Kind& kind = kinds[static_cast<std::size_t>(c)];
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      kind = Kind::space;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80) {
      kind = Kind::letter;
    } else if (c >= '0' && c <= '9') {
      kind = Kind::digit;
    } else {
      kind = Kind::other;
    }
  }
  return kinds;
}();

Kind kind_of(char c) { return kKinds[static_cast<unsigned char>(c)]; }
bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::size_t word_end(std::string_view text, std::size_t at) {
  const std::size_t most = std::min(text.size(), at + kLongestWord);
  std::size_t i = at;
  if (text[i] == ' ' && i + 1 < text.size() && kind_of(text[i + 1]) != Kind::space) ++i;
  const Kind kind = kind_of(text[i]);
  const std::size_t limit = kind == Kind::digit ? std::min(most, i + kMostDigits) : most;
  const std::size_t begin = i;
  while (i < limit && kind_of(text[i]) == kind) ++i;
  if (i == text.size()) return i;
  if (kind == Kind::space) {  // the last one goes with the word that follows
    const bool before_word = text[i - 1] == ' ' && kind_of(text[i]) != Kind::space;
    return before_word && i - 1 > begin ? i - 1 : i;
  }
  if (i == most)  // a character has at most three bytes after its first
    for (std::size_t back = 0; back < 4; ++back)
      if (!continues_character(text[i - back])) return i - back;
  return i;
}

// A word is settled when the byte after it was seen. (That byte alone says where it ends.)
std::size_t settled_words(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = word_end(text, at);
    if (end == text.size()) break;
    at = end;
  }
  return at;
}

}  // namespace ebb::text
