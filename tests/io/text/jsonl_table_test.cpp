// Objects a line as a table, by the same rules as those of csv.
#include "ebb/io/text/jsonl_table.hpp"

#include <bit>
#include <cmath>

#include "ebb/base/pool.hpp"
#include "tests/answers.hpp"
#include "tests/io/folder.hpp"
#include "tests/io/text/layout.hpp"

namespace ebb::io {
namespace {

using test::error_of;
using Floats = std::vector<float>;

class JsonlTableTest : public test::InFolder {
 protected:
  CsvSchema schema(const std::string& content, const CsvOptions& options = {}) {
    const std::string file = put("a.jsonl", content);
    return read_jsonl_columns(std::span(&file, 1), options);
  }
  std::string refused(const std::string& content, const CsvOptions& options = {}) {
    const std::string line = error_of([&] { schema(content, options); });
    EXPECT_HAS(line, "a.jsonl\"");
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    return line;
  }
  // Numbers as they are, categories by number; what is missing is -1.
  Floats rows(const CsvSchema& s, bool may_miss = true) {
    const CsvLayout layout = test::layout_of(s, CsvPlace::As::one_hot, may_miss);
    Floats all;
    read_jsonl_table(path("a.jsonl"), {}, s, layout, [&](std::span<const std::uint32_t> words) {
      for (const std::uint32_t w : words) all.push_back(std::bit_cast<float>(w));
    });
    return all;
  }
};

TEST_F(JsonlTableTest, ColumnsAreNumbersOrCategories) {
  const CsvSchema s = schema(
      "{\"a\": 1, \"c\": \"x\", \"new\": true, \"skip\": {\"deep\": 1}}\n"
      "{\"c\": \"y\", \"a\": 3.5, \"new\": false, \"skip\": []}\n\n"
      "{\"a\": null, \"new\": true, \"more\": 9}\n",
      {.kinds = {{"skip", ColumnKind::ignored}}});
  ASSERT_EQ(s.columns.size(), 5u);
  EXPECT_EQ(s.rows, 3);
  EXPECT_EQ(s.columns[0].count, 2);
  EXPECT_EQ(s.columns[0].missing, 1);
  EXPECT_EQ(s.columns[0].mean, 2.25);
  EXPECT_EQ(s.columns[0].largest, 3.5f);
  EXPECT_EQ(s.columns[1].kind, ColumnKind::category);
  EXPECT_EQ(s.columns[1].categories, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(s.columns[1].missing, 1);
  EXPECT_EQ(s.columns[2].kind, ColumnKind::number) << "true and false are 1 and 0";
  EXPECT_EQ(s.columns[3].kind, ColumnKind::ignored);
  EXPECT_EQ(parse_csv_schema(to_string(s)), s);
  EXPECT_EQ(s.columns[4].name, "more") << "which only the last line has";
  EXPECT_EQ(s.columns[4].missing, 2);
  EXPECT_EQ(rows(s), (Floats{1, 1, 0, 1, -1, 3.5f, 0, 1, 0, -1, -1, 0, 0, 1, 9}));
  EXPECT_HAS(error_of([&] { rows(s, false); }), "line 1: field \"more\": a value is missing");
}

TEST_F(JsonlTableTest, NumbersMayBeCategories) {
  const CsvSchema s = schema("{\"zip\": 20 , \"b\": 1}\n{\"zip\": 3, \"b\": 2}\n",
                             {.kinds = {{"zip", ColumnKind::category}}});
  EXPECT_EQ(s.columns[0].categories, (std::vector<std::string>{"3", "20"})) << "in their order";
  EXPECT_EQ(rows(s), (Floats{0, 1, 1, 1, 0, 2}));
}

TEST_F(JsonlTableTest, WhatIsNoTableIsRefusedByItsLine) {
  EXPECT_HAS(refused("{\"a\": 1}\n{\"a\": [1, 2]}\n"),
             "line 2: field \"a\": a list, which is no column of a table");
  EXPECT_HAS(refused("{\"a\": 1}\n{\"a\": \"x\"}\n"),
             "line 2: field \"a\" is a number in some lines");
  EXPECT_HAS(refused("{\"a\": 1}\n{\"a\": 1e999}\n"), "line 2: field \"a\": a number beyond");
  EXPECT_HAS(refused("{\"a\": 1}\n{\"a\": {}}\n"), "line 2: field \"a\"");
  EXPECT_HAS(refused("{\"a\": 1}\n[1]\n"), "line 2: it is no JSON object");
  EXPECT_HAS(refused("{\"a\": \"" + std::string(2000, 'x') + "\"}\n"), "a text of 2000 bytes");
  EXPECT_HAS(refused("{\"price\": 1, \"b\": 2}\n", {.kinds = {{"Prise", ColumnKind::category}}}),
             "it has no field \"Prise\"; do you mean \"price\"? it has \"price\", \"b\"");
  const CsvSchema s = schema("{\"a\": 1, \"c\": \"x\"}\n");
  put("a.jsonl", "{\"a\": 1, \"c\": \"z\"}\n");
  EXPECT_HAS(error_of([&] { rows(s); }), "line 1: field \"c\": \"z\" is none of the 1 categories");
}

TEST_F(JsonlTableTest, FieldsAreThoseOfAllLines) {
  std::string text;
  for (int i = 0; text.size() < (600u << 10); ++i)
    text +=
        i % 1000 ? "{\"a\": 1}\n" : "{\"k" + std::to_string(i / 1000 % 5) + "\": 1, \"a\": 2}\n";
  std::vector<std::string> names;
  for (const CsvColumn& c : schema(text).columns) names.push_back(c.name);
  EXPECT_EQ(names, (std::vector<std::string>{"k0", "a", "k1", "k2", "k3", "k4"}));
  std::string many = "{\"a\": 1}\n";
  for (int i = 0; i < 1200; ++i) many += "{\"f" + std::to_string(i) + "\": 1}\n";
  EXPECT_HAS(refused(many), "more than 1000 different fields");
}

TEST_F(JsonlTableTest, LinesOfOtherFieldsAreToldOrRefused) {
  const CsvSchema s = schema("{\"a\": 1, \"b\": 2}\n");
  const CsvLayout layout{
      {{CsvPlace::As::number, 0, 0, 1, true, -1}, {CsvPlace::As::number, 1, 0, 1, true, -1}}, 2};
  const auto read = [&](const std::string& content) {
    return read_jsonl_table(put("b.jsonl", content), {}, s, layout, [](auto) {});
  };
  EXPECT_EQ(read("{\"a\": 1, \"x\": {}}\n{\"b\": null, \"y\": [], \"x\": 1}\n"),
            (std::vector<std::string>{"x", "y"}));
  EXPECT_HAS(error_of([&] { read("{\"a\": 1}\n{\"completely\": \"other\"}\n"); }),
             "line 2: it has none of the fields that are read, such as \"a\"");
  EXPECT_HAS(error_of([&] { read("{\"a\": \"12O\"}\n"); }),
             "line 1: field \"a\": \"12O\" is text, and no number");
}

TEST_F(JsonlTableTest, MixedBlocksAreFoundOut) {
  std::string text;
  while (text.size() < (600u << 10)) text += "{\"a\": 1}\n";
  EXPECT_HAS(refused(text + "{\"a\": \"x\"}\n"),
             "is a number in some lines and a string in others");
}

TEST_F(JsonlTableTest, TheSameForAnyThreads) {
  std::string text;
  for (int i = 0; i < 60'000; ++i)
    text +=
        "{\"a\": " + std::to_string(std::sin(i)) + ", \"k\": \"" + std::to_string(i % 7) + "\"}\n";
  const int threads = pool::threads();
  pool::set_threads(1);
  const CsvSchema one = schema(text);
  const Floats alone = rows(one);
  pool::set_threads(4);
  EXPECT_EQ(schema(text), one);
  EXPECT_EQ(rows(one), alone);
  pool::set_threads(threads);
}

TEST_F(JsonlTableTest, SeveralFilesAreOneTable) {
  const std::vector<std::string> files = {put("1.jsonl", "{\"a\": 1, \"c\": \"x\"}\n"),
                                          put("2.jsonl", "{\"c\": \"y\", \"a\": 5}\n")};
  const CsvSchema s = read_jsonl_columns(files, {});
  EXPECT_EQ(s.rows, 2);
  EXPECT_EQ(s.columns[0].mean, 3);
  EXPECT_EQ(s.columns[1].categories, (std::vector<std::string>{"x", "y"}));
}

}  // namespace
}  // namespace ebb::io
