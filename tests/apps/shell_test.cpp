// What Ebb says of itself: help, completions, the man page.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/command.hpp"

namespace ebb::test {
namespace {

constexpr const char* kCommands[] = {
    "init",     "config",  "config keys", "config show", "doctor",     "plan",
    "train",    "resume",  "verify",      "eval",        "predict",    "grad",
    "generate", "inspect", "vocab",       "help",        "completion", "man"};

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::size_t columns(const std::string& line) {
  std::size_t n = 0;
  for (const char c : line) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

TEST_F(Commands, helpTeachesWithExamples) {
  for (const char* command : kCommands) {
    std::vector<std::string> asked = words(command), help = {"help"};
    help.insert(help.end(), asked.begin(), asked.end());
    asked.emplace_back("--help");
    const Ran ran = ebb(asked);
    EXPECT_EQ(ran.code, 0);
    EXPECT_EQ(ran.err, "");
    EXPECT_EQ(ran.out, ebb(help).out);
    EXPECT_TRUE(ran.out.starts_with(fmt::format("ebb {}: ", command))) << ran.out;
    EXPECT_HAS(ran.out, fmt::format("usage: ebb {}", command));
    EXPECT_HAS(ran.out, "examples:\n  ");
    std::istringstream lines(ran.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), 80u) << line;
  }
  const Ran all = ebb({"help"});
  EXPECT_EQ(all.out, ebb({"--help"}).out);
  for (const char* command : kCommands) {
    if (std::string(command).starts_with("config ")) continue;
    EXPECT_HAS(all.out, fmt::format("\n  {} ", command));
  }
  EXPECT_EQ(all.out.find("verify-run"), std::string::npos) << "it is no command for people";
  EXPECT_EQ(ebb({"--version"}).out, "ebb " EBB_VERSION "\n");
}

// What bash offers at the end of a line.
class Completion : public Commands {
 protected:
  std::string offered(const std::vector<std::string>& line) {
    std::string script = "eval \"$($EBB completion bash)\"\nCOMP_WORDS=(";
    for (const std::string& w : line) script += "'" + w + "' ";
    script +=
        fmt::format(")\nCOMP_CWORD={}\n_ebb\nprintf '%s ' \"${{COMPREPLY[@]}}\"", line.size() - 1);
    const Ran ran = shell(script);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    return ran.out;
  }
};

TEST_F(Completion, ofBashKnowsCommandsOptionsValuesAndFiles) {
  put("train.toml", "");
  put("runs/one/a", "");
  EXPECT_EQ(offered({"ebb", "pr"}), "predict ");
  EXPECT_EQ(offered({"ebb", "config", "s"}), "show ");
  EXPECT_EQ(offered({"ebb", "train", "--me"}), "--memory ");
  EXPECT_EQ(offered({"ebb", "train", "tr"}), "train.toml ");
  EXPECT_EQ(offered({"ebb", "train", "train.toml", "--memory", "a"}), "auto ");
  EXPECT_EQ(offered({"ebb", "train", "train.toml", "--set", "train.ep"}),
            "train.epochs= train.eps= ");
  EXPECT_EQ(offered({"ebb", "train", "--set", "train.lr", "=", "0.1", "--q"}), "--quiet ");
  EXPECT_EQ(offered({"ebb", "train", "--memory", "=", "au"}), "auto ");
  EXPECT_EQ(offered({"ebb", "init", "g"}), "gpt ");
  EXPECT_EQ(offered({"ebb", "resume", "ru"}), "runs ");
  EXPECT_EQ(offered({"ebb", "completion", ""}), "bash zsh fish ");
  EXPECT_EQ(offered({"ebb", "help", "ver"}), "verify ");
}

TEST_F(Completion, ofOtherShellsCanBeRead) {
  put("zsh", ebb({"completion", "zsh"}).out);
  put("fish", ebb({"completion", "fish"}).out);
  EXPECT_TRUE(content("zsh").starts_with("#compdef ebb\n"));
  EXPECT_HAS(content("zsh"), "'--memory[budget of the whole process");
  EXPECT_HAS(content("fish"), "__fish_seen_subcommand_from train' -l memory");
  const Ran zsh = shell("command -v zsh >/dev/null || exit 0; zsh -n zsh");
  EXPECT_EQ(zsh.code, 0) << zsh.err;
  const Ran fish = shell("command -v fish >/dev/null || exit 0; fish -n fish");
  EXPECT_EQ(fish.code, 0) << fish.err;
}

TEST_F(Commands, theManPageIsWholeAndWellFormed) {
  const Ran page = ebb({"man"});
  EXPECT_TRUE(page.out.starts_with(".TH EBB 1")) << page.out;
  for (const char* part :
       {".SH EXIT STATUS", ".SH ENVIRONMENT", "ebb verify CONFIG", "\\-\\-memory"})
    EXPECT_HAS(page.out, part);
  put("ebb.1", page.out);
  const Ran read = shell(
      "command -v groff >/dev/null || exit 0; LC_ALL=C.UTF-8 groff -man -ww -K utf8 -T utf8 ebb.1");
  EXPECT_EQ(read.code, 0);
  EXPECT_EQ(read.err, "");
}

}  // namespace
}  // namespace ebb::test
