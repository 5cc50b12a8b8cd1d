// Every command, run as a user would.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/apps/command.hpp"
#include "tests/io/image/png_bytes.hpp"

namespace ebb::test {
namespace {

using Json = nlohmann::json;

constexpr char kText[] =
    "[model]\nkind = \"gpt\"\nwidth = 16\ndepth = 1\nheads = 2\n[data]\npath = \"t.txt\"\n"
    "window = 16\n[train]\nbatch = 8\nsteps = 6\n[memory]\nbudget = \"none\"\n";

std::string tale() {
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += i % 3 ? "the cat sat on the mat. " : "the dog sat on the log.\n";
  return text;
}

TEST_F(Commands, initWritesConfigsThatResolve) {
  const Ran list = ebb({"init", "--list"});
  EXPECT_EQ(list.code, 0);
  const Json all = Json::parse(ebb({"init", "--list", "--json"}).out);
  ASSERT_EQ(all.size(), 6u);
  for (const Json& t : all) {
    const auto name = t["name"].get<std::string>();
    EXPECT_HAS(list.out, name);
    const Ran made = ebb({"init", name, "first"});
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_HAS(made.out, "next: ebb train first/" + name + ".toml");
    EXPECT_EQ(ebb({"init", name, "first"}).code, 0) << "the same again is no harm";
    const Ran shown = ebb({"config", "show", "first/" + name + ".toml", "--memory", "48MiB"});
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_HAS(shown.out, "budget = \"48 MiB\"");
  }
  put("first/mlp.toml", "mine");
  EXPECT_EQ(ebb({"init", "mlp", "first"}).code, 2);
  EXPECT_EQ(content("first/mlp.toml"), "mine");
  EXPECT_EQ(ebb({"init", "mlp", "first", "--force", "--quiet"}).out, "");
  EXPECT_NE(content("first/mlp.toml"), "mine");
  EXPECT_HAS(ebb({"config", "keys"}).out, "learning rate");
  const Ran some = ebb({"config", "keys", "lr"});
  EXPECT_HAS(some.out, "train.lr_floor");
  EXPECT_EQ(some.out.find("model.kind"), std::string::npos);
  expect_line(ebb({"config", "keys", "btach"}), 2, "train.batch");
}

TEST_F(Commands, planSaysWhetherItFitsAndRunsNothing) {
  put("c.toml", small_config());
  const Ran plain = ebb({"plan", "c.toml", "--memory", "64MiB", "--svg", "f.svg"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  for (const char* part :
       {"fits in 64 MiB", "smallest budget", "parameters", "time a step", "time of the run"})
    EXPECT_HAS(plain.out, part);
  EXPECT_TRUE(content("f.svg").starts_with("<svg xmlns"));
  EXPECT_HAS(content("f.svg"), "budget 64 MiB");
  EXPECT_EQ(files(), (std::vector<std::string>{"c.toml", "f.svg"}));
  const Json plan = Json::parse(ebb({"plan", "c.toml", "--memory", "64MiB", "--json"}).out);
  EXPECT_TRUE(plan["fits"]);
  EXPECT_EQ(plan["steps"], 6);
  EXPECT_GT(plan["run_seconds"], 0);
  const std::uint64_t least = plan["smallest_budget"];
  const Ran refused =
      ebb({"plan", "c.toml", "--memory", std::to_string(least / 2), "--json", "--svg", "g.svg"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_FALSE(Json::parse(refused.out)["fits"]);
  EXPECT_FALSE(Json::parse(refused.out)["frontier"].empty());
  EXPECT_HAS(content("g.svg"), "is too small");
  put("plan.json", plan.dump());
  EXPECT_HAS(ebb({"inspect", "plan.json"}).out, "smallest budget");
}

TEST_F(Commands, aBudgetBeyondTheMachineIsSaid) {
  put("c.toml", small_config());
  const Ran ran = ebb({"plan", "c.toml", "--memory", "900TiB"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_HAS(ran.err, "note: the budget of 900 TiB is more than the ");
  EXPECT_EQ(ebb({"plan", "c.toml", "--memory", "64MiB"}).err, "");
  // What auto takes is named, also where it is too small.
  const Ran refused = ebb(
      {"plan", "c.toml", "--memory", "auto", "--set", "model.hidden=[3000000, 3000000]", "--json"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_GT(Json::parse(refused.out)["budget"], 1 << 20);
  EXPECT_EQ(refused.err.find("budget of 0 B"), std::string::npos);
}

TEST_F(Commands, aRunIsTrainedResumedEvaluatedInspected) {
  put("c.toml", small_config());
  const Ran train = ebb({"train", "c.toml", "--memory", "64MiB"});
  EXPECT_EQ(train.code, 0) << train.err;
  EXPECT_TRUE(train.out.starts_with("fits in 64 MiB")) << "the plan comes first";
  EXPECT_HAS(train.out, "model: runs/c/model");
  EXPECT_EQ((train.out + train.err).find('\033'), std::string::npos) << "no colours in a file";
  for (const char* name : {"config.toml", "plan.txt", "plan.json", "metrics.jsonl", "metrics.csv",
                           "log.txt", "model/model.safetensors", "model/config.toml"})
    EXPECT_TRUE(std::filesystem::exists(path(std::string("runs/c/") + name))) << name;
  const Ran again = ebb({"train", "c.toml", "-q"});
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out + again.err, "");
  EXPECT_TRUE(std::filesystem::exists(path("runs/c-2/model"))) << "a run is not written over";
  expect_line(ebb({"train", "c.toml", "--out", "runs/c"}), 2, "it holds a run already");

  const Ran longer = ebb({"resume", "runs/c", "--memory", "32MiB", "--set", "train.steps=9"});
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_HAS(longer.out, "step 9,");
  expect_line(ebb({"resume", "runs/c", "--set", "train.lr=3"}), 2, "runs/c");

  EXPECT_HAS(ebb({"eval", "runs/c"}).out, "accuracy");
  EXPECT_HAS(ebb({"eval", "c.toml"}).out, "runs/c-2: step 6");
  const Json figures = Json::parse(ebb({"eval", "runs/c", "--last", "--json"}).out);
  EXPECT_EQ(figures["step"], 9);
  EXPECT_GT(figures["figures"]["loss"], 0);
  expect_line(ebb({"eval", "runs/c", "--data", "c.toml"}), 2, "leave --data out");

  EXPECT_HAS(ebb({"inspect", "runs/c"}).out, "every checksum is right");
  const Json run = Json::parse(ebb({"inspect", "runs/c", "--json", "--digest"}).out);
  EXPECT_EQ(run["best"]["checksums"], "verified");
  EXPECT_EQ(run["best"]["model"]["sha256"].get<std::string>().size(), 64u);
  const Ran model = ebb({"inspect", "runs/c/model"});
  for (const char* part : {"layers.0.weight", "its checksum is right", "step: ", "classes 10"})
    EXPECT_HAS(model.out, part);
  EXPECT_HAS(ebb({"inspect", "runs/c/plan.json"}).out, "smallest budget");
}

TEST_F(Commands, aDamagedCheckpointIsNamedAndNothingIsTaken) {
  put("c.toml", small_config());
  ASSERT_EQ(ebb({"train", "c.toml", "-q"}).code, 0);
  const std::string folder = Json::parse(ebb({"inspect", "runs/c", "--json"}).out)["best"]["path"];
  const std::string file = folder + "/model.safetensors";
  std::string bytes = content(file);
  bytes[bytes.size() - 3] ^= 1;
  put(file, bytes);
  put("x.npy", npy({1, 784}, std::vector<float>(784)));
  expect_line(ebb({"inspect", "runs/c"}), 2, "model.safetensors");
  expect_line(ebb({"predict", "runs/c", "--data", "x.npy", "--out", "y.npy"}), 2,
              "model.safetensors");
  expect_line(ebb({"eval", "runs/c"}), 2, "model.safetensors");
  expect_line(ebb({"resume", "runs/c", "--set", "train.steps=9", "-q"}), 2, "model.safetensors");
  EXPECT_FALSE(std::filesystem::exists(path("y.npy")));
}

TEST_F(Commands, everyCheckpointOfARunIsLookedThrough) {
  put("c.toml", small_config());
  ASSERT_EQ(
      ebb({"train", "c.toml", "-q", "--set", "every.save=1", "--set", "output.keep_last=2"}).code,
      0);
  const Json run = Json::parse(ebb({"inspect", "runs/c", "--json"}).out);
  const Json& all = run["checkpoints"];
  ASSERT_GE(all.size(), 2u);
  const std::string shown = run[run.contains("best") ? "best" : "last"]["path"];
  const std::string other = all[all[0]["path"] == shown ? 1 : 0]["path"];
  std::string bytes = content(other + "/state.safetensors");
  bytes[bytes.size() - 3] ^= 1;
  put(other + "/state.safetensors", bytes);
  const Ran ran = ebb({"inspect", "runs/c"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_HAS(ran.out, other + "  DAMAGED: ");
  EXPECT_HAS(ran.out, shown + "  every checksum is right");
  EXPECT_HAS(ran.err, "state.safetensors");
}

TEST_F(Commands, predictReadsTablesAsTheyWereLearnt) {
  std::string rows = "area,town,price\n", classes = "a,b,kind\n";
  for (int i = 0; i < 200; ++i) {
    rows += fmt::format("{},{},{}\n", 50 + i, i % 2 ? "Ulm" : "Bonn", 5 + i * 0.05 + (i % 2));
    classes += fmt::format("{},{},{}\n", i % 7, i % 5, i % 7 > 3 ? "\"big, really\"" : "small");
  }
  put("houses.csv", rows);
  put("kinds.csv", classes);
  const std::string seldom = "[every]\nsave = \"never\"\neval = \"never\"\n";
  put("h.toml",
      small_config("lr = 0.02\nepochs = 40\n", "path = \"houses.csv\"\ntarget = \"price\"\n") +
          seldom);
  put("k.toml",
      small_config("lr = 0.05\nepochs = 30\n", "path = \"kinds.csv\"\ntarget = \"kind\"\n") +
          seldom);
  ASSERT_EQ(ebb({"train", "h.toml", "-q"}).code, 0);
  ASSERT_EQ(ebb({"train", "k.toml", "-q"}).code, 0);
  put("new.csv", "area,town\n100,Ulm\n200,Bonn\n");  // no price
  const Ran prices = ebb({"predict", "runs/h", "--data", "new.csv", "--out", "p.csv"});
  EXPECT_EQ(prices.code, 0) << prices.err;
  std::istringstream lines(content("p.csv"));
  std::string head;
  double first = 0, second = 0;
  lines >> head >> first >> second;
  EXPECT_EQ(head, "prediction");
  EXPECT_NEAR(first, 5 + 50 * 0.05 + 1, 1.5);
  EXPECT_NEAR(second, 5 + 150 * 0.05, 1.5);
  EXPECT_EQ(
      ebb({"predict", "runs/h", "--data", "new.csv", "--out", "p.npy", "--memory", "32MiB"}).code,
      0);
  EXPECT_NEAR(floats_of(content("p.npy")).at(0), first, 1e-4);
  EXPECT_HAS(ebb({"eval", "runs/h", "--data", "houses.csv"}).out, "200 rows:");
  expect_line(ebb({"eval", "runs/h", "--data", "new.csv"}), 2, "no targets");

  put("new2.csv", "a,b\n6,1\n0,1\n");
  EXPECT_EQ(ebb({"predict", "runs/k", "--data", "new2.csv", "--out", "k.csv", "-q"}).out, "");
  EXPECT_TRUE(content("k.csv").starts_with("class,share\n\"big, really\",")) << content("k.csv");
  EXPECT_HAS(content("k.csv"), "\nsmall,");
  put("ragged.csv", "a,b\n6\n");
  const std::string kept = content("k.csv");
  expect_line(ebb({"predict", "runs/k", "--data", "ragged.csv", "--out", "k.csv"}), 2,
              "ragged.csv\", line 2");
  EXPECT_EQ(content("k.csv"), kept) << "what was there stays";
}

TEST_F(Commands, predictTakesPicturesAndNamesThem) {
  const auto picture = [](unsigned char value) {
    return png_of({.width = 6, .height = 6, .rows = std::vector<unsigned char>(36, value)});
  };
  for (int i = 0; i < 8; ++i) {
    put(fmt::format("p/dark/{}.png", i), picture(static_cast<unsigned char>(10 + i)));
    put(fmt::format("p/light/{}.png", i), picture(static_cast<unsigned char>(220 + i)));
  }
  put("c.toml", small_config("lr = 0.05\nepochs = 20\n",
                             "path = \"p\"\nformat = \"images\"\nvalidation_fraction = 0\n") +
                    "[every]\nsave = \"never\"\n");
  ASSERT_EQ(ebb({"train", "c.toml", "-q"}).code, 0);
  put("new/a.png", picture(12));
  put("new/b.png", picture(225));
  const Ran ran = ebb({"predict", "runs/c", "--data", "new", "--out", "y.csv"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(content("y.csv").starts_with("file,class,share\nnew/a.png,dark,"))
      << content("y.csv");
  EXPECT_HAS(content("y.csv"), "new/b.png,light,");
  EXPECT_EQ(ebb({"predict", "runs/c", "--data", "new/a.png", "--out", "one.npy"}).code, 0);
  EXPECT_EQ(floats_of(content("one.npy")).size(), 2u);
  EXPECT_HAS(ebb({"eval", "runs/c", "--data", "p"}).out, "accuracy 1");
  put("new/c.png", png_of({.width = 5, .height = 6}));
  expect_line(ebb({"predict", "runs/c", "--data", "new", "--out", "z.csv"}), 2, "c.png");
}

TEST_F(Commands, gradientsAreThoseOfDifferences) {
  std::vector<float> x(40 * 3), y(40);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[3 * i] * x[3 * i + 1] + x[3 * i + 2];
  put("x.npy", npy({40, 3}, x));
  put("y.npy", npy({40}, y));
  put("c.toml",
      "[model]\nkind = \"mlp\"\nhidden = [8]\nactivation = \"tanh\"\n[data]\npath = \"x.npy\"\n"
      "target_path = \"y.npy\"\n[train]\nbatch = 10\nsteps = 20\nlr = 0.02\n[memory]\nbudget = "
      "\"none\"\n");
  ASSERT_EQ(ebb({"train", "c.toml", "-q"}).code, 0);
  const Ran ran = ebb({"grad", "runs/c", "--data", "x.npy", "--out", "g.npy"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const std::vector<float> g = floats_of(content("g.npy"));
  ASSERT_EQ(g.size(), x.size());
  // Two rows for each input of the first four rows: a little more of it, a little less.
  constexpr float kStep = 1e-2f;
  std::vector<float> moved;
  for (std::size_t i = 0; i < 12; ++i)
    for (const float by : {kStep, -kStep})
      for (std::size_t j = 0; j < 3; ++j) moved.push_back(x[i / 3 * 3 + j] + (j == i % 3 ? by : 0));
  put("m.npy", npy({24, 3}, moved));
  ASSERT_EQ(ebb({"predict", "runs/c", "--data", "m.npy", "--out", "p.npy"}).code, 0);
  const std::vector<float> p = floats_of(content("p.npy"));
  ASSERT_EQ(p.size(), 24u);
  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_NEAR(g[i], (p[2 * i] - p[2 * i + 1]) / (2 * kStep), 2e-3) << i;
  // In a budget, chunk by chunk: the same bits.
  ASSERT_EQ(ebb({"grad", "runs/c", "--data", "x.npy", "--out", "h.npy", "--memory", "24MiB"}).code,
            0);
  EXPECT_EQ(content("h.npy"), content("g.npy"));
  expect_line(ebb({"grad", "runs/c", "--data", "y.npy", "--out", "z.npy"}), 2, "expected f32 rows");
  EXPECT_HAS(ebb({"eval", "runs/c", "--data", "x.npy", "--target", "y.npy"}).out, "40 rows:");
  expect_line(ebb({"eval", "runs/c", "--data", "x.npy"}), 2, "--target");
}

TEST_F(Commands, textIsGeneratedAndRepeats) {
  put("t.txt", tale());
  put("c.toml", kText);
  const Ran trained = ebb({"train", "c.toml"});
  ASSERT_EQ(trained.code, 0);
  EXPECT_HAS(trained.out + trained.err, " tokens/s");
  const auto text = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"generate", "runs/c", "--prompt", "the ", "--tokens", "40"};
    all.insert(all.end(), more.begin(), more.end());
    const Ran ran = ebb(all);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out;
  };
  const std::string one = text({});
  EXPECT_TRUE(one.starts_with("the ")) << one;
  EXPECT_EQ(one.size(), 4 + 40 + 1u) << "a character a token, past the context of 16";
  EXPECT_EQ(text({"--memory", "32MiB"}), one);
  EXPECT_NE(text({"--seed", "2"}), one);
  EXPECT_EQ(text({"--temperature", "0"}), text({"--temperature", "0", "--seed", "9"}));
  expect_line(ebb({"predict", "runs/c", "--data", "t.txt", "--out", "y.csv"}), 2, "ebb generate");
  const Ran words = ebb({"vocab", "t.txt", "--size", "270"});
  EXPECT_EQ(words.code, 0) << words.err;
  EXPECT_EQ(
      ebb({"train", "c.toml", "--set", "data.vocabulary=vocabulary.txt", "--out", "bpe", "-q"})
          .code,
      0);
  EXPECT_EQ(ebb({"generate", "bpe", "--tokens", "5"}).code, 0);
  expect_line(ebb({"vocab", "nothing.txt"}), 2, "nothing.txt");
}

TEST_F(Commands, verifyProvesThePromises) {
  put("t.txt", tale());
  put("c.toml", kText);
  const Ran ran = ebb({"verify", "c.toml", "--steps", "4", "--json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const Json all = Json::parse(ran.out);
  EXPECT_TRUE(all["holds"]);
  EXPECT_EQ(all["digest"].get<std::string>().size(), 64u);
  std::string verdicts;
  for (const Json& p : all["promises"])
    verdicts += fmt::format("{} {}\n", p["id"].get<std::string>(), p["verdict"].get<std::string>());
  // A transformer's weights are used at every position: a split of its batch rounds otherwise, and that is said.
  EXPECT_EQ(verdicts,
            "fits same bits\nbudget same bits\nsplit same gradient\nthreads same bits\nresume same "
            "bits\n");
  const Json& split = all["promises"][2];
  EXPECT_GT(split["difference"], 0);
  EXPECT_LT(split["difference"], split["bound"].get<double>() / 20)
      << "rounding, and far from the bound";
  EXPECT_HAS(split["why"].get<std::string>(), "the bound is 1e-04");
  EXPECT_EQ(files(), (std::vector<std::string>{"c.toml", "t.txt"}));
  put("m.toml", small_config());
  const Ran plain = ebb({"verify", "m.toml", "--steps", "3"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_HAS(plain.out, "every promise holds");
  EXPECT_HAS(plain.out, "split = whole              same bits");
  expect_line(ebb({"verify", "m.toml", "--set", "train.btach=2"}), 2, "train.batch");
  expect_line(ebb({"verify", "m.toml", "--set", "memory.activations=bf16"}), 2,
              "--set memory.activations=f32 leaves it out");
  expect_line(ebb({"verify", "m.toml", "--memory", "1MiB"}), 3, "the budget of 1 MiB is too small");
  const Ran roomy = ebb({"verify", "m.toml", "--memory", "64MiB", "--steps", "2"});
  EXPECT_HAS(roomy.out, "in a budget of 64 MiB");
}

// As if one of a thousand examples were lost.
// However small the model is, what the program itself comes to when it starts is in the smallest budget.
TEST_F(Commands, theSmallestModelFitsToo) {
  std::string table = "a,b,y\n";
  for (int i = 0; i < 300; ++i)
    table +=
        std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + std::to_string(i % 3) + "\n";
  put("t.csv", table);
  put("c.toml",
      "[model]\nkind = \"mlp\"\nhidden = [4]\n[data]\npath = \"t.csv\"\ntarget = \"y\"\n"
      "[train]\nbatch = 16\nsteps = 4\n");
  for (int i = 0; i < 5; ++i) {
    const Ran ran = ebb({"verify", "c.toml", "--steps", "4"});
    EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  }
}

TEST_F(Commands, verifyFailsWhereASplitGivesAWrongGradient) {
  put("t.txt", tale());
  put("c.toml", kText);
  const Ran ran = ebb({"verify", "c.toml", "--steps", "2", "--spoil", "0.001"});
  expect_line(ran, 1, "a promise does not hold");
  EXPECT_HAS(ran.out, "split = whole              FAILS");
  EXPECT_HAS(ran.out, "1.0e-03, where rounding is 1e-04");
  EXPECT_HAS(ran.out, "NOT every promise holds");
}

TEST_F(Commands, doctorTellsWhatThereIs) {
  const Ran plain = ebb({"doctor"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  for (const char* part : {"simd", "threads", "memory", "safe budget", "spill", "calibrated"})
    EXPECT_HAS(plain.out, part);
  const Json all = Json::parse(ebb({"doctor", "--json"}).out);
  EXPECT_GT(all["memory"]["safe_budget"], 0);
  EXPECT_EQ(all["version"], EBB_VERSION);
  const auto& built = all["cpu"]["simd_built"];
  EXPECT_NE(std::find(built.begin(), built.end(), all["cpu"]["simd"]), built.end());
  const Ran limited = shell("ulimit -v 8000000; $EBB doctor");
  EXPECT_HAS(limited.out, "ulimit -v is 7.63 GiB");
  // The safe budget is one: it does not meet the limit, whatever is planned in it.
  put("c.toml", small_config());
  for (const char* limit : {"-v 300000", "-d 120000"}) {
    const std::string set = std::string("ulimit ") + limit + "; ";
    const Json there = Json::parse(shell(set + "$EBB doctor --json").out)["memory"];
    EXPECT_HAS(there["source"].get<std::string>(), std::string("ulimit ") + limit[0] + limit[1]);
    const std::uint64_t safe = there["safe_budget"];
    EXPECT_LT(safe, std::stoull(limit + 3) << 10);
    EXPECT_GT(safe, 8u << 20);
    const Ran trained =
        shell(set + "$EBB train c.toml --memory " + std::to_string(safe) + " --out limited -q");
    EXPECT_EQ(trained.code, 0) << trained.err;
    std::filesystem::remove_all(path("limited"));
  }
  EXPECT_HAS(shell("taskset -c 0 $EBB doctor").out, "1; 1 of ");
}

}  // namespace
}  // namespace ebb::test
