// Mistakes, and what is said about them: one line each, with its place.
#include <gtest/gtest.h>

#include "ebb/base/files/file.hpp"
#include "ebb/train/config/config.hpp"
#include "ebb/train/config/templates.hpp"
#include "tests/answers.hpp"
#include "tests/error_of.hpp"

namespace ebb::train {
namespace {

struct Misuse {
  const char* text;
  const char* says;
};

const char* const kMlp = "[model]\nkind = \"mlp\"\n[data]\nformat = \"digits\"\n";

// After the four lines above.
const Misuse kAfter[] = {
    {"[train]\nbatch = \"abc\"",
     "t.toml:6:9: train.batch is \"abc\", expected a whole number of 1 or more"},
    {"[train]\nbatch = 0", "t.toml:6:9: train.batch is 0, expected a whole number of 1 or more"},
    {"[train]\nbatch = 2.5",
     "t.toml:6:9: train.batch is 2.5, expected a whole number of 1 or more"},
    {"[train]\nbacth = 3",
     "t.toml:6:1: there is no key \"bacth\" in train; do you mean train.batch?"},
    {"[train]\nbudget = \"1GiB\"",
     "t.toml:6:1: there is no key \"budget\" in train; do you mean memory.budget?"},
    {"[train]\nlr = 0", "t.toml:6:6: train.lr is 0, expected a number above 0"},
    {"[train]\nlr = nan", "t.toml:6:6: train.lr is nan, expected a number above 0"},
    {"[train]\nlr = inf", "t.toml:6:6: train.lr is inf, expected a number above 0"},
    {"[train]\nlr = 1979-05-27",
     "t.toml:6:6: train.lr is a date or time, expected a number above 0"},
    {"[train]\nlr = [1]", "t.toml:6:6: train.lr is [1], expected a number above 0"},
    {"[train]\nseed = 9223372036854775808", nullptr},
    {"[train]\noptimizer = \"adamx\"",
     "t.toml:6:13: train.optimizer is \"adamx\", expected one of sgd, adam, adamw, rmsprop, "
     "adagrad, lion or "
     "adafactor; do you mean adam?"},
    {"[train]\nepochs = 3\nsteps = 5",
     "t.toml:6:1: train.epochs is given, but counts only with no steps"},
    {"[train]\nbeta1 = 0.5\noptimizer = \"sgd\"",
     "t.toml:6:1: train.beta1 is given, but counts only with optimizer = adam, adamw, lion"},
    {"[train]\noptimizer = \"sgd\"\nnesterov = true",
     "t.toml:7:12: train.nesterov needs train.momentum above 0, such as 0.9"},
    {"[train]\nlr = 0.1\nschedule = \"cosine\"\nlr_floor = 0.2",
     "t.toml:8:12: train.lr_floor is 0.2, above train.lr = 0.1"},
    {"[train]\nwarmup = 2.5",
     "t.toml:6:10: train.warmup is 2.5, expected a whole number of steps, or a part below 1"},
    {"[train]\nmetrics = [\"acuracy\"]",
     "t.toml:6:11: train.metrics is \"acuracy\", expected one of accuracy, perplexity, rmse, mae; "
     "do you mean "
     "accuracy?"},
    {"[train]\nmetric = \"f1\"",
     "t.toml:6:10: train.metric is \"f1\", expected one of loss, accuracy, perplexity, "
     "rmse, mae"},
    {"[train]\nschedule = \"step\"\ndecay_every = \"10min\"",
     "t.toml:7:15: train.decay_every is \"10min\", expected steps or epochs"},
    {"[train]\ngroups = [{ frozen = true }]",
     "t.toml:6:11: train.groups[0].names is missing, expected a pattern such as \"*.bias\""},
    {"[train]\ngroups = [{ names = \"a\", frozn = true }]",
     "t.toml:6:26: there is no key \"frozn\" in train.groups[0]; do you mean train.groups.frozen?"},
    {"[memory]\nbudget = 64",
     "t.toml:6:10: memory.budget is 64, expected a size such as \"64MiB\" or \"1.5GB\", or "
     "\"auto\", or \"none\""},
    {"[memory]\nbudget = \"lots\"",
     "t.toml:6:10: memory.budget is \"lots\", expected a size such as \"64MiB\" or "
     "\"1.5GB\", or \"auto\", or \"none\""},
    {"[memory]\nbudget = \"0MiB\"",
     "t.toml:6:10: memory.budget is \"0MiB\", expected a size such as \"64MiB\" or "
     "\"1.5GB\", or \"auto\", or \"none\""},
    {"[memory]\nallow = \"approximate\"",
     "t.toml:6:9: memory.allow is \"approximate\", expected one of same_bits or same_gradient"},
    {"[memory]\nspill = \"no\"", "t.toml:6:9: memory.spill is \"no\", expected true or false"},
    {"[memory]\noptimizer_state = \"8bit\"\n[train]\noptimizer = \"sgd\"",
     "t.toml:6:19: memory.optimizer_state is 8bit, which adamw has and sgd has not"},
    {"[memory]\nmicro_batch = 64", "t.toml:6:15: memory.micro_batch is 64, above train.batch = 32"},
    {"[every]\nsave = \"10 weeks\"",
     "t.toml:6:8: every.save is \"10 weeks\", expected a number of steps or a text such as \"1 "
     "epoch\", \"10min\" "
     "or \"never\""},
    {"[every]\nsave = -3",
     "t.toml:6:8: every.save is -3, expected a number of steps or a text such as \"1 epoch\", "
     "\"10min\" or "
     "\"never\""},
    {"[memroy]\nbudget = \"1GiB\"",
     "t.toml:5:2: there is no section \"memroy\"; do you mean [memory]?"},
    {"[zzz]",
     "t.toml:5:2: there is no section \"zzz\"; there are [model], [data], [train], [memory], "
     "[every], "
     "[output]"},
    {"[data.more]\na = 1",
     "t.toml:5:7: there is no key \"more\" in data; ebb config keys lists those there are"},
    {"[model]\nhidden = [3]", nullptr},
    {"[train]\nlr = 1\nlr = 2", nullptr},
    {"[train]\nlr = ", nullptr},
    {"[output]\ndirectory = 3", "t.toml:6:13: output.directory is 3, expected a text"},
};

TEST(ConfigMisuse, after_a_small_config) {
  for (const Misuse& m : kAfter) {
    const std::string said =
        test::error_of([&] { parse_config(std::string(kMlp) + m.text, "t.toml"); });
    if (m.says) {
      EXPECT_EQ(said, m.says) << m.text;
    } else {
      EXPECT_EQ(said.find("t.toml:"), 0u) << m.text << "\n" << said;
      EXPECT_NE(said.find(": not TOML: "), std::string::npos) << said;
    }
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

const Misuse kWhole[] = {
    {"",
     "t.toml: there is no [model] section; it says model.kind, one of mlp, cnn, resnet, lstm, gru, "
     "gpt, encoder "
     "or layers, or model.layers"},
    {"[model]\nkind = \"mlp\"",
     "t.toml: there is no [data] section; it says data.path, or a data.format that is generated"},
    {"model = 3\ndata = 4", "t.toml:1:9: model is 3, expected a section: [model]"},
    {"batch = 3\n[model]\nkind=\"mlp\"\n[data]\nformat=\"digits\"",
     "t.toml:1:1: there is no section \"batch\"; do you mean train.batch?"},
    {"[model]\nhidden = [3]\n[data]\nformat = \"digits\"",
     "t.toml:1:2: model.kind is missing, expected one of mlp, cnn, resnet, lstm, gru, gpt, encoder "
     "or layers; or "
     "give model.layers"},
    {"[model]\nkind = \"mpl\"\n[data]\nformat = \"digits\"",
     "t.toml:2:8: model.kind is \"mpl\", expected one of mlp, cnn, resnet, lstm, gru, gpt, encoder "
     "or layers; do "
     "you mean mlp?"},
    {"[model]\nkind = \"mlp\"\nwidth = 3\n[data]\nformat = \"digits\"",
     "t.toml:3:1: model.width is given, but counts only with kind = lstm, gru, gpt, encoder"},
    {"[model]\nkind = \"mlp\"\nlayers = [{kind=\"relu\"}]\n[data]\nformat = \"digits\"",
     "t.toml:3:1: model.layers is given, but counts only with kind = layers"},
    {"[model]\nlayers = []\n[data]\nformat = \"digits\"",
     "t.toml:2:10: model.layers is missing, expected at least one layer"},
    {"[model]\nlayers = [3]\n[data]\nformat = \"digits\"",
     "t.toml:2:11: model.layers[0] is 3, expected a table"},
    {"[model]\nlayers = [{ kind = \"dense\", otu = 3 }]\n[data]\nformat = \"digits\"",
     "t.toml:2:29: there is no key \"otu\" in model.layers[0]; do you mean model.layers.out?"},
    {"[model]\nlayers = [{ kind = \"relu\", out = 3 }]\n[data]\nformat = \"digits\"",
     "t.toml:2:28: model.layers[0].out is given, but counts only with kind = dense, conv"},
    {"[model]\nlayers = [{ out = 3 }]\n[data]\nformat = \"digits\"", nullptr},
    {"[model]\nkind = \"gpt\"\nwidth = 100\nheads = 8\n[data]\npath = \"a.txt\"",
     "t.toml:4:9: model.heads is 8, which does not divide model.width = 100"},
    {"[model]\nkind = \"gpt\"\n[data]\nformat = \"digits\"",
     "t.toml:2:8: model.kind is gpt, a language model, and the data is none; for classes take "
     "encoder"},
    {"[model]\nkind = \"mlp\"\n[data]\npath = \"a.txt\"",
     "t.toml:2:8: model.kind is mlp, which is no language model; data asks for one: gpt, lstm or "
     "gru"},
    {"[model]\nkind = \"mlp\"\n[data]\nshuffle = true",
     "t.toml:3:2: data.path is missing; or give data.format = \"digits\", which are drawn"},
    {"[model]\nkind = \"mlp\"\n[data]\nformat = \"csv\"",
     "t.toml:3:2: data.path is missing: where the csv data is"},
    {"[model]\nkind = \"mlp\"\n[data]\npath = \"a.csv\"",
     "t.toml:3:2: data.target is missing: the column that is to be predicted"},
    {"[model]\nkind = \"mlp\"\n[data]\npath = \"a.bin\"",
     "t.toml:3:2: data.format is missing, and \"a.bin\" does not tell it; expected one of auto, "
     "csv, npy, npz, "
     "safetensors, idx, jsonl, text, images, digits or sequences"},
    {"[model]\nkind = \"mlp\"\n[data]\nformat = \"digits\"\npath = \"a\"",
     "t.toml:5:1: data.path is given, but counts only with a format that is read from files"},
    {"[model]\nkind = \"mlp\"\n[data]\npath = \"\"\nformat = \"npy\"",
     "t.toml:4:8: data.path is \"\", expected the name of a file"},
    {"[model]\nkind = \"mlp\"\n[data]\npath = \"a.csv\"\ntarget = \"y\"\nseparator = \";;\"",
     "t.toml:6:13: data.separator is \";;\", expected one character"},
    {"[model]\nkind = \"mlp\"\n[data]\npath = \"a.csv\"\ntarget = \"y\"\nvalidation_path = "
     "\"b.csv\"\n"
     "validation_fraction = 0.2",
     "t.toml:7:1: data.validation_fraction is given, but counts only with no validation_path"},
    {"[model]\nkind = \"mlp\"\n[data]\npath = \"a.csv\"\ntarget = \"y\"\ntask = "
     "\"regression\"\n[train]\nloss = "
     "\"cross_entropy\"",
     "t.toml:8:8: train.loss is cross_entropy, and data.task is regression: expected mse, mae or "
     "huber"},
};

TEST(ConfigMisuse, of_whole_configs) {
  for (const Misuse& m : kWhole) {
    const std::string said = test::error_of([&] { parse_config(m.text, "t.toml"); });
    if (m.says)
      EXPECT_EQ(said, m.says) << m.text;
    else
      EXPECT_EQ(said.find("t.toml:2:11: model.layers[0].kind is missing, expected one of dense"),
                0u)
          << said;
  }
}

TEST(ConfigMisuse, of_overrides) {
  const auto said = [](const char* set) {
    return test::error_of([&] { parse_config(kMlp, "t.toml", {set}); });
  };
  test::expect_answers(
      said,
      {
          {"train.batch=abc",
           "--set \"train.batch=abc\": train.batch is \"abc\", expected a whole number of 1 or "
           "more"},
          {"train.bacth=3", "there is no key \"train.bacth\"; do you mean train.batch?"},
          {"trian.batch=3", "there is no key \"trian.batch\"; do you mean [train]?"},
          {"batch=3", "--set \"batch=3\": expected section.key=value, such as train.lr=0.01"},
          {"train.lr", "--set \"train.lr\": expected section.key=value, such as train.lr=0.01"},
          {"", "--set \"\": expected section.key=value, such as train.lr=0.01"},
          {"train.lr=", "--set \"train.lr=\": train.lr is \"\", expected a number above 0"},
          {"train.lr=1\ntrain.batch = 2",
           "--set \"train.lr=1\\ntrain.batch = 2\": train.lr is \"1\\ntrain.batch = 2\", expected "
           "a number above 0"},
          {"model.layers=[]",
           "--set \"model.layers=[]\": model.layers is given, but counts only with kind = layers"},
      });
}

TEST(ConfigMisuse, of_files_and_templates) {
  EXPECT_NE(test::error_of([] { load_config("no/such.toml"); }).find("no/such.toml"),
            std::string::npos);
  EXPECT_EQ(test::error_of([] { find_template("gtp"); }),
            "there is no template \"gtp\"; do you mean gpt?");
  EXPECT_EQ(test::error_of([] { find_template("diffusion"); }),
            "there is no template \"diffusion\"; there are mlp, cnn, lstm, gpt, encoder, tabular");
}

// Texts that are made to break a parser: one Error each.
TEST(ConfigMisuse, hostile_texts) {
  const auto repeated = [](const std::string& part, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += part;
    return all;
  };
  const std::string dots = repeated("a.", 300'000) + "a = 1";
  const std::string hostile[] = {
      repeated("[", 500'000),
      "x = " + repeated("[", 500'000),
      "x = " + repeated("{a=", 300'000),
      dots,
      "[" + repeated("a.", 300'000) + "a]",
      "x = {" + dots + "}",
      repeated("\"a\".", 200'000) + "a = 1",
      repeated("'a'.", 200'000) + "a = 1",
      repeated("a . ", 200'000) + "a = 1",
      "x = \"\"\"" + repeated("a.", 300'000),
      std::string("[model]\nkind = \"mlp\0\"\n", 23),
      std::string("a\0b = 1", 7),
      "x = \"\xff\xfe\"",
      "\xc0\x80 = 1",
      "\xef\xbb\xbf[model",
      "x = \"\\uD800\"",
      repeated("k", 1'000'000) + " = 1",
      "[model]\n" + repeated("k", 900'000) + " = 1\n[data]\nformat=\"digits\"",
      "[model]\nkind = \"" + repeated("ü", 400'000) + "\"\n[data]\nformat=\"digits\"",
      "[model]\nkind = [" + repeated("\"mlp\",", 100'000) + "]\n[data]\nformat=\"digits\"",
      "x = 1e999999999",
      "x = 99999999999999999999",
      "x = 0x",
      "[\n",
      "[ \n]",
      "a.\n",
      "x = ü",
      "x=-\"ξ",
      "ü = 1",
      "x = 1 \u00a1",
      "x = \"\"\"a\"\"\"\" ü",
      "[a]\n[a]",
      "a = 1\n[a]",
      "[[model]]\nkind = 1\n[data]\nformat=\"digits\"",
      repeated("\n", 1'000'000),
  };
  for (const std::string& text : hostile) {
    const std::string said = test::error_of([&] { parse_config(text, "t.toml"); });
    EXPECT_EQ(said.find("t.toml"), 0u) << text.substr(0, 60) << "\n" << said.substr(0, 300);
    EXPECT_LT(said.size(), 400u) << said.substr(0, 500);
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace ebb::train
