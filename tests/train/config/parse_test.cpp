// What a config says becomes what Config holds, and back.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "ebb/base/files/file.hpp"
#include "ebb/train/config/config.hpp"
#include "ebb/train/config/keys.hpp"
#include "ebb/train/config/templates.hpp"
#include "tests/error_of.hpp"

namespace ebb::train {
namespace {

const char* const kSmall = "[model]\nkind = \"mlp\"\n[data]\nformat = \"digits\"\n";

Config small(const std::string& more = "") { return parse_config(kSmall + more, "t.toml"); }

TEST(Config, defaults_are_those_of_the_struct) {
  Config plain;
  plain.data.format = DataFormat::digits;
  EXPECT_EQ(small(), plain);
}

// The smallest config in which a key counts, with that key.
std::string config_with(const ConfigKey& k) {
  std::map<std::string, std::map<std::string, std::string>> set;
  set["model"]["kind"] = "\"mlp\"";
  set["data"]["format"] = "\"digits\"";
  const auto comma = k.only.find(',');
  const auto equals = k.only.find(" = ");
  const std::string first =
      equals == std::string::npos ? "" : k.only.substr(equals + 3, comma - equals - 3);
  const bool truth = first == "true";
  std::string owner = k.only.substr(0, equals);
  if (k.only == "a format that is read from files") owner = "format";
  std::string value = owner == "format" && first.empty() ? "text" : first;
  if (k.section == "model.layers") {
    const std::string kind = value.empty() ? "relu" : value;
    const std::string line = k.name == "kind" ? "kind = " + k.example
                             : k.name == "shape"
                                 ? fmt::format("kind = \"reshape\", shape = {}", k.example)
                                 : fmt::format("kind = \"{}\", {} = {}", kind, k.name, k.example);
    set["model"] = {{"layers", "[{ " + line + " }]"}};
  } else if (k.section == "train.groups") {
    set["train"]["groups"] = k.name == "names"
                                 ? "[{ names = " + k.example + " }]"
                                 : fmt::format("[{{ names = \"*\", {} = {} }}]", k.name, k.example);
  } else {
    if (equals != std::string::npos || owner == "format")
      set[k.section][owner] = truth ? "true" : "\"" + value + "\"";
    set[k.section][k.name] = k.example;
  }
  const std::string kind = set["model"]["kind"];
  if (kind == "\"layers\"") set["model"].erase("kind");
  if (set["model"]["kind"].empty()) set["model"].erase("kind");
  if (kind == "\"gpt\"") set["data"]["format"] = "\"text\"";
  const std::string format = set["data"]["format"];
  if (format == "\"text\"" && kind != "\"gpt\"") set["model"] = {{"kind", "\"gpt\""}};
  if (format != "\"digits\"" && format != "\"sequences\"")
    set["data"].insert({"path", "\"a.bin\""});
  if (format == "\"csv\"" || format == "\"jsonl\"") set["data"].insert({"target", "\"y\""});
  if (k.name == "nesterov") set["train"]["momentum"] = "0.9";
  if (k.name == "validation_target_path") set["data"]["target_path"] = "\"b.bin\"";
  if (k.name == "micro_batch") set["train"]["batch"] = "64";
  if (k.name == "task") set["train"]["loss"] = "\"mse\"";
  std::string text;
  for (const auto& [section, lines] : set) {
    text += "[" + section + "]\n";
    for (const auto& [name, v] : lines) text += name + " = " + v + "\n";
  }
  return text;
}

TEST(Config, every_key_is_read_and_written) {
  int checked = 0;
  for (const ConfigKey& k : keys()) {
    SCOPED_TRACE(k.full() + "\n" + config_with(k));
    Config c;
    ASSERT_NO_THROW(c = parse_config(config_with(k), "t.toml"))
        << test::error_of([&] { parse_config(config_with(k), "t.toml"); });
    const std::string text = to_toml(c);
    EXPECT_NE(text.find(k.name + " = "), std::string::npos) << text;
    EXPECT_EQ(parse_config(text), c) << text;
    EXPECT_NO_THROW(check(c));
    EXPECT_FALSE(k.doc.empty() || k.example.empty() || k.expected.empty());
    EXPECT_EQ(k.doc.find('\n'), std::string::npos);
    ++checked;
  }
  EXPECT_GT(checked, 120);
}

TEST(Config, templates_say_the_same_when_they_are_written_again) {
  for (const Template& t : templates()) {
    const Config c = parse_config(t.text(), t.name);
    EXPECT_EQ(parse_config(to_toml(c)), c) << t.name;
    EXPECT_NO_THROW(check(c));
  }
}

TEST(Config, values_as_people_write_them) {
  const Config c = small(
      "[train]\nbatch = 1_000\nepochs = \"2_000\"\nlr = 1\n"
      "[memory]\nbudget = \"1.5GiB\"\n"
      "[every]\nlog = 20\neval = \"2 epochs\"\nsave = \"1.5h\"\nsample = \"never\"\n");
  EXPECT_EQ(c.train.batch, 1000);
  EXPECT_EQ(c.train.epochs, 2000);
  EXPECT_EQ(c.train.lr, 1.0);
  EXPECT_EQ(c.memory.budget, (BudgetConfig{BudgetConfig::Kind::bytes, 3ull << 29}));
  EXPECT_EQ(c.every.log, Period::steps(20));
  EXPECT_EQ(c.every.eval, Period::epochs(2));
  EXPECT_EQ(c.every.save, Period::seconds(5400));
  EXPECT_EQ(c.every.sample, Period::never());
  EXPECT_EQ(small("[train]\nbatch = 1e3\n").train.batch, 1000);
}

TEST(Config, where_rows_are_is_a_word_or_left_to_the_budget) {
  const auto read = [](const std::string& value) {
    return parse_config(
        "[model]\nkind = 'mlp'\n[data]\nformat = 'csv'\npath = 'a'\ntarget = 'y'\n" +
        (value.empty() ? "" : "in_memory = " + value + "\n"));
  };
  EXPECT_EQ(read("").data.in_memory, InMemory::automatic);
  for (const auto& [text, place] : {std::pair{"\"auto\"", InMemory::automatic},
                                    {"true", InMemory::yes},
                                    {"false", InMemory::no}}) {
    EXPECT_EQ(read(text).data.in_memory, place);
    EXPECT_NE(to_toml(read(text)).find(std::string("in_memory = ") + text + "\n"),
              std::string::npos);
  }
  for (const char* text : {"\"yes\"", "1", "[]"})
    EXPECT_NE(test::error_of([&] { read(text); }).find("data.in_memory is " + std::string(text)),
              std::string::npos)
        << test::error_of([&] { read(text); });
}

TEST(Config, periods_read_back) {
  for (const char* text : {"1 step", "100 steps", "1 epoch", "7 epochs", "10min", "36h", "90s",
                           "0.25s", "never", "61s", "1min"}) {
    const auto p = parse_period(text);
    ASSERT_TRUE(p) << text;
    EXPECT_EQ(to_string(*p), text);
  }
  EXPECT_EQ(parse_period("1 hour"), Period::seconds(3600));
  EXPECT_EQ(parse_period("500ms"), Period::seconds(0.5));
  for (const char* text :
       {"", "min", "-1s", "0", "1.5 epochs", "3 weeks", "1e3s", "10 10", "1..5s", "nan"})
    EXPECT_FALSE(parse_period(text)) << text;
}

TEST(Config, a_list_of_layers_is_a_kind) {
  const Config c = parse_config(
      "[model]\nlayers = [{ kind = \"conv\", out = 8 }, { kind = \"flatten\" }, { kind = \"dense\" "
      "}]\n"
      "[data]\nformat = \"digits\"\nshape = [28, 28, 1]\n");
  EXPECT_EQ(c.model.kind, ModelKind::layers);
  ASSERT_EQ(c.model.layers.size(), 3u);
  EXPECT_EQ(c.model.layers[0].out, 8);
  EXPECT_EQ(c.model.layers[2].out, std::nullopt);
  const Config same = parse_config(
      "[[model.layers]]\nkind = \"conv\"\nout = 8\n[[model.layers]]\nkind = \"flatten\"\n"
      "[[model.layers]]\nkind = \"dense\"\n[data]\nformat = \"digits\"\nshape = [28, 28, 1]\n");
  EXPECT_EQ(c, same);
}

TEST(Config, formats_are_told_by_the_ending) {
  const auto format = [](const char* path) {
    return parse_config(
               fmt::format("[model]\nkind=\"lstm\"\n[data]\npath=\"{}\"\n{}", path,
                           std::string(path).find("sv") != std::string::npos ? "target=\"y\"" : ""))
        .data;
  };
  EXPECT_EQ(format("a.csv").format, DataFormat::csv);
  EXPECT_EQ(format("a.tsv").separator, "\t");
  EXPECT_EQ(format("d/train-images-idx3-ubyte.gz").format, DataFormat::idx);
  EXPECT_EQ(format("a.jsonl").format, DataFormat::jsonl);
  EXPECT_EQ(format("book.txt").format, DataFormat::text);
  EXPECT_EQ(format("w.safetensors").format, DataFormat::safetensors);
}

TEST(Config, overrides_count_last) {
  const Config c = parse_config(
      std::string(kSmall) + "[train]\nepochs = 5\nlr = 0.1\n", "t.toml",
      {"train.lr=0.25", "train.steps=100", "output.directory=2024", "memory.budget=64MiB",
       "model.hidden=[8, 4]", "train.metrics=accuracy", "train.lr=0.5"});
  EXPECT_EQ(c.train.lr, 0.5);
  EXPECT_EQ(c.train.steps, 100);  // and not five epochs
  EXPECT_EQ(c.output.directory, "2024");
  EXPECT_EQ(c.memory.budget.bytes, 64u << 20);
  EXPECT_EQ(c.model.hidden, (std::vector<std::int64_t>{8, 4}));
  EXPECT_EQ(c.train.metrics, std::vector<std::string>{"accuracy"});
}

TEST(Config, paths_are_relative_to_the_file) {
  const auto folder = std::filesystem::temp_directory_path() / "ebb_config_test";
  std::filesystem::create_directories(folder);
  write_file(
      (folder / "c.toml").string(),
      std::string_view("[model]\nkind = \"lstm\"\n[data]\npath = [\"data/a.txt\", \"/b.txt\"]\n"));
  const Config c = load_config((folder / "c.toml").string());
  EXPECT_EQ(c.data.path, (std::vector<std::string>{(folder / "data/a.txt").string(), "/b.txt"}));
  const Config here = load_config((folder / "c.toml").string(), {"data.path=x.txt"});
  EXPECT_EQ(here.data.path[0], (std::filesystem::current_path() / "x.txt").string());
  EXPECT_EQ(parse_config(to_toml(c)), c);
  std::filesystem::remove_all(folder);
}

TEST(Config, texts_with_anything_in_them_read_back) {
  Config c = small();
  c.output.prompt = "\"a\\b\"\n\t\x01\x7f ünï ' # = [";
  c.train.lr = 0.1 + 0.2;
  c.train.huber_delta = 1;
  EXPECT_EQ(parse_config(to_toml(c)), c);
  const char* const quotes = "[output]\nprompt = \"\"\"é [[[ \"\"\"\"\"  # ü\ndirectory = 'ö'\n";
  EXPECT_EQ(small(quotes).output.prompt, "é [[[ \"\"");
  EXPECT_EQ(parse_config(std::string("\xEF\xBB\xBF") + kSmall), small());
  c.model.width = 77;  // of an mlp
  EXPECT_NE(test::error_of([&] { check(c); }), "no error");
}

}  // namespace
}  // namespace ebb::train
