#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "apps/ebb/commands.hpp"
#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"
#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/train/config/keys.hpp"
#include "ebb/train/config/templates.hpp"

namespace ebb::app {
namespace {

struct Init {
  std::string name, folder = ".";
  bool list = false, force = false, json = false;

  void show() const {
    if (json) {
      nlohmann::json all = nlohmann::json::array();
      for (const train::Template& t : train::templates())
        all.push_back({{"name", t.name}, {"about", t.about}});
      return print(all.dump() + "\n");
    }
    std::string text;
    for (const train::Template& t : train::templates())
      text += fmt::format("{:<10} {}\n", t.name, wrapped(t.about, 11));
    print(text);
  }

  void run() const {
    if (list) return show();
    if (name.empty()) throw Error("init: which template? ebb init --list shows them");
    const train::Template& t = train::find_template(name);
    const std::string config = folder == "." ? t.name + ".toml" : folder + "/" + t.name + ".toml";
    std::vector<std::string> paths = {folder + "/" + t.name + ".toml"};
    for (const train::TemplateFile& f : t.files) paths.push_back(folder + "/" + f.path);
    const auto content = [&](std::size_t i) {
      return i == 0 ? t.text() : t.files[i - 1].content();
    };
    for (std::size_t i = 0; i < paths.size(); ++i)
      if (!force && file_exists(paths[i]) && read_file(paths[i], 64_MiB) != content(i))
        throw Error(fmt::format("init: {} is there already; --force writes over it", paths[i]));
    for (std::size_t i = 0; i < paths.size(); ++i) {
      make_directories(paths[i].substr(0, paths[i].rfind('/')));
      write_file(paths[i], content(i));
    }
    say(fmt::format("wrote {}: {}\nnext: ebb train {}\n", config, t.about, config));
  }
};

void show_keys(const std::string& word) {
  if (word.empty()) return print(train::keys_text());
  std::string text;
  for (const train::ConfigKey& k : train::keys())
    if (k.full().find(word) != std::string::npos)
      text += fmt::format("{} = {}\n    {}\n    {}\n", k.full(), k.example, wrapped(k.doc, 4),
                          wrapped(fmt::format("{}; {}{}", k.expected, k.standard,
                                              k.only.empty() ? "" : "; with " + k.only),
                                  4));
  if (text.empty()) {
    std::vector<std::string> names;
    for (const train::ConfigKey& k : train::keys()) names.push_back(k.name);
    const std::string near = train::nearest(word, names);
    for (const train::ConfigKey& k : train::keys())
      if (k.name == near)
        throw Error(
            fmt::format("config keys: there is no key \"{}\"; do you mean {}?", word, k.full()));
    throw Error(fmt::format("config keys: there is no key \"{}\"", word));
  }
  print(text);
}

}  // namespace

void add_init(CLI::App& app) {
  auto init = std::make_shared<Init>();
  CLI::App* c = app.add_subcommand("init",
                                   "write a config that runs as it is\n\n"
                                   "Every key that it sets is explained beside it; data that it "
                                   "needs is written, too. Nothing is downloaded, "
                                   "and no file that is there is changed.");
  c->group(group::kBegin);
  c->footer(
      "ebb init --list\n"
      "ebb init gpt first        # first/gpt.toml and its text\n"
      "ebb train first/gpt.toml\n");
  c->add_option("template", init->name, "mlp, cnn, lstm, gpt, encoder or tabular")
      ->type_name(value::kTemplate);
  c->add_option("folder", init->folder, "where to; here where it is not said")
      ->type_name(value::kFolder);
  c->add_flag("--list", init->list, "show the templates there are");
  c->add_flag("--force", init->force, "write over files that are there");
  c->add_flag("--json", init->json, "with --list: a JSON array, for programs");
  add_quiet(*c);
  c->callback([init] { init->run(); });

  CLI::App* config = app.add_subcommand("config", "what a config may say");
  config->group(group::kBegin);
  config->footer("ebb config keys | less\nebb config show train.toml --set train.lr=0.01\n");
  config->require_subcommand(1);
  CLI::App* keys = config->add_subcommand("keys", "every key, with what it means and may be");
  keys->group("commands");
  keys->footer(
      "ebb config keys | less\nebb config keys lr          # those with lr in their name\n");
  auto word = std::make_shared<std::string>();
  keys->add_option("word", *word, "only keys with this in their name")->type_name(value::kText);
  keys->callback([word] { show_keys(*word); });
  auto flags = std::make_shared<ConfigFlags>();
  CLI::App* show = config->add_subcommand("show", "a config as resolved: every key that counts");
  show->group("commands");
  show->footer("ebb config show train.toml --memory 64MiB\n");
  flags->add(*show);
  show->callback([flags] { print(train::to_toml(flags->load())); });
}

}  // namespace ebb::app
