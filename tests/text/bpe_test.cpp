// Byte-pair vocabularies: what is learned is what counting by hand gives; every text comes back; memory is
// bounded and counted.
#include "ebb/text/bpe.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "ebb/base/rng.hpp"
#include "ebb/text/words.hpp"
#include "tests/error_of.hpp"
#include "tests/temp_path.hpp"

namespace ebb::text {
namespace {

using test::error_of;

std::string random_bytes(std::uint64_t seed, std::size_t length, std::uint32_t kinds) {
  std::string text;
  for (std::uint64_t i = 0; text.size() < length; ++i)
    text += static_cast<char>(kinds == 256 ? draw({seed, 0}, 0, i)
                                           : 'a' + draw({seed, 0}, 0, i) % kinds);
  return text;
}

// A text with words that come again, and some that are one letter many times.
std::string some_text(std::uint64_t seed) {
  std::string text;
  for (std::uint64_t i = 0; i < 400; ++i) {
    const std::uint32_t bits = draw({seed, 1}, 0, i);
    text += bits % 7 == 0 ? "\n" : " ";
    text += bits % 5 == 0 ? std::string(1 + bits / 8 % 9, 'a')
                          : random_bytes(bits / 8 % 40, 1 + bits / 512 % 8, 4);
  }
  return text;
}

using Word = std::vector<std::int32_t>;

Word merged(const Word& word, Merge pair, std::int32_t made) {  // from the left
  Word out;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool both = i + 1 < word.size() && word[i] == pair.left && word[i + 1] == pair.right;
    out.push_back(both ? made : word[i]);
    i += both;
  }
  return out;
}

// Counts all pairs anew for every merge.
std::vector<Merge> trained_by_counting(std::string_view text, std::int32_t vocabulary) {
  std::map<std::string, std::int64_t> words;
  each_word(text, [&](std::string_view word) { ++words[std::string(word)]; });
  std::vector<std::pair<Word, std::int64_t>> all;
  for (const auto& [word, count] : words) {
    all.push_back({{}, count});
    for (const char c : word) all.back().first.push_back(static_cast<unsigned char>(c));
  }
  std::vector<Merge> merges;
  for (std::int32_t made = 256; made < vocabulary; ++made) {
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> pairs;
    for (const auto& [word, count] : all)
      for (std::size_t i = 0; i + 1 < word.size(); ++i) pairs[{word[i], word[i + 1]}] += count;
    const std::pair<const std::pair<std::int32_t, std::int32_t>, std::int64_t>* best = nullptr;
    for (const auto& pair : pairs)
      if (!best || pair.second > best->second) best = &pair;
    if (!best || best->second < 2) break;
    const Merge merge{best->first.first, best->first.second};
    for (auto& [word, count] : all) word = merged(word, merge, made);
    merges.push_back(merge);
  }
  return merges;
}

TEST(Bpe, LearnsWhatCountingAnewForEveryMergeGives) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const std::string text = some_text(seed);
    const Bpe bpe = train_bpe(text, {.vocabulary = 330});
    const std::vector<Merge> merges(bpe.merges().begin(), bpe.merges().end());
    EXPECT_EQ(merges, trained_by_counting(text, 330)) << "seed " << seed;
  }
}

TEST(Bpe, StopsWhereNoPairOccursTwice) {
  const Bpe bpe = train_bpe("abab xyxyxyxy", {.vocabulary = 5000});
  EXPECT_LT(bpe.size(), 270);
  EXPECT_EQ(train_bpe("", {}).size(), 256);
  EXPECT_EQ(train_bpe("ab ab ab", {.vocabulary = 256}).size(), 256);
}

// Merge by merge through the whole word, as the definition says.
Word encoded_by_merges(const Bpe& bpe, std::string_view text) {
  Word all;
  each_word(text, [&](std::string_view w) {
    Word word;
    for (const char c : w) word.push_back(static_cast<unsigned char>(c));
    std::int32_t made = 256;
    for (const Merge& merge : bpe.merges()) word = merged(word, merge, made++);
    all.insert(all.end(), word.begin(), word.end());
  });
  return all;
}

TEST(Bpe, EncodesByItsMergesInTheirOrder) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Bpe bpe = train_bpe(some_text(seed), {.vocabulary = 400});
    const std::string other = some_text(seed + 100);
    EXPECT_EQ(bpe.encode(other).to_vector<std::int32_t>(), encoded_by_merges(bpe, other)) << seed;
  }
  // A text so long that words are looked up among those met before.
  std::string text;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    text += some_text(seed) + random_bytes(seed, 300, 256);
  const Bpe bpe = train_bpe(text, {.vocabulary = 400});
  EXPECT_EQ(bpe.encode(text).to_vector<std::int32_t>(), encoded_by_merges(bpe, text));
}

TEST(Bpe, AnyBytesComeBack) {
  const Bpe bpe = train_bpe(some_text(1) + "größe größe 你好 你好", {.vocabulary = 500});
  const auto same = [&](const std::string& text) {
    const Tensor ids = bpe.encode(text);
    return bpe.decode(ids.data<std::int32_t>()) == text;
  };
  EXPECT_TRUE(same(""));
  EXPECT_TRUE(same("größe 你好\n"));
  EXPECT_TRUE(same(std::string("\0 \0\0", 4)));
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_TRUE(same(random_bytes(seed, 1 + 13 * seed, 256))) << seed;
    EXPECT_TRUE(same(random_bytes(seed, 1 + 13 * seed, 3))) << seed;
  }
  EXPECT_LT(bpe.encode("größe").size(), 4);
  EXPECT_NE(error_of([&] {
              bpe.decode(std::vector<std::int32_t>{3, bpe.size()});
            }).find("is no token's number"),
            std::string::npos);
  EXPECT_NE(error_of([&] { bpe.decode(std::vector<std::int32_t>{-1}); }).find("-1 is no token's"),
            std::string::npos);
}

TEST(Bpe, AFileGivesWhatItsTextGives) {
  std::string text;
  for (std::uint64_t seed = 0; text.size() < 700'000; ++seed) text += some_text(seed);
  const std::string path = test::temp_path("bpe.txt");
  write_file(path, text);
  const Bpe a = train_bpe(text, {.vocabulary = 600}), b = train_bpe_file(path, {.vocabulary = 600});
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(std::equal(a.merges().begin(), a.merges().end(), b.merges().begin()));
  std::filesystem::remove(path);
  EXPECT_THROW(train_bpe_file(path), FileError);
  EXPECT_THROW(train_bpe_file(testing::TempDir()), FileError);
}

// A text that is nothing but words met once.
TEST(Bpe, TrainsInTheMemoryItIsGiven) {
  const std::string text = random_bytes(3, 8 << 20, 256);
  const std::uint64_t before = ledger::total().live;
  ledger::reset_peak();
  const Bpe bpe = train_bpe(text, {.vocabulary = 2000, .memory = 8_MiB});
  EXPECT_LE(ledger::total().peak - before, 9u << 20);
  EXPECT_LE(ledger::total().live - before, 1u << 20);
  EXPECT_EQ(bpe.decode(bpe.encode(text.substr(0, 1000)).data<std::int32_t>()),
            text.substr(0, 1000));
}

TEST(Bpe, RunsOutOfMemoryAsAnErrorAndHoldsNothing) {
  const std::string text = some_text(5);
  const std::uint64_t before = ledger::total().live;
  bool trained = false;
  for (std::uint64_t n = 1; n < 1000 && !trained; ++n) {
    const memory::FailTake fail(n);
    try {
      train_bpe(text, {.vocabulary = 300});
      trained = !fail.fired();
    } catch (const OutOfMemory&) {
    }
    EXPECT_EQ(ledger::total().live, before) << n;
  }
  EXPECT_TRUE(trained);
}

TEST(Bpe, Mistakes) {
  EXPECT_NE(error_of([] { train_bpe("a", {.vocabulary = 255}); }).find("a vocabulary of 255"),
            std::string::npos);
  EXPECT_NE(error_of([] { train_bpe("a", {.vocabulary = 1 << 21}); }).find("expected 256"),
            std::string::npos);
  const auto error = [](const std::vector<Merge>& merges) {
    return error_of([&] { Bpe bpe(merges); });
  };
  EXPECT_EQ(error({{97, 98}, {256, 256}}), "no error");
  EXPECT_NE(
      error({{97, 256}}).find("token 256 is made of 97 and 256, expected two tokens before it"),
      std::string::npos);
  EXPECT_NE(error({{-1, 5}}).find("made of -1 and 5"), std::string::npos);
  EXPECT_NE(error({{97, 98}, {97, 98}}).find("tokens 256 and 257 are made of the same two"),
            std::string::npos);
  std::vector<Merge> doubling{{97, 97}};
  for (std::int32_t i = 256; i < 290; ++i) doubling.push_back({i, i});
  EXPECT_NE(error(doubling).find("token 262 has 128 bytes, expected at most 64"),
            std::string::npos);
}

}  // namespace
}  // namespace ebb::text
