#include "ebb/io/text/jsonl.hpp"

#include <bit>
#include <vector>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/pool.hpp"
#include "tests/answers.hpp"
#include "tests/io/folder.hpp"
#include "tests/memory_refusals.hpp"

namespace ebb::io {
namespace {

using test::error_of;

class JsonlTest : public test::InFolder {
 protected:
  JsonlSchema schema(const std::string& content, const JsonlOptions& options = {}) {
    return read_jsonl_schema(put("a.jsonl", content), options);
  }
  std::string refused(const std::string& content, const JsonlOptions& options = {}) {
    const std::string line = error_of([&] { schema(content, options); });
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    return line;
  }
  struct All {
    std::vector<std::uint32_t> words;
    std::vector<std::string> lists;
    bool operator==(const All&) const = default;
  };
  All rows(const JsonlOptions& options = {}) {
    const JsonlSchema s = read_jsonl_schema(path("a.jsonl"), options);
    All all;
    read_jsonl_rows(path("a.jsonl"), options, s, [&](const JsonlRows& rows) {
      all.words.insert(all.words.end(), rows.words.begin(), rows.words.end());
      all.lists.resize(rows.lists.size());
      for (std::size_t i = 0; i < rows.lists.size(); ++i)
        all.lists[i].append(reinterpret_cast<const char*>(rows.lists[i].data()),
                            rows.lists[i].size());
    });
    return all;
  }
};

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST_F(JsonlTest, FieldsAreWhatTheyHold) {
  const JsonlSchema s = schema(
      "{\"x\": [0.5, -1], \"n\": 3, \"f\": 1.5, \"k\": \"cat\", \"ids\": [1, 2, 3]}\n"
      "{\"ids\":[],\"k\":\"ant\",\"x\":[2,3e0],\"f\":2,\"n\":-4}\n");
  ASSERT_EQ(s.fields.size(), 5u);
  EXPECT_EQ(s.rows, 2);
  EXPECT_EQ(s.fields[0], (JsonlField{"x", JsonKind::number, true, false, 2}));
  EXPECT_EQ(s.fields[1], (JsonlField{"n", JsonKind::integer, false, false, 1, 0, {}, -4, 3}));
  EXPECT_EQ(s.fields[2], (JsonlField{"f", JsonKind::number}));
  EXPECT_EQ(s.fields[3], (JsonlField{"k", JsonKind::label, false, false, 1, 0, {"ant", "cat"}}));
  EXPECT_EQ(s.fields[4], (JsonlField{"ids", JsonKind::integer, true, true, 3, 3, {}, 1, 3}));
  EXPECT_EQ(parse_jsonl_schema(to_string(s)), s);
  const All all = rows();
  EXPECT_EQ(all.words, (std::vector<std::uint32_t>{bits(0.5f), bits(-1), 3, bits(1.5f), 1, 3,  //
                                                   bits(2), bits(3), 0xfffffffc, bits(2), 0, 0}));
  EXPECT_EQ(all.lists, (std::vector<std::string>{std::string("\1\0\0\0\2\0\0\0\3\0\0\0", 12)}));
}

TEST_F(JsonlTest, KindsCanBeSaid) {
  const std::string text =
      "{\"t\": \"h\\u00e9\\n\", \"n\": 1, \"ids\": [4], \"odd\": null}\n\n"
      "  {\"t\": \"\", \"n\": 2, \"ids\": [5], \"odd\": {\"a\": [1]}}";
  const JsonlOptions options{.kinds = {{"t", JsonKind::text},
                                       {"n", JsonKind::number},
                                       {"ids", JsonKind::tokens},
                                       {"odd", JsonKind::ignored}}};
  const JsonlSchema s = schema(text, options);
  ASSERT_EQ(s.fields.size(), 3u);
  EXPECT_EQ(s.fields[0], (JsonlField{"t", JsonKind::text, true, true, 4, 4}));
  const All all = rows(options);
  EXPECT_EQ(all.words, (std::vector<std::uint32_t>{4, bits(1), 1, 0, bits(2), 1}));
  EXPECT_EQ(all.lists[0], "h\xc3\xa9\n");
  EXPECT_EQ(schema(text, {.fields = {"n"}}).fields.size(), 1u);
  put("a.jsonl", test::gzipped(text));
  EXPECT_EQ(rows(options), all) << "packed";
}

TEST_F(JsonlTest, WhatIsWrongIsNamedByItsLine) {
  const std::string good = "{\"a\": 1, \"b\": [1, 2], \"c\": \"x\"}\n";
  const auto second = [&](const std::string& line) { return refused(good + line + "\n" + good); };
  EXPECT_HAS(refused(""), "it holds no object");
  EXPECT_HAS(refused("\n \r\n"), "it holds no object");
  EXPECT_HAS(refused("[1, 2]\n"), "line 1: it is no JSON object");
  test::expect_parts(
      second,
      {
          {"{\"a\": 1, \"b\": [1, 2]}", "line 2: field \"c\": it is not there"},
          {"{\"a\": 1, \"a\": 2, \"b\": [1, 2], \"c\": \"x\"}",
           "line 2: field \"a\": it is there twice"},
          {"{\"a\": 1e999, \"b\": [1, 2], \"c\": \"x\"}", "line 2: field \"a\": a number beyond"},
          {"{\"a\": null, \"b\": [1, 2], \"c\": \"x\"}", "line 2: field \"a\": \"null\"; expected"},
          {"{\"a\": [1], \"b\": [1, 2], \"c\": \"x\"}", "line 2: field \"a\" is something else"},
          {"{\"a\": 1, \"b\": [1, [2]], \"c\": \"x\"}", "line 2: field \"b\": \"[\" is no number"},
      });
  for (const char* list :
       {"[1, 2", "[1 2]", "[1,, 2]", "[1, 2,]", "[,1]", "[1, 2}", "[1, +2]", "[1, 02]", "[1, .5]",
        "[1, 2x]", "[1, 1e999]", "[1, -]", "[1, \"2\"]", "[1, null]", "[1,"})
    EXPECT_HAS(second(std::string("{\"a\": 1, \"b\": ") + list + ", \"c\": \"x\"}"), "line 2: ");
  EXPECT_HAS(second("{\"a\": 1, \"c\": \"x\", \"b\": [1,"), "line 2: ")
      << "the next line is none of it";
  EXPECT_HAS(second("{\"a\": 01, \"b\": [1, 2], \"c\": \"x\"}"),
             "line 2: field \"a\": \"01\" is no number");
  EXPECT_HAS(second("{\"a\": 1x, \"b\": [1, 2], \"c\": \"x\"}"), "line 2: ");
  EXPECT_HAS(second("{\"a\": 1, \"b\": [1, 2], \"c\": \"x\"} {}"),
             "line 2: something follows its object");
  EXPECT_HAS(second("{\"a\": 1, \"b\": [1, 2], \"c\": \"x\""), "line 2: it is no JSON object");
  EXPECT_HAS(second("{\"a\": 1, \"b\": [1, 2], \"c\": \"\xff\"}"),
             "line 2: it is no JSON object (The input is not valid UTF-8");
  EXPECT_HAS(second(std::string("{\"a\": 1, \"b\": [1, 2], \"c\": \"\0\"}", 32)),
             "line 2: it is no JSON object");
  EXPECT_HAS(second("{\"a\": 1, \"b\": [1, 2], \"c\": \"" + std::string(2000, 'c') + "\"}"),
             "a string of 2000 bytes");
  EXPECT_HAS(refused(good, {.kinds = {{"c", JsonKind::number}}}),
             "was said to be number, and holds strings");
  EXPECT_HAS(refused("{\"a\": 1.5}", {.kinds = {{"a", JsonKind::integer}}}), "not whole");
  EXPECT_HAS(refused(good, {.kinds = {{"d", JsonKind::text}}}),
             "a.jsonl\": it has no field \"d\"; it has \"a\", \"b\", \"c\"");
  EXPECT_HAS(refused(good + "{\"a\": 1, \"b\": [], \"c\": \"y\"}", {.most_classes = 1}),
             "more than 1 different strings");
  const std::string deep = "{\"a\": " + std::string(100'000, '[') + "\n";
  EXPECT_HAS(refused(deep, {.fields = {"b"}}), "line 1: ");
  EXPECT_HAS(refused(deep, {.fields = {"a"}}), "line 1: ");
}

TEST_F(JsonlTest, ALineThatNeverEndsIsRefusedInLittleMemory) {
  const auto live = ledger::total().live;
  ledger::reset_peak();
  EXPECT_HAS(refused("{\"a\": 1}\n{\"a\": \"" + std::string(3 << 20, 'x')),
             "line 2: it is longer than 1 MiB");
  EXPECT_LT(ledger::total().peak - live, 8u << 20);
}

TEST_F(JsonlTest, BlocksAndThreadsChangeNothing) {
  std::string text;
  for (int i = 0; i < 30'000; ++i) {
    text += "{\"x\": [" + std::to_string(i) + ".5, 1], \"ids\": [";
    for (int k = 0; k < i % 7; ++k) text += (k ? "," : "") + std::to_string(k * i);
    text += "], \"k\": \"c" + std::to_string(i % 4) + "\"}\n";
  }
  put("a.jsonl", text);
  const int threads = pool::threads();
  std::vector<All> all;
  for (const int count : {1, 2, 3}) {
    pool::set_threads(count);
    all.push_back(rows());
  }
  pool::set_threads(threads);
  EXPECT_EQ(all[0].words.size(), 30'000u * 4);
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
  EXPECT_HAS(refused(text + "{}\n"), "line 30001: field \"x\"");
}

TEST_F(JsonlTest, EveryRefusalOfMemoryIsAnErrorAndLeavesNothing) {
  std::string text;
  for (int i = 0; i < 5000; ++i)
    text += "{\"x\": [1, 2, 3], \"k\": \"c\", \"t\": [" + std::string(i % 2, '1') + "]}\n";
  put("a.jsonl", text);
  EXPECT_GT(test::memory_refusals(200, [&] { (void)rows(); }), 5);
}

}  // namespace
}  // namespace ebb::io
