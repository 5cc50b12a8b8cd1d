// Text for a terminal: whole characters only, whatever pieces they come in.
#include "ebb/text/utf8_stream.hpp"

#include <gtest/gtest.h>

#include "ebb/base/rng.hpp"

namespace ebb::text {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

std::string streamed(std::string_view bytes, std::size_t piece) {
  Utf8Stream stream;
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    out += stream.put(bytes.substr(at, piece));
  return out + stream.finish();
}

TEST(Utf8Stream, HoldsACharacterUntilItIsWhole) {
  Utf8Stream stream;
  EXPECT_EQ(stream.put("a\xE4"), "a");
  EXPECT_EQ(stream.put("\xBD"), "");
  EXPECT_EQ(stream.put("\xA0z"), "你z");
  EXPECT_EQ(stream.put("\xF0\x9F\x98"), "");
  EXPECT_EQ(stream.put("\x80"), "😀");
  EXPECT_EQ(stream.put("\xC3"), "");
  EXPECT_EQ(stream.finish(), kBad);
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, WhatIsNoCharacterIsReplaced) {
  const std::pair<const char*, std::string> cases[] = {
      {"a\x80z", "a" + kBad + "z"},
      {"\xC3(", kBad + "("},
      {"\xC0\x80", kBad + kBad},                        // too long
      {"\xE0\x80\x80", kBad + kBad + kBad},             // too long
      {"\xED\xA0\x80", kBad + kBad + kBad},             // a surrogate
      {"\xF4\x90\x80\x80", kBad + kBad + kBad + kBad},  // beyond the last
      {"\xF0\x9F\x98\xC3\xA4", kBad + "ä"},
      {"\xFF\xFE", kBad + kBad},
      {"\xE4\xBD", kBad},
      {"größe 你好 😀", "größe 你好 😀"}};
  for (const auto& [bytes, expected] : cases)
    for (const std::size_t piece : {1, 2, 3, 100})
      EXPECT_EQ(streamed(bytes, piece), expected) << bytes;
}

TEST(Utf8Stream, PiecesDoNotMatter) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::string bytes;
    for (std::uint64_t i = 0; i < 40; ++i) {
      const std::uint32_t bits = draw({seed, 0}, 0, i);
      bytes += static_cast<char>(bits % 3 == 0   ? bits >> 8
                                 : bits % 3 == 1 ? 0x80 | (bits >> 8 & 0x3F)
                                                 : 0xE0 | (bits >> 8 & 0x1F));
    }
    const std::string whole = streamed(bytes, bytes.size());
    for (const std::size_t piece : {1, 2, 5}) EXPECT_EQ(streamed(bytes, piece), whole) << seed;
    EXPECT_EQ(streamed(whole, 3), whole) << seed;  // it is valid itself
  }
}

}  // namespace
}  // namespace ebb::text
