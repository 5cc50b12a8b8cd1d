#include "ebb/io/text/csv.hpp"

#include <bit>
#include <cmath>
#include <vector>

#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/memory/memory.hpp"
#include "ebb/base/pool.hpp"
#include "tests/answers.hpp"
#include "tests/io/folder.hpp"
#include "tests/io/text/layout.hpp"
#include "tests/memory_refusals.hpp"

namespace ebb::io {
namespace {

using test::error_of;

class CsvTest : public test::InFolder {
 protected:
  CsvSchema schema(const std::string& content, const CsvOptions& options = {}) {
    return read_csv_schema(put("a.csv", content), options);
  }
  std::string refused(const std::string& content, const CsvOptions& options = {}) {
    const std::string line = error_of([&] { schema(content, options); });
    EXPECT_HAS(line, "a.csv\"");
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    return line;
  }
  // All rows, as they were found, numbers as such and categories by number.
  std::vector<float> rows(const CsvOptions& options = {}) {
    const CsvSchema s = read_csv_schema(path("a.csv"), options);
    const CsvLayout layout = test::layout_of(s, CsvPlace::As::id);
    std::vector<float> all;
    read_csv_rows(path("a.csv"), options, s, layout, [&](std::span<const std::uint32_t> words) {
      for (std::size_t i = 0; i < words.size(); ++i) {
        const bool id = s.columns[i % s.columns.size()].kind == ColumnKind::category;
        all.push_back(id ? static_cast<float>(words[i]) : std::bit_cast<float>(words[i]));
      }
    });
    return all;
  }
};

TEST_F(CsvTest, NumbersAndCategoriesAreTold) {
  const CsvSchema s = schema("a,b,c\n1,x,10\n2,y,9\n3,x,x\n");
  ASSERT_EQ(s.columns.size(), 3u);
  EXPECT_EQ(s.rows, 3);
  EXPECT_EQ(s.columns[0].kind, ColumnKind::number);
  EXPECT_DOUBLE_EQ(s.columns[0].mean, 2);
  EXPECT_DOUBLE_EQ(s.columns[0].deviation, std::sqrt(2.0 / 3));
  EXPECT_EQ(s.columns[0].least, 1);
  EXPECT_EQ(s.columns[0].largest, 3);
  EXPECT_EQ(s.columns[1].categories, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(s.columns[2].categories, (std::vector<std::string>{"10", "9", "x"}))
      << "text behind numbers makes categories of all";
  EXPECT_EQ(rows(), (std::vector<float>{1, 0, 0, 2, 1, 1, 3, 0, 2}));
  EXPECT_EQ(
      schema("k\n10\n9\n-1\n", {.kinds = {{"k", ColumnKind::category}}}).columns[0].categories,
      (std::vector<std::string>{"-1", "9", "10"}))
      << "in the order of numbers";
}

TEST_F(CsvTest, EveryWayToWriteATable) {
  const std::vector<float> expected{1, 2.5, -3, 4};
  const auto same = [&](const std::string& content, const CsvOptions& options = {}) {
    put("a.csv", content);
    EXPECT_EQ(rows(options), expected) << content;
  };
  same("a,b\n1,2.5\n-3,4\n");
  same("a,b\n1,2.5\n-3,4");
  same("a,b\r\n1,2.5\r\n-3,4\r\n");
  same(
      "\xef\xbb\xbf"
      "a,b\n1,2.5\n\n\r\n-3,4\n\n");
  same("\"a\",\"b\"\n\"1\",\"2.5\"\n -3 , +4 \n");
  same("a;b\n1;2.5\n-3;4\n", {.separator = ';'});
  same("a b\n1 2.5\n-3 4\n", {.separator = ' '});
  same("a\tb\n1\t2.5\n-3\t4e0\n", {.separator = '\t'});
  same("1,2.5\n-3,4\n", {.header = false});
  same("'a','b'\n'1',25e-1\n-3,4\n", {.quote = '\''});
  put("a.csv", test::gzipped("a,b\n1,2.5\n-3,4\n"));
  EXPECT_EQ(rows(), expected) << "packed";
  EXPECT_EQ(schema("1,2\n", {.header = false}).columns[1].name, "column2");
}

TEST_F(CsvTest, QuotesHoldSeparatorsNewlinesAndQuotes) {
  const CsvSchema s =
      schema("n,t\n1,\"a,b\"\n2,\"line\nbreak\"\n3,\"say \"\"so\"\"\"\n4,\"\"\"\"\n");
  EXPECT_EQ(s.rows, 4);
  EXPECT_EQ(s.columns[1].categories,
            (std::vector<std::string>{"\"", "a,b", "line\nbreak", "say \"so\""}));
  EXPECT_EQ(parse_csv_schema(to_string(s)), s);
}

TEST_F(CsvTest, MissingValuesAreCountedAndFilled) {
  const CsvSchema s = schema("a,b\n1,x\n,y\nNA,\n4,x\n");
  EXPECT_EQ(s.columns[0].missing, 2);
  EXPECT_EQ(s.columns[0].count, 2);
  EXPECT_DOUBLE_EQ(s.columns[0].mean, 2.5);
  EXPECT_EQ(s.columns[1].missing, 1);
  EXPECT_EQ(rows(), (std::vector<float>{1, 0, -1, 1, -1, 2, 4, 0})) << "behind the last category";
  const CsvLayout strict{{{CsvPlace::As::number, 0}, {}}, 1};
  EXPECT_HAS(error_of([&] { read_csv_rows(path("a.csv"), {}, s, strict, [](auto) {}); }),
             "line 3: column \"a\": a value is missing");
}

TEST_F(CsvTest, WhatIsWrongIsNamedByItsLine) {
  test::expect_parts(
      [&](const char* content) { return refused(content); },
      {
          {"", "it holds no record"},
          {"\n\n", "it holds no record"},
          {"a,b\n1,2\n1\n", "line 3: it has 1 field; expected 2"},
          {"a,b\n1,2\n1,2,3\n", "line 3: it has more than the 2 fields"},
          {"a,b\n\"1\n\n\",2\n1\n", "line 5: it has 1 field"},
          {"a,b\n1,2\n1,1e999\n", "line 3: column \"b\": a number beyond what f32 holds"},
          {"a,b\n1,2\n1,\"1e999\"\n", "line 3: column \"b\": a number beyond"},
          {"a,b\n1,2\n1,\xff\n", "line 3: byte 0xff is not UTF-8"},
          {"a,\xc0\x80\n1,2\n", "line 1: byte 0xc0 is not UTF-8"},
          {"a,b\n1,x\"y\n", "line 2: column \"b\": a quote inside a field"},
          {"a,b\n1,\"x\"y\n", "line 2: column \"b\": text behind a closing quote"},
          {"a,b\n1,2\n1,\"x\n", "line 3: column \"b\": a quote that is never closed"},
          {"a,a\n1,2\n", "two columns are called \"a\""},
      });
  EXPECT_HAS(refused(std::string("a,b\n1,2\n1,\0\n", 12)), "line 3: it holds a NUL byte");
  EXPECT_HAS(refused("a,b\n1,x\n", {.kinds = {{"b", ColumnKind::number}}}),
             "line 2: column \"b\": \"x\" is no number");
  EXPECT_HAS(refused("a,b\n1,x\n", {.kinds = {{"c", ColumnKind::number}}}),
             "a.csv\": it has no column \"c\"; it has \"a\", \"b\"");
  EXPECT_HAS(refused("price,b\n1,x\n", {.kinds = {{"Prcie", ColumnKind::ignored}}}),
             "no column \"Prcie\"; do you mean \"price\"? it has \"price\", \"b\"");
  std::string many = "c0";
  for (int i = 1; i < 100; ++i) many += ",c" + std::to_string(i);
  EXPECT_HAS(refused(many + "\n", {.kinds = {{"zzzzz", ColumnKind::ignored}}}),
             "\"c18\", \"c19\" and 80 more");
  EXPECT_HAS(refused("a\nu\nv\nw\n", {.most_categories = 2}), "more than 2 different texts");
  EXPECT_HAS(refused("a\n" + std::string(2000, 'x')), "a text of 2000 bytes");
  EXPECT_HAS(error_of([&] { schema("a\n", {.separator = '"'}); }), "separator and quote");
  EXPECT_HAS(error_of([&] { read_csv_schema(path("none")); }), "cannot open");
  EXPECT_HAS(error_of([&] { schema("a,b\n").index_of("c"); }), "there are \"a\", \"b\"");
}

TEST_F(CsvTest, ALineThatNeverEndsIsRefusedInLittleMemory) {
  const auto live = ledger::total().live;
  ledger::reset_peak();
  EXPECT_HAS(refused("a\n1\n" + std::string(3 << 20, '1')), "line 3: it is longer than 1 MiB");
  EXPECT_LT(ledger::total().peak - live, 8u << 20);
  EXPECT_HAS(refused("a,b\n1,\"" + std::string(3 << 20, '\n')),
             "line 2: it is longer than 1 MiB, or a quote in it is never closed");
  EXPECT_EQ(schema("a\n" + std::string(3 << 20, '0') + "\n", {.longest_line = 4_MiB}).rows, 1);
}

// Over many blocks, with every number of threads, the same to the bit.
TEST_F(CsvTest, BlocksAndThreadsChangeNothing) {
  std::string text = "n,quoted,kind\n";
  double sum = 0;
  for (int i = 0; i < 60'000; ++i) {
    text += std::to_string(i % 977) + ".25,\"" +
            std::string(static_cast<std::size_t>(i % 5), '\n') + "q\"," + (i % 3 ? "yes" : "no") +
            "\n";
    sum += i % 977 + 0.25;
  }
  put("a.csv", text);
  const int threads = pool::threads();
  std::vector<CsvSchema> schemas;
  std::vector<std::vector<float>> all;
  for (const int count : {1, 2, 3}) {
    pool::set_threads(count);
    schemas.push_back(read_csv_schema(path("a.csv")));
    all.push_back(rows());
  }
  pool::set_threads(threads);
  EXPECT_EQ(schemas[0], schemas[1]);
  EXPECT_EQ(schemas[0], schemas[2]);
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
  EXPECT_EQ(all[0].size(), 180'000u);
  EXPECT_EQ(schemas[0].rows, 60'000);
  EXPECT_NEAR(schemas[0].columns[0].mean, sum / 60'000, 1e-9);
  text += "1,x\n";
  EXPECT_HAS(refused(text), "line 180002: it has 2 fields") << "quoted newlines are lines, too";
}

TEST_F(CsvTest, EveryRefusalOfMemoryIsAnErrorAndLeavesNothing) {
  std::string text = "n,kind\n";
  for (int i = 0; i < 30'000; ++i) text += std::to_string(i) + ",k" + std::to_string(i % 7) + "\n";
  put("a.csv", text);
  EXPECT_GT(test::memory_refusals(200, [&] { (void)rows(); }), 3);
}

TEST_F(CsvTest, AnotherFileThanTheSchemaSaysIsRefused) {
  const CsvSchema s = schema("a,b\n1,x\n");
  const CsvLayout layout{{{CsvPlace::As::number, 0}, {CsvPlace::As::id, 1}}, 2};
  const auto read = [&](const std::string& content) {
    put("b.csv", content);
    return error_of([&] { read_csv_rows(path("b.csv"), {}, s, layout, [](auto) {}); });
  };
  EXPECT_EQ(read("a,b\n5,x\n"), "no error");
  test::expect_parts(read,
                     {
                         {"a,c\n5,x\n", "it has no column \"b\"; it has \"a\", \"c\""},
                         {"a\n5\n", "it has no column \"b\"; it has \"a\""},
                         {"a,b\n1e999,x\n", "line 2: column \"a\": a number beyond what f32"},
                         {"a,b\n5,z\n", "line 2: column \"b\": \"z\" is none of the 1 categories"},
                         {"a,b\nz,x\n", "line 2: column \"a\": \"z\" is no number"},
                     });
}

TEST_F(CsvTest, ColumnsAreFoundByTheirNames) {
  const CsvSchema s = schema("a,no,b\n1,2,x\n", {.kinds = {{"no", ColumnKind::ignored}}});
  const CsvLayout layout{{{CsvPlace::As::number, 0}, {}, {CsvPlace::As::id, 1}}, 2};
  std::vector<std::uint32_t> rows;
  const auto sink = [&](auto words) { rows.assign(words.begin(), words.end()); };
  put("b.csv", "b,more,a,\"too\"\nx,1e999,5,?\n");
  EXPECT_EQ(read_csv_rows(path("b.csv"), {}, s, layout, sink),
            (std::vector<std::string>{"more", "too"}));
  EXPECT_EQ(rows, (std::vector<std::uint32_t>{std::bit_cast<std::uint32_t>(5.0f), 0}));
  put("c.csv", "x,5\n");  // without names, by their places
  EXPECT_HAS(
      error_of([&] { (void)read_csv_rows(path("c.csv"), {.header = false}, s, layout, sink); }),
      "it has 2 columns; expected 3, since without a header");
}

TEST_F(CsvTest, TextAmongNumbersIsToldByItsLine) {
  std::string text = "a,b\n";
  for (int i = 2; i <= 60; ++i) text += i == 41 ? "12O,x\n" : i % 2 ? "1,7\n" : "2,x\n";
  const std::string file = put("a.csv", text);
  std::vector<CsvMixed> mixed;
  const CsvSchema s = read_csv_schema(std::span(&file, 1), {}, &mixed);
  EXPECT_EQ(s.columns[0].kind, ColumnKind::category);
  ASSERT_EQ(mixed.size(), 1u) << "b is text in half of its lines";
  EXPECT_EQ(mixed[0].column, 0u);
  EXPECT_EQ(mixed[0].numbers, 58);
  EXPECT_EQ(mixed[0].texts, 1);
  EXPECT_EQ(mixed[0].value, "12O");
  EXPECT_EQ(mixed[0].line, 41u);
  EXPECT_HAS(error_of([&] { schema(text, {.most_categories = 2}); }),
             "more than 2 different texts, of which all would be numbers but for 1 such as \"12O\" "
             "in line 41");
  EXPECT_HAS(error_of([&] {
               schema(text, {.kinds = {{"a", ColumnKind::number}}});
             }),
             "line 41: column \"a\": \"12O\" is no number");
}

TEST_F(CsvTest, SchemasThatAreNoneAreRefused) {
  const std::string good = to_string(schema("a,b\n1,x\n"));
  EXPECT_EQ(parse_csv_schema(good).columns.size(), 2u);
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_HAS(error_of([&] { parse_csv_schema(good.substr(0, n)); }), "csv schema: ") << n;
  for (const char* text :
       {"", "rows", "rows,x\n", "rows,-1\n", "rows,1\n", "rows,1,2\n", "rows,1,1\nodd,\"a\"\n",
        "rows,1,1\nnumber,\"a\",1,0,1,0,1,1,9999999999\n"})
    EXPECT_HAS(error_of([&] { parse_csv_schema(text); }), "csv schema: ") << text;
}

}  // namespace
}  // namespace ebb::io
