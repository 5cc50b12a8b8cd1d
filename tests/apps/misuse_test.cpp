// The table of misuse: what is wrong, the exit code, what the one line says. Nothing is left behind.
#include <unistd.h>

#include <algorithm>
#include <ostream>

#include "tests/apps/command.hpp"
#include "tests/io/archive/zip_bytes.hpp"
#include "tests/io/image/png_bytes.hpp"

namespace ebb::test {
namespace {

struct File {
  std::string name, content;
};

struct Misuse {
  std::string name;
  std::vector<File> files;
  std::vector<std::string> arguments;
  std::string text;  // of the line
  int code = 2;
};
void PrintTo(const Misuse& m, std::ostream* to) { *to << m.name; }

std::string csv_config() {
  return small_config("", "path = \"t.csv\"\ntarget = \"y\"\nvalidation_fraction = 0\n");
}
// A csv file that is trained on.
Misuse csv(const std::string& name, const std::string& content, const std::string& text,
           int code = 2) {
  return {name, {{"c.toml", csv_config()}, {"t.csv", content}}, {"train", "c.toml"}, text, code};
}
std::string array_config(const std::string& file, const std::string& more) {
  return small_config("", "path = \"" + file + "\"\n" + more);
}
Misuse config(const std::string& name, const std::string& content, const std::string& text) {
  return {name, {{"c.toml", content}}, {"train", "c.toml"}, text};
}
Misuse memory(const std::string& name, const std::string& said, const std::string& text,
              int code = 2) {
  return {name, {{"c.toml", small_config()}}, {"train", "c.toml", "--memory", said}, text, code};
}
Misuse set(const std::string& name, const std::string& said, const std::string& text) {
  return {name, {{"c.toml", small_config()}}, {"train", "c.toml", "--set", said}, text};
}
std::string safetensors(const std::string& header, const std::string& data,
                        std::uint64_t claimed = 0) {
  return little(claimed ? claimed : header.size(), 8) + header + data;
}
std::string labels(std::int32_t bad) { return npy({4}, std::vector<std::int32_t>{0, 1, bad, 1}); }
std::string rows() { return npy({4, 2}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}); }
constexpr char kLabels[] = "target_path = \"y.npy\"\nvalidation_fraction = 0\n";

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
       "no option --memry; do you mean --memory?"},
      {"unknown_short_option", {}, {"train", "c.toml", "-z"}, "no option -z"},
      {"missing_argument", {}, {"train"}, "train: CONFIG is missing; usage: ebb train CONFIG"},
      {"missing_option", {}, {"predict", "r", "--data", "x"}, "--out is missing"},
      {"option_without_value", {}, {"train", "c.toml", "--memory"}, "--memory"},
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
      {"unknown_shell", {}, {"completion", "tcsh"}, "\"tcsh\" is none of bash, zsh and fish"},
      {"unknown_template", {}, {"init", "mpl"}, "do you mean mlp?"},
      {"help_of_nothing", {}, {"help", "trian"}, "do you mean train?"},
      {"predict_ending", {}, {"predict", "r", "--data", "x", "--out", "y.txt"}, ".csv or .npy"},
      {"no_run", {}, {"resume", "nowhere"}, "nowhere"},
      {"eval_of_no_run",
       {{"c.toml", small_config()}},
       {"eval", "c.toml"},
       "ebb train c.toml makes one"},
      {"eval_of_folder", {{"f/a.txt", "x"}}, {"eval", "f"}, "no run and no checkpoint"},
      {"inspect_nothing", {}, {"inspect", "nowhere.npy"}, "nowhere.npy"},
      {"inspect_text", {{"a.txt", "hello"}}, {"inspect", "a.txt"}, "expected a run"},
      {"inspect_json", {{"a.json", "{\"a\": 1}"}}, {"inspect", "a.json"}, "not that of a plan"},
      {"inspect_no_json", {{"a.json", "{{{{"}}, {"inspect", "a.json"}, "not JSON"},
  };
}

std::vector<Misuse> of_configs() {
  const std::string good = small_config();
  return {
      {"missing_config", {}, {"train", "nothing.toml"}, "nothing.toml"},
      {"folder_as_config", {{"f/a", ""}}, {"train", "f"}, "f"},
      config("empty_config", "", "there is no [model] section"),
      config("unknown_key", small_config("btach = 3\n"), "do you mean train.batch?"),
      config("wrong_type", small_config("lr = \"fast\"\n"),
             "c.toml:10:6: train.lr is \"fast\", expected a number"),
      config("unknown_section", good + "[trian]\nlr = 1\n", "train"),
      config("not_toml", "[model\nkind", "c.toml:1:"),
      config("nul_in_config", good + std::string("x = \"a\0b\"\n", 10), "c.toml:"),
      config("no_utf8_in_config", good + "# \xff\xfe\n", "c.toml:"),
      config("too_large_number", small_config("lr = 1e999\n"), "c.toml:10:11: "),
      config("huge_batch", small_config("seed = 99999999999999999999999\n"), "c.toml:"),
      config("deep", "a = " + std::string(100000, '['), "c.toml:1:"),
      set("set_unknown", "train.btach=3", "train.batch"),
      set("set_no_value", "train.lr", "expected section.key=value"),
      set("set_wrong", "train.lr=quick", "expected a number"),
      set("set_contradiction", "model.classes=3", "3"),
      memory("budget_nonsense", "lots", "expected a size such as"),
      memory("budget_two_units", "12MB7", "expected a size such as"),
      memory("budget_bare_unit", "64M", "expected a size such as"),
      memory("budget_negative", "-5MiB", "expected a size such as"),
      memory("budget_infinite", "1e999", "expected a size such as"),
  };
}

std::vector<Misuse> of_data() {
  const std::string many(4 << 20, 'x');
  return {
      {"missing_csv", {{"c.toml", csv_config()}}, {"train", "c.toml"}, "t.csv"},
      csv("empty_csv", "", "t.csv"),
      csv("only_a_header", "x,y\n", "t.csv"),
      csv("ragged_csv", "x,y\n1,2\n3\n", "t.csv\", line 3: "),
      csv("wide_csv", "x,y\n1,2\n3,4,5\n", "t.csv\", line 3: "),
      csv("nul_in_csv", std::string("x,y\n1,2\n\0,4\n", 12), "t.csv\", line 3: "),
      csv("no_utf8_in_csv", "x,y\n1,2\n\xff,4\n", "t.csv\", line 3: "),
      csv("open_quote", "x,y\n1,\"2\n3,4\n", "t.csv"),
      csv("large_number_in_csv", "x,y\n1,2\n1e999,4\n", "t.csv\", line 3: "),
      csv("long_line", "x,y\n" + many + ",1\n" + many + ",1\n", "t.csv"),
      csv("missing_value", "x,y\n1,2\n,4\n5,6\n", "t.csv\", line 3: "),
      csv("no_such_target", "x,z\n1,2\n3,4\n", "\"y\""),
      {"label_below_0",
       {{"c.toml", array_config("x.npy", kLabels)}, {"x.npy", rows()}, {"y.npy", labels(-1)}},
       {"train", "c.toml"},
       "label -1 in row 2"},
      {"label_above",
       {{"c.toml", array_config("x.npy", kLabels)}, {"x.npy", rows()}, {"y.npy", labels(7)}},
       {"train", "c.toml", "--set", "model.classes=2"},
       "2"},
      {"other_length",
       {{"c.toml", array_config("x.npy", kLabels)},
        {"x.npy", rows()},
        {"y.npy", npy({3}, std::vector<std::int32_t>{0, 1, 0})}},
       {"train", "c.toml"},
       "3"},
      {"no_rows",
       {{"c.toml", array_config("x.npy", kLabels)},
        {"x.npy", npy({0, 2}, std::vector<float>{})},
        {"y.npy", npy({0}, std::vector<std::int32_t>{})}},
       {"train", "c.toml"},
       "no rows"},
      {"empty_text",
       {{"c.toml", "[model]\nkind = \"lstm\"\n[data]\npath = \"t.txt\"\n"}, {"t.txt", ""}},
       {"train", "c.toml"},
       "t.txt"},
      {"empty_folder",
       {{"c.toml", array_config("p", "format = \"images\"\n")}, {"p/readme", "x"}},
       {"train", "c.toml"},
       "has no pictures"},
      {"empty_jsonl",
       {{"c.toml", array_config("t.jsonl", "target = \"y\"\n")}, {"t.jsonl", ""}},
       {"train", "c.toml"},
       "t.jsonl"},
  };
}

// Files that lie about themselves, given to commands that read them.
std::vector<Misuse> of_hostile_files() {
  const auto trained = [](const std::string& name, const std::string& file,
                          const std::string& content,
                          const std::string& more = "target = \"y\"\nvalidation_fraction = 0\n") {
    return Misuse{name,
                  {{"c.toml", array_config(file, more)}, {file, content}, {"y.npy", labels(1)}},
                  {"train", "c.toml"},
                  file};
  };
  constexpr char kIdx[] = "target_path = \"y-ubyte\"\nvalidation_fraction = 0\n";
  const auto idx = [&](const std::string& name, const std::string& file,
                       const std::string& content) {
    Misuse m = trained(name, file, content, kIdx);
    m.files.push_back({"y-ubyte", std::string("\0\0\x08\x01\0\0\0\x04\0\1\0\1", 12)});
    return m;
  };
  const auto looked_at = [](const std::string& name, const std::string& file,
                            const std::string& content) {
    return Misuse{name, {{file, content}}, {"inspect", file}, file};
  };
  std::string huge = npy({1}, std::vector<float>{1});
  huge.replace(huge.find("(1,"), 22, "(99999999999,99999999)");
  const std::string overlap =
      R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})";
  const std::string twice =
      R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  Png broken{.width = 4, .height = 4};
  std::string png = png_of(broken);
  png.resize(png.size() - 30);
  const std::string zeros(1 << 20, '\0');
  const std::string bomb =
      zip_of({{"x.npy", npy({1 << 18, 1}, std::vector<float>(1 << 18)), true, 16}});
  return {
      trained("npy_cut", "x.npy", rows().substr(0, 90), kLabels),
      trained("npy_huge", "x.npy", huge, kLabels),
      trained("npy_not", "x.npy", "hello", kLabels),
      trained("npz_not", "x.npz", "PK\x03\x04 nothing"),
      trained("npz_bomb", "x.npz", bomb),
      trained("safetensors_long_header", "x.safetensors", safetensors("{}", "", ~0ull)),
      trained("safetensors_overlap", "x.safetensors", safetensors(overlap, std::string(12, 'a'))),
      trained("safetensors_twice", "x.safetensors", safetensors(twice, std::string(8, 'a'))),
      trained("safetensors_deep", "x.safetensors", safetensors(std::string(200000, '['), "")),
      idx("idx_cut", "x-ubyte", std::string("\0\0\x08\x03\0\0\x10\0\0\0\x10\0", 12)),
      idx("idx_bad_magic", "x-ubyte", "abcdefgh"),
      idx("gz_cut", "x-ubyte.gz", gzipped(zeros).substr(0, 300)),
      Misuse{"png_cut",
             {{"c.toml", array_config("p", "format = \"images\"\n")},
              {"p/a/1.png", png_of(broken)},
              {"p/b/2.png", png}},
             {"train", "c.toml"},
             "2.png"},
      Misuse{"png_other_size",
             {{"c.toml", array_config("p", "format = \"images\"\n")},
              {"p/a/1.png", png_of(broken)},
              {"p/b/2.png", png_of({.width = 5, .height = 4})}},
             {"train", "c.toml"},
             "2.png"},
      looked_at("look_npy_huge", "x.npy", huge),
      looked_at("look_npz_not", "x.npz", zeros.substr(0, 1000)),
      looked_at("look_safetensors_overlap", "x.safetensors",
                safetensors(overlap, std::string(12, 'a'))),
      looked_at("look_idx_cut", "x-ubyte", std::string("\0\0\x08\x03\0\0\x10", 7)),
      Misuse{"look_checkpoint",
             {{"k/manifest.json", "{\"format\": 1}"}, {"k/model.safetensors", ""}},
             {"inspect", "k"},
             "k"},
      Misuse{"predict_checkpoint",
             {{"k/manifest.json", std::string(100000, '[')}},
             {"predict", "k", "--data", "x.npy", "--out", "y.npy"},
             "k"},
  };
}

std::vector<Misuse> of_outputs() {
  const File good{"c.toml", small_config()};
  return {
      {"out_is_a_file",
       {good, {"o", "mine"}},
       {"train", "c.toml", "--out", "o"},
       "there is a file of that name"},
      {"out_is_not_empty",
       {good, {"o/a", "mine"}},
       {"train", "c.toml", "--out", "o"},
       "it is not empty"},
      {"out_below_a_file", {good, {"o", "mine"}}, {"train", "c.toml", "--out", "o/p"}, "\"o\""},
      {"out_cannot_be_made",
       {good},
       {"train", "c.toml", "--out", "/proc/ebb-run"},
       "/proc/ebb-run"},
      {"init_over_another", {{"mlp.toml", "mine"}}, {"init", "mlp"}, "--force writes over it"},
      {"init_below_a_file", {{"o", "mine"}}, {"init", "mlp", "o"}, "o"},
  };
}

std::vector<Misuse> all_of_them() {
  std::vector<Misuse> all;
  for (const auto& some :
       {of_the_line(), of_configs(), of_data(), of_hostile_files(), of_outputs()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

class MisuseTable : public Commands, public testing::WithParamInterface<Misuse> {};

TEST_P(MisuseTable, isOneClearLine) {
  const Misuse& m = GetParam();
  for (const File& f : m.files) put(f.name, f.content);
  const std::vector<std::string> before = files();
  const Ran ran = ebb(m.arguments);
  expect_line(ran, m.code, m.text);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(files(), before);
}
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

// What a user may not read or write; root may.
TEST_F(Budgets, permissionsAreSaid) {
  put("c.toml", small_config());
  put("closed.toml", small_config());
  const std::string other =
      ::geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups " : "";
  ASSERT_EQ(shell("chmod 755 . && chmod 0 closed.toml").code, 0);
  if (shell(other + "$EBB --version").code != 0)
    GTEST_SKIP() << "nobody else can run the program here";
  const std::string as_other = "HOME=/nonexistent " + other;
  expect_line(shell(as_other + "$EBB train closed.toml"), 2, "closed.toml");
  ASSERT_EQ(shell("chmod 555 .").code, 0);
  expect_line(shell(as_other + "$EBB train c.toml -q"), 2, "runs");
  expect_line(shell(as_other + "$EBB init mlp"), 2, "mlp.toml");
  ASSERT_EQ(shell("chmod 755 .").code, 0);
  EXPECT_EQ(files(), (std::vector<std::string>{"c.toml", "closed.toml"}));
}

}  // namespace
}  // namespace ebb::test
