// The model/ of a run, carried somewhere else and asked there, gives what the run gives.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/apps/command.hpp"

namespace ebb::test {
namespace {

namespace fs = std::filesystem;

class ExportedModel : public Commands {
 protected:
  // The best checkpoint is that of the run's end: with `more`, what makes them differ.
  void train(const std::string& config) {
    put("c.toml", config);
    const Ran ran = ebb({"train", "c.toml", "--out", "r", "-q"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    fs::create_directory(path("far"));
    fs::copy(path("r/model"), path("far/away"), fs::copy_options::recursive);
  }
  // Behind its name.
  std::string said(std::vector<std::string> words) {
    const Ran ran = ebb(words);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out.substr(std::min(ran.out.find(':'), ran.out.size()));
  }
};

TEST_F(ExportedModel, ofATableItIsAskedAsTheRunIs) {
  std::string rows = "area,town,price\n";
  for (int i = 0; i < 120; ++i)
    rows += fmt::format("{},{},{}\n", 50 + i, i % 2 ? "Ulm" : "Bonn", 5 + i * 0.05 + (i % 2));
  put("t.csv", rows);
  // Averages are not the weights, and the best is not the last.
  train(small_config("lr = 0.05\nepochs = 6\nema = 0.9\n",
                     "path = \"t.csv\"\ntarget = \"price\"\nstandardise = true\n"));
  EXPECT_EQ(said({"eval", "far/away"}), said({"eval", "r"}));
  put("new.csv", "area,town\n100,Ulm\n200,Bonn\n");
  for (const char* from : {"r", "far/away"})
    said({"predict", from, "--data", "new.csv", "--out", fmt::format("{}.csv", from)});
  EXPECT_EQ(content("far/away.csv"), content("r.csv"));
  put("x.npy", npy({2, 3}, std::vector<float>{1, 0, 1, -1, 1, 0}));
  for (const char* from : {"r", "far/away"})
    said({"grad", from, "--data", "x.npy", "--out", fmt::format("{}.npy", from)});
  EXPECT_FALSE(content("r.npy").empty());
  EXPECT_EQ(content("far/away.npy"), content("r.npy"));

  fs::rename(path("t.csv"), path("gone.csv"));
  fs::remove_all(path("r"));
  expect_line(ebb({"eval", "far/away"}), 2, "name rows to measure by with --data");
  EXPECT_HAS(said({"eval", "far/away", "--data", "gone.csv"}), "120 rows:");
  const auto looked = nlohmann::json::parse(ebb({"inspect", "far/away", "--json"}).out);
  EXPECT_EQ(looked["checksums"], "verified");
  EXPECT_EQ(looked["reads"]["task"], "regression");

  std::string weights = content("far/away/model.safetensors");
  weights[weights.size() - 3] ^= 1;
  put("far/away/model.safetensors", weights);
  for (const auto& command :
       {std::vector<std::string>{"predict", "far/away", "--data", "new.csv", "--out", "z.csv"},
        {"inspect", "far/away"}})
    expect_line(ebb(command), 2, "the file is damaged");
}

TEST_F(ExportedModel, ofALanguageItWrites) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += i % 3 ? "the cat sat on the mat. " : "the dog sat.\n";
  put("t.txt", text);
  train(
      "[model]\nkind = \"gpt\"\nwidth = 16\ndepth = 1\nheads = 2\n[data]\npath = \"t.txt\"\n"
      "window = 16\n[train]\nbatch = 8\nsteps = 6\n[memory]\nbudget = \"none\"\n");
  fs::remove(path("t.txt"));
  const Ran run = ebb({"generate", "r", "--prompt", "the ", "--tokens", "30"});
  const Ran model = ebb({"generate", "far/away", "--prompt", "the ", "--tokens", "30"});
  EXPECT_EQ(model.code, 0) << model.err;
  EXPECT_EQ(model.out, run.out);
  fs::remove(path("far/away/reading.json"));
  expect_line(ebb({"generate", "far/away"}), 2, "no run, no checkpoint and no model");
}

}  // namespace
}  // namespace ebb::test
