// Lists of numbers and of ids, of one length and of many, as a user has them in objects a line.
#include <fmt/format.h>

#include "tests/apps/command.hpp"

namespace ebb::test {
namespace {

class Lists : public Commands {
 protected:
  void config(const std::string& name, const std::string& model, const std::string& data) const {
    put(name + ".toml", "[model]\n" + model + "[data]\ninput = \"values\"\ntarget = \"y\"\n" +
                            data + "[train]\nbatch = 8\nepochs = 2\n[memory]\nbudget = \"none\"\n");
  }
  void trains(const std::string& name, const std::string& model, const std::string& data) {
    config(name, model, data);
    const Ran ran = ebb({"train", name + ".toml", "-q"});
    EXPECT_EQ(ran.code, 0) << name << ": " << ran.err;
  }
  // One long list among short ones: most batches have none of it.
  void put_series(const std::string& name, const char* element = "0.{}") const {
    std::string lines;
    for (int i = 0; i < 120; ++i) {
      std::string values;
      for (int k = 0; k < (i == 17 ? 12 : 3 + i % 4); ++k)
        values += (k ? ", " : "") + fmt::format(fmt::runtime(element), (i + k) % 9);
      lines += fmt::format("{{\"values\": [{}], \"y\": {}}}\n", values, 0.25 * (i % 9));
    }
    put(name, lines);
  }
};

constexpr char kLstm[] = "kind = \"lstm\"\nwidth = 8\ndepth = 1\n";
constexpr char kGru[] = "kind = \"gru\"\nwidth = 8\ndepth = 1\n";

TEST_F(Lists, OfDifferentLengthsAreLearntFrom) {
  put_series("s.jsonl");
  trains("lstm", kLstm, "path = \"s.jsonl\"\n");
  trains("gru", kGru, "path = \"s.jsonl\"\nvalidation_path = \"s.jsonl\"\n");
  trains("mlp", "kind = \"mlp\"\nhidden = [8]\n", "path = \"s.jsonl\"\n");
  trains("layers",
         "layers = [{kind = \"reshape\", shape = [12, 1]}, {kind = \"gru\", width = 4, take = "
         "\"last\"}, {kind = \"dense\"}]\n",
         "path = \"s.jsonl\"\n");
  for (const char* run : {"runs/lstm", "runs/mlp", "runs/layers"})
    EXPECT_HAS(ebb({"eval", run, "--data", "s.jsonl"}).out, "120 rows:");
  const Ran verified = ebb({"verify", "lstm.toml", "--steps", "4"});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;

  config("two", "kind = \"mlp\"\nhidden = [8]\n", "path = \"s.jsonl\"\nbuckets = [4, 12]\n");
  expect_line(ebb({"train", "two.toml"}), 2, "data.buckets has 2 lengths, and model.kind = mlp");
  config("short", kLstm, "path = \"s.jsonl\"\nbuckets = [4, 8]\n");
  expect_line(
      ebb({"train", "short.toml"}), 2,
      "s.jsonl: field \"values\" has a list of 12, longer than the last of data.buckets, 8");
  config("pairs", kLstm, "path = \"s.jsonl\"\nshape = [6, 2]\n");
  expect_line(ebb({"train", "pairs.toml"}), 2, "data.shape is (6, 2), and \"values\" holds lists");
}

// What is asked about may be one row, rows that happen to be of one length, longer than all, or empty.
TEST_F(Lists, OfOneLengthAreAskedAboutToo) {
  put_series("s.jsonl");
  trains("lstm", kLstm, "path = \"s.jsonl\"\n");
  put("q.jsonl", "{\"values\": [0.1, 0.2, 0.3, 0.4]}\n{\"values\": [0.4, 0.2, 0.3, 0.1]}\n");
  Ran ran = ebb({"predict", "runs/lstm", "--data", "q.jsonl", "--out", "q.csv"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_HAS(ran.out, "wrote q.csv: 2 rows");
  put("e.jsonl", "{\"values\": []}\n");
  ran = ebb({"predict", "runs/lstm", "--data", "e.jsonl", "--out", "e.csv"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(content("e.csv").find("nan"), std::string::npos) << content("e.csv");

  put("same.jsonl",
      "{\"values\": [1.5, 2], \"y\": 1.5}\n{\"values\": [2, 4], \"y\": 2}\n"
      "{\"values\": [2, 3], \"y\": 2}\n");
  trains("same", kLstm, "path = \"same.jsonl\"\nvalidation_fraction = 0\n");
  put("other.jsonl", "{\"values\": [1.5, 2]}\n{\"values\": [1]}\n");
  expect_line(ebb({"predict", "runs/same", "--data", "other.jsonl", "--out", "q.csv"}), 2,
              "other.jsonl: field \"values\" holds lists of different lengths, up to 2; expected "
              "lists of 2 numbers");
}

TEST_F(Lists, OfWholeNumbersAreIds) {
  put_series("ids.jsonl", "{}");
  trains("lstm", kLstm, "path = \"ids.jsonl\"\n");
  EXPECT_HAS(content("runs/lstm/model/reading.json"), "\"vocabulary\": 9");
  trains("encoder", "kind = \"encoder\"\nwidth = 8\nheads = 2\ndepth = 1\n",
         "path = \"ids.jsonl\"\n");
  put("q.jsonl", "{\"values\": [1, 2]}\n{\"values\": [3, 9]}\n");
  expect_line(ebb({"predict", "runs/lstm", "--data", "q.jsonl", "--out", "q.csv"}), 2,
              "q.jsonl: field \"values\" holds 9, and the model knows 0 to 8");
  put("e.jsonl", "{\"values\": []}\n");
  const Ran ran = ebb({"predict", "runs/encoder", "--data", "e.jsonl", "--out", "e.csv"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(content("e.csv").find("nan"), std::string::npos) << content("e.csv");

  // Numbers, where the task is said to be one of numbers, or where one is below 0.
  trains("said", "kind = \"mlp\"\nhidden = [8]\n", "path = \"ids.jsonl\"\ntask = \"regression\"\n");
  put_series("below.jsonl", "-{}");
  trains("below", kLstm, "path = \"below.jsonl\"\n");
  EXPECT_HAS(content("runs/below/model/reading.json"), "\"vocabulary\": 0");
}

}  // namespace
}  // namespace ebb::test
