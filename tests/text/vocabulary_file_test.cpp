// Files of vocabularies: what is saved comes back, and nothing else is read.
#include "ebb/text/vocabulary_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory_faults.hpp"
#include "ebb/text/bpe.hpp"
#include "tests/error_of.hpp"
#include "tests/temp_path.hpp"

namespace ebb::text {
namespace {

using test::error_of;

std::string path_of(const char* name) { return test::temp_path(name); }

std::string error(const std::string& text) {
  return error_of([&] { parse_vocabulary(text, "v.txt"); });
}
#define EXPECT_ERROR(text, part) EXPECT_NE(error(text).find(part), std::string::npos) << error(text)

Bpe some_bpe() {
  return train_bpe("the cat \"sat\" \\ on\tthe\tmat\n\n\n größe größe the cat the\n\n\n", {});
}

TEST(VocabularyFile, ComesBackAsItWasSaved) {
  const std::string path = path_of("vocabulary_file_test.txt");
  const Bpe bpe = some_bpe();
  ASSERT_GT(bpe.size(), 260);
  save_vocabulary(bpe, path);
  const auto back = load_vocabulary(path);
  const auto& same = dynamic_cast<const Bpe&>(*back);
  EXPECT_TRUE(std::equal(bpe.merges().begin(), bpe.merges().end(), same.merges().begin(),
                         same.merges().end()));

  const data::Vocabulary bytes("hello, \"world\"\n\\\xC3\xA4");
  save_vocabulary(bytes, path);
  EXPECT_EQ(dynamic_cast<const data::Vocabulary&>(*load_vocabulary(path)).characters(),
            bytes.characters());
  save_vocabulary(data::Vocabulary(""), path);
  EXPECT_EQ(load_vocabulary(path)->size(), 0);
  save_vocabulary(Bpe({}), path);
  EXPECT_EQ(load_vocabulary(path)->size(), 256);
  std::filesystem::remove(path);
  EXPECT_NE(error_of([&] { load_vocabulary(path); }).find("cannot open"), std::string::npos);
}

TEST(VocabularyFile, ReadsAsTheHeaderSays) {
  const std::vector<Merge> merges{{32, 116}, {104, 101}, {256, 257}};
  EXPECT_EQ(vocabulary_text(Bpe(merges)),
            "ebb vocabulary 1\nbpe 259\n256 = 32 116 \" t\"\n257 = 104 101 \"he\"\n258 = 256 257 "
            "\" the\"\n");
  EXPECT_EQ(vocabulary_text(data::Vocabulary("b\na\"\xFF")),
            "ebb vocabulary 1\nbytes 5\n0 = 10 \"\\n\"\n1 = 34 \"\\\"\"\n2 = 97 \"a\"\n3 = 98 "
            "\"b\"\n4 = 255 "
            "\"\\xff\"\n");
}

TEST(VocabularyFile, RefusesWhatIsNone) {
  EXPECT_ERROR("", "vocabulary \"v.txt\", line 1: the file ends before");
  EXPECT_ERROR("hello\n", "line 1: found \"hello\", expected \"ebb vocabulary 1\"");
  EXPECT_ERROR("ebb vocabulary 2\n", "line 1");
  EXPECT_ERROR("ebb vocabulary 1", "the last line does not end");
  EXPECT_ERROR("ebb vocabulary 1\nbpe\n", "a vocabulary of 0 tokens, expected 256 to");
  EXPECT_ERROR("ebb vocabulary 1\nbpe 99999999999999999999\n", "a vocabulary of 0 tokens");
  EXPECT_ERROR("ebb vocabulary 1\nbpe 1048577\n", "a vocabulary of 1048577 tokens");
  EXPECT_ERROR("ebb vocabulary 1\nbpe -5\n", "a vocabulary of -5 tokens");
  EXPECT_ERROR("ebb vocabulary 1\nwords 5\n", "line 2: found \"words\", expected bpe or bytes");
  EXPECT_ERROR("ebb vocabulary 1\nbpe 0256\n", "line 2: found \"bpe 0256\", expected \"bpe 256\"");
  EXPECT_ERROR("ebb vocabulary 1\nbpe 256\nx\n", "line 3: there is more than the tokens");
  const std::string head = "ebb vocabulary 1\nbpe 257\n";
  EXPECT_ERROR(head, "line 3: the file ends before all tokens are there");
  EXPECT_ERROR(head + "256 = 97 256 \"a\"\n",
               "token 256 is made of 97 and 256, expected two tokens before it");
  EXPECT_ERROR(head + "256 = -97 9 \"a\"\n", "made of -97 and 9");
  EXPECT_ERROR(head + "256 = 97 98 \"ac\"\n", "found \"256 = 97 98 \\\"ac\\\"\", expected");
  EXPECT_ERROR(head + "256 = 97  98 \"ab\"\n", "expected");
  EXPECT_ERROR(head + "257 = 97 98 \"ab\"\n", "expected \"256 = 97 98");
  EXPECT_ERROR(head + "256 = 97 98 \"ab\" \n", "expected");
  EXPECT_ERROR(head + "256 = 97 98 \"ab\"\r\n", "found \"256 = 97 98 \\\"ab\\\"\\x0d\"");
  EXPECT_ERROR(head + std::string(100000, 'x') + "\n", "line 3: found \"xxx");
  EXPECT_LT(error(head + std::string(100000, 'x') + "\n").size(), 400u);
  EXPECT_ERROR("ebb vocabulary 1\nbpe 258\n256 = 97 98 \"ab\"\n257 = 97 98 \"ab\"\n",
               "vocabulary \"v.txt\": vocabulary: tokens 256 and 257 are made of the same two");
  const std::string bytes = "ebb vocabulary 1\nbytes 2\n";
  EXPECT_ERROR(bytes + "0 = 97 \"a\"\n1 = 97 \"a\"\n",
               "token 1 is the byte 97, expected 98 to 255");
  EXPECT_ERROR(bytes + "0 = 256 \"a\"\n", "the byte 256");
  EXPECT_ERROR("ebb vocabulary 1\nbytes 257\n", "a vocabulary of 257 tokens, expected 0 to 256");
}

// Each token twice the one before: 2^60 bytes in some dozens of lines.
TEST(VocabularyFile, DoesNotGrowBeyondWhatAWordCanHold) {
  std::string text = "ebb vocabulary 1\nbpe 320\n", piece = "a";
  for (int id = 256; id < 320; ++id) {
    piece += piece.size() < 1000 ? piece : "";
    const int part = id == 256 ? 97 : id - 1;
    text += std::to_string(id) + " = " + std::to_string(part) + " " + std::to_string(part) + " \"" +
            piece + "\"\n";
  }
  EXPECT_ERROR(text, "line 9: token 262 has 128 bytes, expected at most 64");
}

TEST(VocabularyFile, EveryFlippedBitAndEveryCutIsSeen) {
  const std::string text = vocabulary_text(some_bpe());
  for (std::size_t end = 0; end < text.size(); ++end)
    EXPECT_NE(error(text.substr(0, end)), "no error") << end;
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = text;
      other[i] = static_cast<char>(other[i] ^ 1 << bit);
      accepted += error(other) == "no error";
    }
  EXPECT_EQ(accepted, 0u);
}

TEST(VocabularyFile, ALargeFileIsRefusedBeforeItIsRead) {
  const std::string path = path_of("vocabulary_large_test.txt");
  File::create(path).truncate(std::uint64_t{1} << 40);
  EXPECT_NE(error_of([&] { load_vocabulary(path); }).find("is it a vocabulary?"),
            std::string::npos);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ebb::text
