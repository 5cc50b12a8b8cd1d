// Words: where they end, and that a text in pieces has the words of the whole.
#include "ebb/text/words.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ebb/base/rng.hpp"
#include "ebb/text/word_counts.hpp"

namespace ebb::text {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> all;
  each_word(text, [&](std::string_view word) { all.emplace_back(word); });
  return all;
}

using Words = std::vector<std::string>;

TEST(Words, OfAText) {
  EXPECT_EQ(
      words_of("It was the best, it was 12345 times!"),
      (Words{"It", " was", " the", " best", ",", " it", " was", " 123", "45", " times", "!"}));
  EXPECT_EQ(words_of("  two\n\n    four \t\n"), (Words{" ", " two", "\n\n   ", " four", " \t\n"}));
  EXPECT_EQ(words_of("größe привет 你好"), (Words{"größe", " привет", " 你好"}));
  EXPECT_EQ(words_of(""), Words{});
  EXPECT_EQ(words_of(" "), Words{" "});
  EXPECT_EQ(words_of("a_b(c)"), (Words{"a", "_", "b", "(", "c", ")"}));
}

TEST(Words, LongOnesAreCutBetweenCharacters) {
  const std::string long_word(200, 'x');
  EXPECT_EQ(words_of(long_word), (Words{long_word.substr(0, 64), long_word.substr(0, 64),
                                        long_word.substr(0, 64), long_word.substr(0, 8)}));
  std::string chinese = "a";
  for (int i = 0; i < 40; ++i) chinese += "你";
  for (const std::string& word : words_of(chinese)) {
    EXPECT_LE(word.size(), kLongestWord);
    EXPECT_NE(static_cast<unsigned char>(word[0]) & 0xC0, 0x80);
  }
  const std::string no_character(200, '\x80');  // where there is none to cut before
  EXPECT_EQ(words_of(no_character)[0].size(), kLongestWord);
  for (const std::string& word : words_of(std::string(300, ' ')))
    EXPECT_LE(word.size(), kLongestWord);
}

// Bytes of few kinds, so that every rule meets every other.
std::string random_text(std::uint64_t seed, std::size_t length) {
  static constexpr std::string_view kinds[] = {"a",    "b",        " ",
                                               " ",    "\n",       "7",
                                               ".",    "\xC3\xA4", "\xE4\xBD\xA0",
                                               "\x80", "\xFF",     std::string_view("\0", 1)};
  std::string text;
  std::size_t kind = 0;
  for (std::uint64_t i = 0; text.size() < length; ++i) {
    const std::uint32_t bits = draw({seed, 0}, 0, i);
    if (bits % 5 < 3) kind = bits / 8 % std::size(kinds);  // runs
    text += kinds[kind];
  }
  return text;
}

TEST(Words, OfPiecesAreThoseOfTheWhole) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const std::string text = random_text(seed, 900);
    const Words whole = words_of(text);
    std::string joined;
    for (const std::string& word : whole) joined += word;
    ASSERT_EQ(joined, text);
    for (const std::size_t piece : {70, 71, 100, 333}) {
      Words parts;
      std::string held;
      for (std::size_t at = 0; at < text.size(); at += piece) {
        held += text.substr(at, piece);
        const std::size_t settled = settled_words(held);
        for (std::string& word : words_of(std::string_view(held).substr(0, settled)))
          parts.push_back(std::move(word));
        held.erase(0, settled);
        ASSERT_LE(held.size(), kLongestWord);
      }
      for (std::string& word : words_of(held)) parts.push_back(std::move(word));
      ASSERT_EQ(parts, whole) << piece;
    }
  }
}

TEST(WordCounts, CountInTheOrderMet) {
  WordCounts counts(1000);
  EXPECT_EQ(counts.add("a b a b ", true), 7u);  // the last space may belong to a word
  EXPECT_EQ(counts.add(" a", false), 2u);
  ASSERT_EQ(counts.words(), 3u);
  EXPECT_EQ(counts.word(0), "a");
  EXPECT_EQ(counts.count(0), 1u);
  EXPECT_EQ(counts.word(1), " b");
  EXPECT_EQ(counts.count(1), 2u);
  EXPECT_EQ(counts.word(2), " a");
  EXPECT_EQ(counts.count(2), 2u);
}

TEST(WordCounts, ForgetTheRarestWhereThereIsNoRoom) {
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text += " often";
    std::string rare;
    for (int n = i; n > 0; n /= 26) rare += static_cast<char>('a' + n % 26);
    text += " q" + rare;
  }
  WordCounts counts(2000);
  counts.add(text, false);
  EXPECT_LE(counts.bytes() + counts.words(), 2000u);
  EXPECT_EQ(counts.word(0), " often");
  EXPECT_EQ(counts.count(0), 5000u);
  std::uint64_t left = 0;
  for (std::size_t i = 0; i < counts.words(); ++i) left += counts.count(i);
  EXPECT_EQ(left + counts.forgotten(), 10000u);
}

}  // namespace
}  // namespace ebb::text
