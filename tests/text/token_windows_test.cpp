// Windows of tokens: those of the whole text, wherever they lie, in bounded memory.
#include "ebb/text/token_windows.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/rng.hpp"
#include "ebb/data/files/text.hpp"
#include "ebb/text/bpe.hpp"
#include "tests/error_of.hpp"
#include "tests/temp_path.hpp"

namespace ebb::text {
namespace {

using test::error_of;

class TokenWindows : public testing::Test {
 protected:
  TokenWindows() {
    for (std::uint64_t i = 0; text_.size() < 300'000; ++i) {
      const std::uint32_t bits = draw({1, 0}, 0, i);
      text_ += bits % 9 == 0 ? "\n" : " ";
      for (std::uint32_t k = 0; k < 2 + bits / 16 % 6; ++k)
        text_ += static_cast<char>('a' + draw({2, bits / 64 % 50}, 0, k) % 20);
    }
    write_file(path_, text_);
  }
  ~TokenWindows() override { std::filesystem::remove(path_); }

  void check(const data::Tokenizer& tokenizer, TokenWindowsOptions options) {
    const std::vector<std::int32_t> ids = tokenizer.encode(text_).to_vector<std::int32_t>();
    const std::int64_t stride = options.stride ? options.stride : options.window;
    for (const bool in_memory : {false, true}) {
      options.in_memory = in_memory;
      const Dataset windows = token_windows(path_, tokenizer, options);
      const auto length = static_cast<std::int64_t>(ids.size());
      ASSERT_EQ(windows.size(), (length - 1 - options.window) / stride + 1);
      const Batch all = windows.all();
      for (const auto& [name, offset] : {std::pair("input", 0), std::pair("target", 1)}) {
        const Tensor& x = all[name];
        ASSERT_EQ(x.spec(), (Spec{{windows.size(), options.window}, DType::i32}));
        for (std::int64_t row = 0; row < windows.size(); ++row)
          ASSERT_EQ(std::memcmp(x.rows(row, row + 1).raw(), ids.data() + row * stride + offset,
                                static_cast<std::size_t>(options.window) * 4),
                    0)
              << name << " " << row;
      }
    }
  }

  std::string path_ = test::temp_path("token_windows.txt");
  std::string text_;
};

TEST_F(TokenWindows, AreThoseOfTheWholeText) {
  const Bpe bpe = train_bpe(text_, {.vocabulary = 500});
  check(bpe, {.window = 64});
  check(bpe, {.window = 33, .stride = 50});
  check(bpe, {.window = 100, .stride = 7});
  check(data::Vocabulary(text_), {.window = 128});
}

TEST_F(TokenWindows, AreDealtOutAsAnyData) {
  const Bpe bpe = train_bpe(text_, {.vocabulary = 500});
  const Dataset file = token_windows(path_, bpe, {.window = 64}).shuffle(1).batch(16).prefetch(2);
  const Dataset memory =
      token_windows(path_, bpe, {.window = 64, .in_memory = true}).shuffle(1).batch(16);
  std::vector<Tensor> a, b;
  for (const Batch& batch : file.epochs(2)) a.push_back(batch["target"]);
  for (const Batch& batch : memory.epochs(2)) b.push_back(batch["target"]);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(std::memcmp(a[i].raw(), b[i].raw(), a[i].spec().bytes()), 0);
}

TEST_F(TokenWindows, HoldLittleWhereverTheTextIsLong) {
  const Bpe bpe = train_bpe(text_, {.vocabulary = 500});
  const std::uint64_t before = ledger::total().live;
  ledger::reset_peak();
  const Dataset windows = token_windows(path_, bpe, {.window = 64});
  EXPECT_LE(ledger::total().peak - before, 600u << 10);  // a piece of text and its tokens
  EXPECT_LE(ledger::total().live - before, 4096u);
}

TEST_F(TokenWindows, Mistakes) {
  const Bpe bpe({});
  const auto error = [&](const TokenWindowsOptions& o) {
    return error_of([&] { token_windows(path_, bpe, o); });
  };
  EXPECT_NE(error({.window = 0}).find("both must be at least 1"), std::string::npos);
  EXPECT_NE(error({.window = 4, .stride = -1}).find("a stride of -1"), std::string::npos);
  EXPECT_NE(error({.window = 1 << 20}).find("too few for a window of 1048576"), std::string::npos);
  EXPECT_NE(error({.folder = "/nowhere"}).find("/nowhere"), std::string::npos);
  EXPECT_NE(error_of([&] {
              token_windows(path_, data::Vocabulary("abc"));
            }).find("is not one of the 3 known"),
            std::string::npos);
  write_file(path_, std::string_view());
  EXPECT_NE(error({}).find("0 tokens are too few"), std::string::npos);
}

}  // namespace
}  // namespace ebb::text
