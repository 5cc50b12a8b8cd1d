#include "apps/ebb/usage.hpp"

#include <fmt/format.h>

#include "apps/ebb/describe.hpp"
#include "ebb/train/config/keys.hpp"

namespace ebb::app {
namespace {

// The command that was named, as far as that is known.
const CLI::App& named(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

// "config show: " of ebb config show; a line begins with "ebb: " anyway.
std::string begin_of(const CLI::App& app) {
  const std::string path = describe(app).path;
  return path == "ebb" ? "" : path.substr(4) + ": ";
}

std::string help_of(const CLI::App& app) {
  const std::string path = describe(app).path;
  return "ebb help" + path.substr(3);
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CommandDoc& c : describe(app).commands) names.push_back(c.name);
  return names;
}

std::string or_help(const std::string& near, const CLI::App& app) {
  return near.empty() ? fmt::format("{} lists what there is", help_of(app))
                      : fmt::format("do you mean {}?", near);
}

std::string unexpected(const CLI::App& command) {
  const CLI::App* root = &command;
  while (root->get_parent()) root = root->get_parent();
  const std::vector<std::string> rest = root->remaining(true);
  std::string found = rest.empty() ? "" : rest.front();
  for (const std::string& r : rest)
    if (r.starts_with("-")) found = r;
  if (!found.starts_with("-") || found == "-") {
    if (!describe(command).commands.empty())
      return fmt::format("{}there is no command \"{}\"; {}", begin_of(command), found,
                         or_help(train::nearest(found, command_names(command)), command));
    return fmt::format("{}\"{}\" is one argument too many; usage: {}", begin_of(command), found,
                       describe(command).usage());
  }
  found = found.substr(0, found.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* o : command.get_options())
    for (const std::string& n : o->get_lnames()) names.push_back("--" + n);
  return fmt::format("{}there is no option {}; {}", begin_of(command), found,
                     or_help(train::nearest(found, names), command));
}

}  // namespace

std::string usage_line(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = named(app);
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) return unexpected(command);
  std::string what = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error)) {
    if (what.find("subcommand") != std::string::npos && !app.remaining(true).empty())
      return unexpected(command);
    if (what.find("subcommand") != std::string::npos)
      return fmt::format("which command? {} lists them", help_of(command));
    // Only one name of what is missing is known: how it stands in the usage is more.
    what.resize(std::min(what.find(" is required"), what.size()));
    for (const CLI::Option* o : command.get_options())
      if (o->get_required() && o->get_positional() && what == o->get_name(true))
        what = o->get_type_name();
    what += " is missing";
  }
  // "Could not convert: --steps = 2.5": what is no number at all, a check of the option has said before.
  if (dynamic_cast<const CLI::ConversionError*>(&error)) {
    const std::size_t name = what.find("--"), value = what.find(" = ");
    if (name < value && value != std::string::npos)
      what = fmt::format("{}: \"{}\" is no whole number", what.substr(name, value - name),
                         what.substr(value + 3));
  }
  return fmt::format("{}{}; usage: {}", begin_of(command), what, describe(command).usage());
}

std::string unknown_command(const CLI::App& app, int count, const char* const* arguments) {
  if (count < 2 || arguments[1][0] == '-') return "";
  const std::string word = arguments[1];
  for (const CLI::App* a : app.get_subcommands([](const CLI::App*) { return true; }))
    if (a->get_name() == word) return "";
  return fmt::format("there is no command \"{}\"; {}", word,
                     or_help(train::nearest(word, command_names(app)), app));
}

}  // namespace ebb::app
