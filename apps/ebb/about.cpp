// help, completion, man: what Ebb says of itself.
#include <fmt/format.h>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "ebb/base/error.hpp"
#include "ebb/train/config/keys.hpp"

namespace ebb::app {
namespace {

// Of the whole command line, whichever command asks.
CommandDoc whole(const CLI::App* app) {
  while (app->get_parent()) app = app->get_parent();
  return describe(*app);
}

void show_help(const CommandDoc& all, const std::vector<std::string>& path) {
  if (const CommandDoc* found = find(all, path)) return print(help_text(*found));
  std::vector<std::string> names;
  for (const CommandDoc& c : all.commands) names.push_back(c.name);
  const std::string near = train::nearest(path.empty() ? "" : path[0], names);
  throw Error(
      fmt::format("help: there is no command \"{}\"; {}", fmt::join(path, " "),
                  near.empty() ? "ebb help lists them" : fmt::format("do you mean {}?", near)));
}

}  // namespace

void add_about(CLI::App& app) {
  CLI::App* help = app.add_subcommand("help", "what a command does and takes, with examples");
  help->group("more");
  help->footer("ebb help train\nebb help config show\n");
  auto path = std::make_shared<std::vector<std::string>>();
  help->add_option("command", *path, "a command; all of them where none is named")
      ->type_name(value::kCommand);
  help->callback([help, path] { show_help(whole(help), *path); });

  CLI::App* completion = app.add_subcommand(
      "completion",
      "a script for a shell: commands, options, keys, files\n\n"
      "bash: eval it in ~/.bashrc. zsh: write it to a file _ebb in a folder of $fpath. fish: write "
      "it to ~/.config/fish/completions/ebb.fish.");
  completion->group("more");
  completion->footer(
      "eval \"$(ebb completion bash)\"\n"
      "ebb completion zsh > ~/.zfunc/_ebb\n"
      "ebb completion fish > ~/.config/fish/completions/ebb.fish\n");
  auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check([](const std::string& s) {
        return s == "bash" || s == "zsh" || s == "fish"
                   ? std::string()
                   : fmt::format("\"{}\" is none of bash, zsh and fish", s);
      })
      ->type_name(value::kShell);
  completion->callback([completion, shell] {
    const CommandDoc all = whole(completion);
    print(*shell == "bash"  ? bash_completion(all)
          : *shell == "zsh" ? zsh_completion(all)
                            : fish_completion(all));
  });

  CLI::App* man = app.add_subcommand("man", "the manual page, for man");
  man->group("more");
  man->footer("ebb man > ebb.1 && man -l ebb.1\n");
  man->callback([man] { print(manual(whole(man), EBB_VERSION)); });
}

}  // namespace ebb::app
