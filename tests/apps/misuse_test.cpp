// Misuse of the command line, of configs, budgets and output directories.
#include "tests/apps/misuse.hpp"

#include <unistd.h>

namespace ebb::test {
namespace {

Misuse config(const std::string& name, const std::string& content, const std::string& text) {
  return {name, {{"c.toml", content}}, {"train", "c.toml"}, text};
}
Misuse memory(const std::string& name, const std::string& said, const std::string& text) {
  return {name, {{"c.toml", small_config()}}, {"train", "c.toml", "--memory", said}, text};
}
Misuse set(const std::string& name, const std::string& said, const std::string& text) {
  return {name, {{"c.toml", small_config()}}, {"train", "c.toml", "--set", said}, text};
}

Misuse plan_of(const std::string& name, std::vector<std::string> words, const std::string& text) {
  words.insert(words.begin(), {"plan", "c.toml"});
  return {name, {{"c.toml", small_config()}}, words, text};
}

std::vector<Misuse> of_the_line() {
  return {
      {"no_command", {}, {}, "which command? ebb help lists them"},
      {"unknown_command", {}, {"trian"}, "no command \"trian\"; do you mean train?"},
      {"far_command", {}, {"xyzzyq"}, "no command \"xyzzyq\"; ebb help lists"},
      {"unknown_subcommand",
       {},
       {"config", "sho"},
       "config: there is no command \"sho\"; do you mean show?"},
      {"unknown_option",
       {},
       {"train", "c.toml", "--memry", "1"},
       "train: there is no option --memry; do you mean --memory?"},
      {"unknown_short_option", {}, {"train", "c.toml", "-z"}, "train: there is no option -z"},
      {"missing_argument", {}, {"train"}, "train: CONFIG is missing; usage: ebb train CONFIG"},
      {"missing_option", {}, {"predict", "r", "--data", "x"}, "predict: --out is missing; usage"},
      {"option_without_value",
       {},
       {"train", "c.toml", "--memory"},
       "train: --memory: 1 required SIZE missing"},
      {"too_many", {}, {"train", "a", "b"}, "\"b\" is one argument too many"},
      {"wrong_type_of_option",
       {},
       {"generate", "r", "--tokens", "abc"},
       "\"abc\" is no number of 1 or more"},
      {"out_of_range", {}, {"verify", "c.toml", "--steps", "1"}, "\"1\" is no number from 2"},
      {"no_processes",
       {},
       {"doctor", "--network", "--processes", "0"},
       "\"0\" is no number from 2 to 1024"},
      {"processes_of_what", {}, {"doctor", "--processes", "2"}, "--processes requires --network"},
      plan_of(
          "no_number_of_processes", {"--processes", "two"},
          "--processes: \"two\" is no number from 1 to 1024; write one or several, such as 1,2,8"),
      plan_of("no_processes_at_all", {"--processes", "1,,2"},
              "--processes: \"\" is no number from 1"),
      plan_of("zero_processes", {"--processes", "4,0"}, "--processes: \"0\" is no number from 1"),
      plan_of("too_many_processes", {"--processes", "1025"},
              "\"1025\" is no number from 1 to 1024"),
      plan_of("network_of_what", {"--network", "1Gbit/s,50us"}, "--network requires --processes"),
      plan_of("hosts_of_what", {"--per-host", "2"}, "--per-host requires --processes"),
      plan_of("no_speed", {"--processes", "2", "--network", "fast"},
              "--network: \"fast\" is no network: \"fast\" is no speed; write a speed and the time "
              "of a message, such as 10Gbit/s,50us"),
      plan_of("speed_without_unit", {"--processes", "2", "--network", "10,50us"},
              "\"10\" is no speed"),
      plan_of("speed_of_nothing", {"--processes", "2", "--network", "0Gbit/s,50us"},
              "0Gbit/s is no speed of a network"),
      plan_of("no_latency", {"--processes", "2", "--network", "1Gbit/s,soon"},
              "\"soon\" is no time; write"),
      plan_of("latency_of_minutes", {"--processes", "2", "--network", "1Gbit/s,90s"},
              "90s is no time of a message"),
      plan_of("picture_of_processes", {"--processes", "2", "--svg", "a.svg"},
              "--svg excludes --processes"),
      {"processes_of_batch_norm",
       {{"c.toml",
         "[model]\nkind = \"layers\"\nlayers = [{kind='dense', out=16}, {kind='batch_norm'}, "
         "{kind='dense'}]\n[data]\nformat = \"digits\"\nrows = 400\n"
         "[train]\nbatch = 50\nsteps = 2\n"}},
       {"plan", "c.toml", "--processes", "2", "--network", "1Gbit/s,50us"},
       "the batch cannot be divided among 2 ranks: examples depend on each other in batch_norm"},
      {"unknown_shell", {}, {"completion", "tcsh"}, "\"tcsh\" is none of bash, zsh and fish"},
      {"unknown_template", {}, {"init", "mpl"}, "no template \"mpl\"; do you mean mlp?"},
      {"help_of_nothing", {}, {"help", "trian"}, "no command \"trian\"; do you mean train?"},
      {"predict_ending",
       {},
       {"predict", "r", "--data", "x", "--out", "y.txt"},
       "--out is \"y.txt\", expected a name that ends in .csv or .npy"},
      {"no_run",
       {},
       {"resume", "nowhere"},
       "cannot use \"nowhere\" for a run: there is no such directory"},
      {"predict_over_its_rows",
       {{"x.npy", "rows"}},
       {"predict", "r", "--data", "x.npy", "--out", "./x.npy"},
       "predict: --out is \"./x.npy\", which is the file that is read, \"x.npy\""},
      {"grad_over_its_rows",
       {{"x.npy", "rows"}},
       {"grad", "r", "--data", "x.npy", "--out", "x.npy"},
       "grad: --out is \"x.npy\", which is the file that is read"},
      {"vocabulary_over_its_text",
       {{"a.txt", "words and words"}},
       {"vocab", "a.txt", "--out", "a.txt"},
       "vocab: --out is \"a.txt\", which is the file that is read"},
      {"eval_of_no_run",
       {{"c.toml", small_config()}},
       {"eval", "c.toml"},
       "ebb train c.toml makes one"},
      {"eval_of_folder",
       {{"f/a.txt", "x"}},
       {"eval", "f"},
       "f: this is no run, no checkpoint and no model"},
      {"inspect_nothing",
       {},
       {"inspect", "nowhere.npy"},
       "cannot open \"nowhere.npy\": No such file or directory"},
      {"inspect_text", {{"a.txt", "hello"}}, {"inspect", "a.txt"}, "a.txt: expected a run"},
      {"inspect_json", {{"a.json", "{\"a\": 1}"}}, {"inspect", "a.json"}, "not that of a plan"},
      {"inspect_no_json", {{"a.json", "{{{{"}}, {"inspect", "a.json"}, "not JSON"},
  };
}

std::vector<Misuse> of_configs() {
  const std::string good = small_config();
  return {
      config("misspelt_section", "[modle]\nkind = \"mlp\"\n[data]\nformat = \"digits\"\n",
             "c.toml:1:2: there is no section \"modle\"; do you mean [model]?"),
      set("too_many_threads", "train.threads=4096",
          "train.threads is 4096, expected a whole number from 0 to 1024"),
      set("no_spill_directory", "memory.spill_directory=nowhere",
          "nowhere\" is no directory; name one that is there, or set memory.spill = false"),
      {"missing_config", {}, {"train", "nothing.toml"}, "\"nothing.toml\": No such file"},
      {"folder_as_config", {{"f/a", ""}}, {"train", "f"}, "cannot open \"f\": Is a directory"},
      config("empty_config", "", "c.toml: there is no [model] section"),
      config("unknown_key", small_config("btach = 3\n"),
             "c.toml:10:1: there is no key \"btach\" in train; do you mean train.batch?"),
      config("wrong_type", small_config("lr = \"fast\"\n"),
             "c.toml:10:6: train.lr is \"fast\", expected a number"),
      config("unknown_section", good + "[trian]\nlr = 1\n",
             "c.toml:12:2: there is no section \"trian\"; do you mean [train]?"),
      config("not_toml", "[model\nkind", "c.toml:1:7: not TOML: "),
      config("nul_in_config", good + std::string("x = \"a\0b\"\n", 10),
             "c.toml:12:7: not TOML: Error while parsing string: unescaped control character"),
      config("no_utf8_in_config", good + "# \xff\xfe\n", "c.toml:12:2: not TOML: Encountered inv"),
      config("too_large_number", small_config("lr = 1e999\n"), "c.toml:10:11: not TOML: "),
      config("too_large_integer", small_config("seed = 99999999999999999999999\n"),
             "'99999999999999999999999' is not representable in 64 bits"),
      config("deep", "a = " + std::string(100000, '['), "c.toml:1: nested more than 32 levels"),
      set("set_unknown", "train.btach=3", "no key \"train.btach\"; do you mean train.batch?"),
      set("set_no_value", "train.lr", "--set \"train.lr\": expected section.key=value"),
      set("set_wrong", "train.lr=quick",
          "--set \"train.lr=quick\": train.lr is \"quick\", expected a number above 0"),
      set("set_contradiction", "model.classes=3",
          "model.classes is 3, and the data has 10 classes; leave the key out"),
      memory("budget_nonsense", "lots",
             "--memory: byte size \"lots\": it does not start with a number"),
      memory("budget_two_units", "12MB7", "--memory: byte size \"12MB7\": unknown unit"),
      memory("budget_bare_unit", "64M", "the unit could be a power of 1000 or of 1024"),
      memory("budget_negative", "-5MiB", "a size cannot be negative"),
      memory("budget_infinite", "1e999", "--memory: byte size \"1e999\": unknown unit"),
      memory("budget_overflow", "99999999999TiB", "byte size \"99999999999TiB\": too large"),
      memory("budget_nothing", "", "--memory: byte size \"\": nothing was given"),
      memory("budget_of_bytes", "64",
             "a number without a unit is bytes, and nothing runs in 64; write 64MiB"),
      memory("budget_zero", "0", "--memory: nothing runs in 0 bytes"),
  };
}

std::vector<Misuse> of_outputs() {
  const MisuseFile good{"c.toml", small_config()};
  return {
      // Those that are only met when a directory is made come behind the plan, which -q leaves out.
      {"out_is_a_file",
       {good, {"o", "mine"}},
       {"train", "c.toml", "--out", "o"},
       "cannot use \"o\" for a run: there is a file of that name"},
      {"out_is_not_empty",
       {good, {"o/a", "mine"}},
       {"train", "c.toml", "--out", "o"},
       "it is not empty and not a run (it holds \"a\")"},
      {"out_below_a_file",
       {good, {"o", "mine"}},
       {"train", "c.toml", "-q", "--out", "o/p"},
       "cannot make \"o\": File exists"},
      {"out_cannot_be_made",
       {good},
       {"train", "c.toml", "-q", "--out", "/proc/ebb-run"},
       "cannot use \"/proc/ebb-run\" for a run: "},
      {"init_over_another",
       {{"mlp.toml", "mine"}},
       {"init", "mlp"},
       "mlp.toml is there already; --force writes over it"},
      {"init_below_a_file",
       {{"o", "mine"}},
       {"init", "mlp", "o"},
       "cannot make \"o\": File exists"},
  };
}

std::vector<Misuse> all_of_them() {
  std::vector<Misuse> all;
  for (const auto& some : {of_the_line(), of_configs(), of_outputs()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

TEST_P(MisuseTable, isOneClearLine) { check(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Of, MisuseTable, testing::ValuesIn(all_of_them()),
                         [](const auto& info) { return info.param.name; });

class Budgets : public Commands {};

TEST_F(Budgets, aBudgetThatIsTooSmallIsRefusedWithTheMenu) {
  put("c.toml", small_config());
  const Ran train = ebb({"train", "c.toml", "--memory", "1MiB"});
  expect_line(train, 3, "the budget of 1 MiB (1048576 bytes) is too small");
  EXPECT_HAS(train.err, "the smallest that does");
  EXPECT_HAS(train.err, "ebb plan shows what each way of fitting costs");
  EXPECT_EQ(files(), std::vector<std::string>{"c.toml"});
  const Ran plan = ebb({"plan", "c.toml", "--memory", "1MiB"});
  expect_line(plan, 3, "the smallest that does is");
  EXPECT_HAS(plan.out, "what does fit:");
  EXPECT_HAS(plan.out, "same bits");
}

// What asks a model names the smallest budget, too; that one does, and a byte less does not. Where most of it is for
// reading a table, it is rounded up, as that depends a little on which thread comes first: a byte less may do.
TEST_F(Budgets, theSmallestIsNamedByWhateverTakesOne) {
  std::string text, table = "a,b,y\n";
  for (int i = 0; i < 60; ++i) text += i % 3 ? "the cat sat on the mat. " : "the dog sat.\n";
  for (int i = 0; i < 300; ++i)
    table +=
        std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + std::to_string(i % 3) + "\n";
  put("t.txt", text);
  put("t.csv", table);
  put("x.npy", npy({50, 784}, std::vector<float>(50 * 784, 0.5f)));
  put("t.toml",
      "[model]\nkind = \"gpt\"\nwidth = 16\ndepth = 1\nheads = 2\n[data]\npath = \"t.txt\"\n"
      "window = 16\n[train]\nbatch = 8\nsteps = 3\n[memory]\nbudget = \"none\"\n");
  put("c.toml", small_config("steps = 3\n"));
  put("d.toml", array_config("t.csv", "target = \"y\"\nvalidation_fraction = 0\n"));
  for (const char* config : {"t.toml", "c.toml", "d.toml"})
    ASSERT_EQ(ebb({"train", config, "-q"}).code, 0);
  const std::vector<std::vector<std::string>> all = {
      {"generate", "runs/t", "--tokens", "40"},
      {"generate", "runs/t/model", "--tokens", "5", "--prompt", "the cat"},
      {"grad", "runs/c", "--data", "x.npy", "--out", "g.npy"},
      {"predict", "runs/c", "--data", "x.npy", "--out", "y.npy"},
      {"predict", "runs/d", "--data", "t.csv", "--out", "y.csv"},
      {"eval", "runs/c"},
      {"eval", "runs/d", "--data", "t.csv"}};
  for (const std::vector<std::string>& words : all) {
    const auto within = [&](std::uint64_t bytes) {
      std::vector<std::string> with = words;
      with.insert(with.end(), {"--memory", std::to_string(bytes)});
      return ebb(with);
    };
    const Ran refused = within(1 << 20);
    expect_line(refused, 3, "the budget of 1 MiB (1048576 bytes) is too small");
    const std::size_t at = refused.err.rfind(" (");
    const std::uint64_t smallest = std::strtoull(refused.err.c_str() + at + 2, nullptr, 10);
    ASSERT_GT(smallest, 1u << 20) << words[0] << refused.err;
    const Ran enough = within(smallest);
    EXPECT_EQ(enough.code, 0) << words[0] << " " << enough.err;
    if (words[1] == "runs/d") continue;
    expect_line(within(smallest - 1), 3, std::to_string(smallest) + " bytes)");
  }
  EXPECT_EQ(floats_of(content("y.npy")).size(), 500u) << "50 rows, 10 classes";
}

// What a user may not read or write; root may.
TEST_F(Budgets, permissionsAreSaid) {
  put("c.toml", small_config());
  put("closed.toml", small_config());
  put("table.toml", array_config("closed.csv", "target = \"y\"\n"));
  put("closed.csv", "x,y\n1,2\n");
  const std::string other =
      ::geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups " : "";
  ASSERT_EQ(shell("chmod 755 . && chmod 0 closed.toml closed.csv").code, 0);
  if (shell(other + "$EBB --version").code != 0)
    GTEST_SKIP() << "nobody else can run the program here";
  const std::string as_other = "HOME=/nonexistent " + other;
  const std::vector<std::string> before = files();
  expect_line(shell(as_other + "$EBB train closed.toml"), 2,
              "cannot open \"closed.toml\": Permission denied; check the permissions");
  expect_line(shell(as_other + "$EBB train table.toml"), 2, "closed.csv\": Permission denied");
  ASSERT_EQ(shell("chmod 555 .").code, 0);
  expect_line(shell(as_other + "$EBB train c.toml -q"), 2,
              "cannot make \"runs\": Permission denied; check the permissions");
  expect_line(shell(as_other + "$EBB train c.toml -q --out o"), 2,
              "cannot use \"o\" for a run: Permission denied");
  expect_line(shell(as_other + "$EBB init mlp"), 2, "mlp.toml\": Permission denied");
  ASSERT_EQ(shell("chmod 755 .").code, 0);
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace ebb::test
