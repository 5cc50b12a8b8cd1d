// A manifest is read back as it was, and one that is not as it should be is refused.
#include "ebb/train/checkpoint/manifest.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "ebb/train/checkpoint/xxh3.hpp"
#include "tests/error_of.hpp"

namespace ebb::train {
namespace {

using ebb::test::error_of;

Manifest example() {
  Manifest m;
  m.info = {.step = 1200,
            .epoch = 3,
            .position = "epoch=3 batch=17",
            .metric = "loss",
            .value = 0.1,
            .best = -1e-300,
            .extra = {{"config", "a = \"b\"\n\tc\\d \x01 \xc3\xa9"}, {"", "empty key"}}};
  m.written = (std::int64_t{1} << 62) - 1;
  m.seed = std::numeric_limits<std::uint64_t>::max();
  m.draw = 2;
  m.files = {{kModelName,
              100,
              0x0123456789abcdefu,
              {{"a", {{}, DType::f32}, 1}, {"b\"", {{0, 3}, DType::bf16}, 2}}},
             {kStateName, 8, 0, {}}};
  return m;
}

// With another text in place of `from`, and the checksum that belongs to it.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_json(example());
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  text.replace(at, from.size(), to);
  text.resize(text.size() - 20);
  return text + digits(xxh3(text)) + "\"\n}\n";
}

TEST(ManifestTest, IsReadBackAsItWas) {
  EXPECT_EQ(parse_manifest(to_json(example())), example());
  Manifest plain = example();
  plain.info = {};
  EXPECT_EQ(parse_manifest(to_json(plain)), plain);
  EXPECT_EQ(parse_manifest(changed("0.1", "7")).info.value, 7);
}

TEST(ManifestTest, WhatIsNotAsItShouldBeIsRefused) {
  const struct {
    const char *from, *to, *says;
  } cases[] = {
      {"\"format\": 1", "\"format\": 2", "format 2, and this Ebb reads 1"},
      {"\"format\": 1,", "", "does not begin with its format"},
      {"\"step\": 1200,", "", "it has no \"step\""},
      {"\"step\": 1200", "\"step\": -1", "a number with a sign"},
      {"\"step\": 1200", "\"step\": 1.5", "a number with a sign or a fraction"},
      {"\"step\": 1200", "\"step\": 4611686018427387904", "too large"},
      {"\"step\": 1200", "\"step\": 1e999", "no JSON"},
      {"\"step\": 1200", "\"step\": \"1200\"", "text"},
      {"\"step\": 1200", "\"step\": null", "null"},
      {"\"step\": 1200", "\"step\": true", "true or false"},
      {"\"step\": 1200", "\"step\": [1200]", "a list"},
      {"\"step\": 1200", "\"step\": {}", "an object"},
      {"\"step\": 1200", "\"step\": 1, \"step\": 1200", "it has two \"step\""},
      {"\"step\": 1200", "\"step\": 1200, \"more\": 1", "\"more\", which means nothing"},
      {"\"step\": 1200", "\"step\": 1200, \"|\": 1", "which means nothing"},
      {"\"step\": 1200", "\"step\": 1200, \"\": {}", "which means nothing"},
      {"\"draw\": 2", "\"draw\": 2, \"draw\": 2", "it has two \"draw\""},
      {"\"config\"", "\"config\": \"x\", \"config\"", "it has two \"config\""},
      {"\"extra\": {", "\"extra\": {\"deep\": {},", "an object"},
      {"\"extra\": {", "\"extra\": {\"deep\": 3,", "a number"},
      {kModelName, "../model.safetensors", "does not list model.safetensors"},
      {kModelName, "/etc/passwd", "does not list model.safetensors"},
      {kModelName, "state.safetensors", "does not list model.safetensors"},
      {"0123456789abcdef", "0123456789ABCDEF", "sixteen digits"},
      {"0123456789abcdef", "0123", "sixteen digits"},
      {"0123456789abcdef", "", "without digits"},
      {"\"F32\"", "\"F8\"", "dtype \"F8\""},
      {"[0, 3]", "[1, 2, 3, 4, 5, 6, 7, 8, 9]", "too many axes"},
      {"[0, 3]", "[4611686018427387904, 4]", ""},
      {"[0, 3]", "[[0]]", "a list"},
      {"\"b\\\"\"", "\"a\"", "two tensors a"},
      {"\"b\\\"\"", "\"a\\nb\"", "tensor a?b has a control character"},
      {"\"F32\"", "\"F\\n8\"", "dtype \"F?8\""},
      {"loss", "\xff", "no JSON"},
      {"\"files\": [", "\"files\": [[[[[[", "a list"},
  };
  for (const auto& c : cases) {
    const std::string error = error_of([&] { parse_manifest(changed(c.from, c.to)); });
    EXPECT_NE(error, "no error") << c.to;
    EXPECT_NE(error.find(c.says), std::string::npos) << c.to << ": " << error;
    EXPECT_EQ(error.find('\n'), error.npos) << error;
  }
}

TEST(ManifestTest, DepthAndLengthAreNothingToFear) {
  const std::string deep = changed("\"step\": 1200", "\"step\": " + std::string(1'000'000, '['));
  EXPECT_NE(error_of([&] { parse_manifest(deep); }).find("a list"), std::string::npos);
  const std::string longer = changed("loss", std::string(Manifest::kMaxBytes, 'x'));
  EXPECT_NE(error_of([&] { parse_manifest(longer); }).find("no manifest has more than"),
            std::string::npos);
}

TEST(ManifestTest, TextThatIsNoUtf8IsNotWritten) {
  Manifest m = example();
  m.info.extra["config"] = "caf\xe9";
  EXPECT_NE(error_of([&] { to_json(m); }).find("UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace ebb::train
