// Tables with the slips that real ones have: what is refused, what is only told, and what is no matter.
#include <fmt/format.h>

#include "tests/apps/command.hpp"

namespace ebb::test {
namespace {

class Tables : public Commands {
 protected:
  // 100 rows of id, area, rooms, town, price; line 50 holds this in place of the area and of the price.
  static std::string csv(const std::string& area = "", const std::string& price = "") {
    std::string text = "id,area,rooms,town,price\n";
    for (int i = 2; i <= 101; ++i) {
      const bool odd = i == 50;
      text += fmt::format(
          "{},{},{},{},{}\n", i, odd && !area.empty() ? area : fmt::format("{}", 40 + i), i % 5,
          i % 2 ? "Ulm" : "Bonn", odd && !price.empty() ? price : fmt::format("{}.5", 2 * i));
    }
    return text;
  }
  void config(const std::string& file, const std::string& more = "") const {
    put("c.toml", small_config("", "path = \"" + file + "\"\ntarget = \"price\"\n" + more));
  }
  Ran predict(const std::string& file) {
    return ebb({"predict", "runs/c", "--data", file, "--out", "p.csv"});
  }
};

TEST_F(Tables, ATypoIsToldByItsLine) {
  put("t.csv", csv("12O"));
  config("t.csv");
  constexpr char kNote[] =
      "column \"area\": 99 of 100 values are numbers, and line 50 holds \"12O\", so that it is "
      "read "
      "as 100 categories; mend it, or set data.categorical = [\"area\"]";
  for (const char* command : {"plan", "train"}) {
    const Ran ran = ebb({command, "c.toml"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_HAS(ran.err, kNote);
    EXPECT_TRUE(ran.err.starts_with("ebb: note: ")) << ran.err;
  }
  // Also where the rows are kept from an earlier run.
  for (int i = 0; i < 2; ++i)
    EXPECT_HAS(shell("EBB_CACHE=cache $EBB train c.toml -q --set data.in_memory=false").err, kNote);
  EXPECT_EQ(ebb({"train", "c.toml", "-q", "--set", "data.categorical=area"}).err, "");
  put("t.csv", csv("inf"));
  EXPECT_HAS(ebb({"plan", "c.toml"}).err, "line 50 holds \"inf\"");
}

TEST_F(Tables, ATypoInWhatIsToBePredictedIsRefused) {
  put("t.csv", csv("", "12O"));
  config("t.csv");
  expect_line(
      ebb({"train", "c.toml"}), 2,
      "t.csv\", line 50: column \"price\": \"12O\" is no number, as 99 of the 100 values to "
      "predict are; mend it, or set data.task = \"classification\"");
  expect_line(ebb({"train", "c.toml", "--set", "data.task=regression"}), 2,
              "t.csv\", line 50: column \"price\": \"12O\" is no number");
  EXPECT_EQ(ebb({"train", "c.toml", "-q", "--set", "data.task=classification"}).code, 0);
}

TEST_F(Tables, ColumnsAreFoundByTheirNames) {
  put("t.csv", csv());
  config("t.csv", "ignore = [\"id\"]\n");
  ASSERT_EQ(ebb({"train", "c.toml", "-q"}).code, 0);
  put("whole.csv", "id,area,rooms,town,price\n1,80,3,Ulm,1\n");
  ASSERT_EQ(predict("whole.csv").code, 0);
  const std::string answer = content("p.csv");
  put("other.csv", "town,rooms,area\nUlm,3,80\n");  // another order, neither id nor price
  Ran ran = predict("other.csv");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(content("p.csv"), answer);
  put("more.csv", "town,mood,rooms,area\nUlm,\"so,\nso\",3,80\n");
  ran = predict("more.csv");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(
      ran.err,
      "ebb: note: more.csv: the model has not learnt from column \"mood\", which is left out\n");
  EXPECT_EQ(content("p.csv"), answer);
  EXPECT_EQ(ebb({"eval", "runs/c", "--data", "whole.csv"}).code, 0);

  put("less.csv", "town,romos,area\nUlm,3,80\n");
  expect_line(predict("less.csv"), 2,
              "less.csv\": it has no column \"rooms\"; do you mean \"romos\"?");
  put("large.csv", "id,area,rooms,town,price\n1,80,1e999,Ulm,1\n");
  expect_line(predict("large.csv"), 2, "line 2: column \"rooms\": a number beyond what f32 holds");
  put("empty.csv", "area,rooms,town\n");
  expect_line(predict("empty.csv"), 2, "empty.csv: there are no rows");
  expect_line(ebb({"eval", "runs/c", "--data", "other.csv"}), 2, "it has no targets");
}

// Without a header a column is its place; the target may be missing, wherever it was.
TEST_F(Tables, WithoutAHeaderColumnsAreFoundByTheirPlaces) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += fmt::format("{}.5,{},{}\n", i, i % 7, 3 * i);
  put("t.csv", text);
  put("c.toml", small_config("", "path = \"t.csv\"\ntarget = \"column1\"\nheader = false\n"));
  ASSERT_EQ(ebb({"train", "c.toml", "-q"}).code, 0);
  put("whole.csv", "9.5,2,27\n");
  put("asked.csv", "2,27\n");
  ASSERT_EQ(predict("whole.csv").code, 0);
  const std::string answer = content("p.csv");
  const Ran ran = predict("asked.csv");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(content("p.csv"), answer);
  put("wide.csv", "2,27,3,4\n");
  expect_line(predict("wide.csv"), 2, "it has 4 columns; expected 3");
}

TEST_F(Tables, FieldsAreThoseOfAllLines) {
  std::string forth, back;
  for (int i = 0; i < 60; ++i) {
    const std::string town = i % 2 ? ", \"town\": \"Ulm\"" : i % 4 ? ", \"town\": \"Bonn\"" : "";
    const std::string line = fmt::format("{{\"rooms\": {}{}, \"price\": {}}}\n", i % 5, town, i);
    forth += line;
    back = line + back;
  }
  put("t.jsonl", forth);
  config("t.jsonl", "missing = \"mean\"\n");
  ASSERT_EQ(ebb({"train", "c.toml", "-q"}).code, 0);
  EXPECT_HAS(content("runs/c/model/reading.json"), "town");
  EXPECT_EQ(ebb({"train", "c.toml", "-q", "--set", "data.ignore=town", "--out", "i"}).code, 0);
  // The only input of the first line is a text, and still it is a table.
  put("t.jsonl", "{\"town\": \"Ulm\", \"price\": 3}\n" + back);
  EXPECT_EQ(ebb({"train", "c.toml", "-q", "--out", "t"}).code, 0);
  EXPECT_HAS(content("t/model/reading.json"), "rooms");

  put("n.jsonl", "{\"completely\": \"other\"}\n");
  expect_line(predict("n.jsonl"), 2, "n.jsonl\", line 1: it has none of the fields that are read");
  put("n.jsonl",
      "{\"rooms\": 3, \"mood\": \"other\"}\n{\"rooms\": 2, \"town\": null, \"day\": 1}\n");
  const Ran ran = predict("n.jsonl");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err,
            "ebb: note: n.jsonl: the model has not learnt from fields \"mood\", \"day\", which are "
            "left out\n");
}

}  // namespace
}  // namespace ebb::test
