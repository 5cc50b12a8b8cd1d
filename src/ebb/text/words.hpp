// Words: the parts of a text that byte-pair tokens do not reach across.
//
// A word is, with the one space before it where there is one,
//
//   letters (every byte from 0x80 on counts as one, so that no character is cut in two)
//   one to three digits
//   other signs: .,;"()…
//
// or else white space, all of it that is not the one space before a word. No word is longer than
// kLongestWord bytes: a longer one is cut there, between two characters.
#pragma once

#include <cstddef>
#include <string_view>

namespace ebb::text {

inline constexpr std::size_t kLongestWord = 64;

// Where the word that begins at `at` ends.
std::size_t word_end(std::string_view text, std::size_t at);

// Of a text that goes on: up to where its words are the same whatever follows.
std::size_t settled_words(std::string_view text);

// Calls use(word) for each word of a text.
template <class Use>
void each_word(std::string_view text, Use&& use) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = word_end(text, at);
    use(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace ebb::text
