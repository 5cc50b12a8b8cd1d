#include "apps/ebb/describe.hpp"

#include <fmt/core.h>

#include "ebb/train/config/keys.hpp"
#include "ebb/train/config/templates.hpp"

namespace ebb::app {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    if (!line.empty()) all.push_back(std::move(line));
    at = end + 1;
  }
  return all;
}

OptionDoc describe(const CLI::Option& option) {
  OptionDoc d;
  for (const std::string& n : option.get_snames()) d.names.push_back("-" + n);
  for (const std::string& n : option.get_lnames()) d.names.push_back("--" + n);
  if (option.get_items_expected_max() > 0) {
    d.value = option.get_type_name();
    d.value.resize(std::min(d.value.find(':'), d.value.size()));  // behind it, what is checked
  }
  d.about = option.get_description();
  d.required = option.get_required();
  d.repeated = option.get_items_expected_max() > 1;
  return d;
}

CommandDoc describe(const CLI::App& app, const std::string& above) {
  CommandDoc c;
  c.name = app.get_name();
  c.path = above.empty() ? c.name : above + " " + c.name;
  c.group = app.get_group();
  const std::string text = app.get_description();
  const std::size_t cut = text.find("\n\n");
  c.summary = text.substr(0, cut);
  if (cut != std::string::npos) c.about = text.substr(cut + 2);
  c.examples = lines_of(app.get_footer());
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_group().empty()) continue;
    (o->get_positional() ? c.arguments : c.options).push_back(describe(*o));
  }
  for (const CLI::App* a : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!a->get_group().empty()) c.commands.push_back(describe(*a, c.path));
  return c;
}

}  // namespace

CommandDoc describe(const CLI::App& app) {
  std::string above;
  for (const CLI::App* a = app.get_parent(); a; a = a->get_parent())
    above = a->get_name() + (above.empty() ? "" : " ") + above;
  return describe(app, above);
}

const CommandDoc* find(const CommandDoc& all, const std::vector<std::string>& path) {
  const CommandDoc* at = &all;
  for (const std::string& word : path) {
    const auto next = std::find_if(at->commands.begin(), at->commands.end(),
                                   [&](const CommandDoc& c) { return c.name == word; });
    if (next == at->commands.end()) return nullptr;
    at = &*next;
  }
  return at;
}

std::string OptionDoc::usage() const {
  if (names.empty()) return required ? value : "[" + value + "]";
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : ", ") + n;
  return value.empty() ? text : text + " " + value;
}

std::string CommandDoc::usage() const {
  std::string text = path;
  for (const OptionDoc& a : arguments) text += " " + a.usage() + (a.repeated ? "…" : "");
  for (const OptionDoc& o : options)
    if (o.required) text += " " + o.usage();
  if (!commands.empty()) text += std::string(" ") + value::kCommand;
  if (options.size() > 1) text += " [OPTIONS]";
  return text;
}

std::vector<std::string> words_of(const std::string& value, const CommandDoc& root) {
  std::vector<std::string> words;
  if (value == value::kShell) return {"bash", "zsh", "fish"};
  if (value == value::kSize) return {"auto", "none", "48MiB", "64MiB", "256MiB", "1GiB"};
  if (value == value::kTemplate)
    for (const train::Template& t : train::templates()) words.push_back(t.name);
  if (value == value::kSetting)
    for (const train::ConfigKey& k : train::keys())
      if (k.section.find('.') == std::string::npos) words.push_back(k.full() + "=");
  if (value == value::kCommand)
    for (const CommandDoc& c : root.commands) words.push_back(c.name);
  return words;
}

}  // namespace ebb::app
