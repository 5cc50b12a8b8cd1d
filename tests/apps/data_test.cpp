// Data of every kind from a config, as a user has it: tables, texts, pictures; in one file or several.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/apps/command.hpp"
#include "tests/io/image/png_bytes.hpp"

namespace ebb::test {
namespace {

using Json = nlohmann::json;

constexpr char kSeldom[] = "[every]\nsave = \"never\"\neval = \"never\"\n";

class Data : public Commands {
 protected:
  // Trains with these lines of [data]; gives the weights.
  std::string weights(const std::string& name, const std::string& data,
                      const std::string& more = "") {
    put(name + ".toml", small_config("epochs = 3\n" + more, data) + kSeldom);
    const Ran ran = ebb({"train", name + ".toml", "-q"});
    EXPECT_EQ(ran.code, 0) << name << ": " << ran.err;
    return ran.code == 0 ? content("runs/" + name + "/model/model.safetensors") : "";
  }
  void trained(const std::string& name, const std::string& model, const std::string& data) {
    put(name + ".toml", "[model]\n" + model + "[data]\n" + data +
                            "[train]\nbatch = 8\nsteps = 4\n[memory]\nbudget = \"none\"\n" +
                            kSeldom);
    const Ran ran = ebb({"train", name + ".toml", "-q"});
    EXPECT_EQ(ran.code, 0) << name << ": " << ran.err;
  }
};

TEST_F(Data, tablesOfObjectsAreThoseOfCsv) {
  std::string csv = "area,town,note,price\n", lines, second;
  for (int i = 0; i < 120; ++i) {
    const std::string town = i % 3 == 0 ? "Ulm" : "Bonn";
    const bool missing = i % 10 == 4;
    csv +=
        fmt::format("{},{},\"a\nb\",{}\n", missing ? "" : std::to_string(50 + i), town, i * 0.05);
    (i < 70 ? lines : second) +=
        fmt::format("{{\"area\": {}, \"town\": \"{}\", \"note\": \"a\\nb\", \"price\": {}}}\n",
                    missing ? "null" : std::to_string(50 + i), town, i * 0.05);
  }
  put("t.csv", csv);
  put("t.jsonl", lines + second);
  put("parts/1.jsonl", lines);
  put("parts/2.jsonl", second);
  put("parts/.hidden", "?");
  constexpr char kColumns[] = "target = \"price\"\nignore = \"note\"\nmissing = \"mean\"\n";
  const std::string of_csv = weights("csv", std::string("path = \"t.csv\"\n") + kColumns);
  EXPECT_EQ(weights("jsonl", std::string("path = \"t.jsonl\"\n") + kColumns), of_csv);
  EXPECT_EQ(weights("folder", std::string("path = \"parts\"\nin_memory = false\n") + kColumns),
            of_csv);
  EXPECT_EQ(
      weights("list", std::string("path = [\"parts/1.jsonl\", \"parts/2.jsonl\"]\n") + kColumns),
      of_csv);

  put("new.jsonl", "{\"town\": \"Ulm\", \"area\": 90}\n{\"area\": 60}\n");  // no price
  const Ran ran = ebb({"predict", "runs/jsonl", "--data", "new.jsonl", "--out", "p.csv"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(content("p.csv").starts_with("prediction\n")) << content("p.csv");
  EXPECT_HAS(ebb({"eval", "runs/jsonl", "--data", "t.jsonl"}).out, "120 rows:");
  EXPECT_HAS(ebb({"eval", "runs/jsonl", "--data", "parts"}).out, "120 rows:");

  put("parts/3.jsonl", second);
  expect_line(ebb({"resume", "runs/folder", "--set", "train.epochs=4"}), 2, "data.path");
}

TEST_F(Data, textsOfObjects) {
  std::string stories, reviews;
  for (int i = 0; i < 60; ++i) {
    stories += fmt::format("{{\"id\": {}, \"text\": \"the cat sat on mat {}.\"}}\n", i, i % 4);
    reviews += fmt::format("{{\"words\": \"{}\", \"mood\": \"{}\"}}\n", i % 2 ? "good good" : "bad",
                           i % 2 ? "glad" : "sad");
  }
  put("s.jsonl", stories);
  put("r.jsonl", reviews);
  trained("s", "kind = \"gpt\"\nwidth = 16\nheads = 2\ndepth = 1\n",
          "path = \"s.jsonl\"\nwindow = 16\n");
  const Ran told = ebb({"generate", "runs/s", "--prompt", "the cat", "--tokens", "8"});
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_TRUE(told.out.starts_with("the cat")) << told.out;

  trained("r", "kind = \"encoder\"\nwidth = 16\nheads = 2\ndepth = 1\n",
          "path = \"r.jsonl\"\ntarget = \"mood\"\n");
  put("new.jsonl", "{\"words\": \"good\"}\n{\"words\": \"longer than all that it has seen\"}\n");
  const Ran ran = ebb({"predict", "runs/r", "--data", "new.jsonl", "--out", "p.csv"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_HAS(content("p.csv"), "lad,");
}

// A vocabulary is there before the text is read: by what was learnt, and by a file.
TEST_F(Data, textsOfObjectsAreReadWithAVocabulary) {
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += fmt::format("{{\"text\": \"the cat sat on mat {}\"}}\n", i);
  put("t.jsonl", lines);
  put("t.txt", lines);
  put("c.toml",
      "[model]\nkind = \"gpt\"\nwidth = 16\nheads = 2\ndepth = 1\n[data]\npath = \"t.jsonl\"\n"
      "window = 16\n[train]\nbatch = 8\nsteps = 4\n[memory]\nbudget = \"none\"\n");
  ASSERT_EQ(ebb({"train", "c.toml", "-q"}).code, 0);
  Ran ran = ebb({"eval", "runs/c", "--data", "t.jsonl"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_HAS(ran.out, "perplexity");
  ASSERT_EQ(ebb({"vocab", "t.txt", "--size", "300", "--out", "v.txt"}).code, 0);
  ran = ebb({"train", "c.toml", "-q", "--set", "data.vocabulary=v.txt", "--out", "runs/v"});
  EXPECT_EQ(ran.code, 0) << ran.err;
}

TEST_F(Data, severalTextsAreOne) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "the dog sat on the log. ";
  put("all.txt", text);
  put("t/a.txt", text.substr(0, 700));
  put("t/b.txt", text.substr(700));
  constexpr char kModel[] = "kind = \"lstm\"\nwidth = 8\ndepth = 1\n";
  trained("one", kModel, "path = \"all.txt\"\nwindow = 16\n");
  trained("more", kModel, "path = \"t\"\nwindow = 16\n");
  trained("file", kModel, "path = \"t\"\nwindow = 16\nin_memory = false\n");
  const std::string one = content("runs/one/model/model.safetensors");
  EXPECT_EQ(content("runs/more/model/model.safetensors"), one);
  EXPECT_EQ(content("runs/file/model/model.safetensors"), one);
}

TEST_F(Data, picturesByClassNeedNoFormat) {
  for (int i = 0; i < 8; ++i)
    for (const unsigned char value : {10, 220})
      put(fmt::format("p/{}/{}.png", value, i),
          png_of({.width = 6, .height = 6, .rows = std::vector<unsigned char>(36, value)}));
  put("p/readme.txt", "where they are from");
  weights("c", "path = \"p\"\nvalidation_fraction = 0\n");
  EXPECT_HAS(content("runs/c/config.toml"), "format = \"images\"");
  EXPECT_HAS(ebb({"eval", "runs/c", "--data", "p"}).out, "16 rows:");
}

TEST_F(Data, aPlanLooksAndKeepsNothing) {
  std::string csv = "a,y\n";
  for (int i = 0; i < 500; ++i) csv += fmt::format("{},{}\n", i, i % 7);
  put("t.csv", csv);
  for (const char* where : {"", "in_memory = false\n"}) {
    put("c.toml", small_config("", std::string("path = \"t.csv\"\ntarget = \"y\"\n") + where));
    const Ran ran = shell("EBB_CACHE=cache $EBB plan c.toml --memory none");
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_HAS(ran.out, "data looked through");
    EXPECT_EQ(files(), (std::vector<std::string>{"c.toml", "t.csv"}));
    const Json plan = Json::parse(ebb({"plan", "c.toml", "--memory", "none", "--json"}).out);
    EXPECT_EQ(plan["data_scanned"], csv.size());
    const std::uint64_t least = plan["smallest_budget"];
    EXPECT_EQ(ebb({"train", "c.toml", "-q", "--memory", fmt::format("{}B", least)}).code, 0);
    std::filesystem::remove_all(path("runs"));
    EXPECT_EQ(ebb({"train", "c.toml", "-q", "--memory", fmt::format("{}B", least - 1)}).code, 3);
  }
}

}  // namespace
}  // namespace ebb::test
