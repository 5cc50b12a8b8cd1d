// Completion scripts for three shells. All that a shell needs to know is in the script: nothing of Ebb runs
// when a key is pressed.
#include <fmt/format.h>

#include <functional>

#include "apps/ebb/describe.hpp"

namespace ebb::app {
namespace {

bool is_file(const std::string& v) {
  return v == value::kConfig || v == value::kFile || v == value::kPath;
}
bool is_folder(const std::string& v) { return v == value::kFolder || v == value::kRun; }

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// In single quotes, for any of the shells.
std::string in_quotes(const std::string& text) {
  std::string all = "'";
  for (const char c : text) all += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return all + "'";
}

std::vector<std::string> names_of(const CommandDoc& c) {
  std::vector<std::string> names;
  for (const OptionDoc& o : c.options) names.insert(names.end(), o.names.begin(), o.names.end());
  return names;
}

std::vector<std::string> commands_of(const CommandDoc& c) {
  std::vector<std::string> names;
  for (const CommandDoc& sub : c.commands) names.push_back(sub.name);
  return names;
}

void each_command(const CommandDoc& c, const std::function<void(const CommandDoc&)>& f) {
  f(c);
  for (const CommandDoc& sub : c.commands) each_command(sub, f);
}

// What bash offers for a value.
std::string bash_value(const std::string& v, const CommandDoc& root) {
  if (is_file(v)) return "_ebb_files";
  if (is_folder(v)) return "_ebb_folders";
  const std::vector<std::string> words = words_of(v, root);
  if (words.empty()) return "";
  return fmt::format("{} {}", v == value::kSetting ? "_ebb_keys" : "_ebb_words",
                     in_quotes(joined(words)));
}

constexpr char kBashBegin[] =
    R"(# Completion of ebb for bash, made by: ebb completion bash
_ebb_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
_ebb_keys() { _ebb_words "$1"; compopt -o nospace 2>/dev/null; }
_ebb_files() { mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null; }
_ebb_folders() { mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null; }
_ebb() {
  local cur=${COMP_WORDS[COMP_CWORD]} command=ebb options='' commands='' valued='' word wants='' i place=0
  COMPREPLY=()
  if [[ $cur == '=' ]]; then cur=''; fi
  _ebb_command
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == '=' ]]; then if [[ -z $wants ]]; then i=$((i + 1)); fi; continue; fi
    if [[ -n $wants ]]; then wants=''; continue; fi
    if [[ " $valued " == *" $word "* ]]; then wants=$word; continue; fi
    if [[ $word == -* ]]; then continue; fi
    if [[ " $commands " == *" $word "* ]]; then command+=" $word"; _ebb_command; else place=$((place + 1)); fi
  done
  if [[ -n $wants ]]; then _ebb_value "$command $wants"; return; fi
  if [[ $cur == -* ]]; then _ebb_words "$options"; return; fi
  if [[ -n $commands ]]; then _ebb_words "$commands"; return; fi
  _ebb_value "$command $place"
}
)";

}  // namespace

std::string bash_completion(const CommandDoc& root) {
  std::string commands = "_ebb_command() {\n  case $command in\n";
  std::string values = "_ebb_value() {\n  case $1 in\n";
  each_command(root, [&](const CommandDoc& c) {
    std::vector<std::string> valued;
    for (const OptionDoc& o : c.options) {
      if (o.value.empty()) continue;
      valued.insert(valued.end(), o.names.begin(), o.names.end());
      if (const std::string v = bash_value(o.value, root); !v.empty())
        for (const std::string& n : o.names)
          values += fmt::format("    {}) {} ;;\n", in_quotes(c.path + " " + n), v);
    }
    for (std::size_t i = 0; i < c.arguments.size(); ++i)
      if (const std::string v = bash_value(c.arguments[i].value, root); !v.empty())
        values += fmt::format("    {}) {} ;;\n", in_quotes(fmt::format("{} {}", c.path, i)), v);
    commands += fmt::format("    {}) options={} commands={} valued={} ;;\n", in_quotes(c.path),
                            in_quotes(joined(names_of(c))), in_quotes(joined(commands_of(c))),
                            in_quotes(joined(valued)));
  });
  return kBashBegin + commands + "  esac\n}\n" + values + "  esac\n}\ncomplete -F _ebb ebb\n";
}

namespace {

// Text in a bracket or before a colon of _arguments.
std::string zsh_escaped(const std::string& text) {
  std::string all;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') all += '\\';
    all += c;
  }
  return all;
}

std::string zsh_action(const std::string& v, const CommandDoc& root) {
  if (is_file(v)) return "_files";
  if (is_folder(v)) return "_files -/";
  const std::vector<std::string> words = words_of(v, root);
  if (words.empty()) return " ";
  if (v == value::kSetting) return fmt::format("compadd -S \"\" -- {}", joined(words));
  return fmt::format("({})", joined(words));
}

std::string zsh_function(const std::string& path) {
  std::string name = "_" + path;
  for (char& c : name)
    if (c == ' ' || c == '-') c = '_';
  return name;
}

std::string zsh_command(const CommandDoc& c, const CommandDoc& root) {
  std::string text = fmt::format("{}() {{\n", zsh_function(c.path));
  text += c.commands.empty() ? "  _arguments -s" : "  local state line\n  _arguments -s -C";
  for (const OptionDoc& o : c.options)
    for (const std::string& n : o.names) {
      std::string spec = (o.repeated ? "*" : "") + n + "[" + zsh_escaped(o.about) + "]";
      if (!o.value.empty()) spec += ":" + zsh_escaped(o.value) + ":" + zsh_action(o.value, root);
      text += " \\\n    " + in_quotes(spec);
    }
  for (std::size_t i = 0; i < c.arguments.size(); ++i) {
    const OptionDoc& a = c.arguments[i];
    const std::string place = a.repeated ? std::string("*") : std::to_string(i + 1);
    text += " \\\n    " + in_quotes(fmt::format("{}:{}:{}", place, zsh_escaped(a.value),
                                                zsh_action(a.value, root)));
  }
  if (c.commands.empty()) return text + "\n}\n";
  text +=
      " \\\n    '1: :->command' '*:: :->rest'\n  case $state in\n    command)\n      local -a "
      "all=(";
  for (const CommandDoc& sub : c.commands)
    text += "\n        " + in_quotes(sub.name + ":" + zsh_escaped(sub.summary));
  text += ")\n      _describe command all ;;\n    rest)\n      case $line[1] in\n";
  for (const CommandDoc& sub : c.commands)
    text += fmt::format("        {}) {} ;;\n", sub.name, zsh_function(sub.path));
  return text + "      esac ;;\n  esac\n}\n";
}

// Where a command of the line is the one that `c` is, and no command of its own follows.
std::string fish_condition(const CommandDoc& c, const std::string& path) {
  std::string test;
  for (std::size_t at = path.find(' '); at != std::string::npos; at = path.find(' ', at + 1)) {
    const std::size_t end = std::min(path.find(' ', at + 1), path.size());
    test += (test.empty() ? "" : "; and ") +
            ("__fish_seen_subcommand_from " + path.substr(at + 1, end - at - 1));
  }
  if (!c.commands.empty())
    test += (test.empty() ? "" : "; and ") +
            ("not __fish_seen_subcommand_from " + joined(commands_of(c)));
  return test;
}

std::string fish_value(const std::string& v, const CommandDoc& root) {
  if (is_file(v)) return " -r -F";
  if (is_folder(v)) return " -x -a '(__fish_complete_directories)'";
  const std::vector<std::string> words = words_of(v, root);
  return words.empty() ? " -x" : " -x -a " + in_quotes(joined(words));
}

}  // namespace

std::string zsh_completion(const CommandDoc& root) {
  std::string text = "#compdef ebb\n# Completion of ebb for zsh, made by: ebb completion zsh\n";
  each_command(root, [&](const CommandDoc& c) { text += zsh_command(c, root); });
  return text +
         "if [ \"$funcstack[1]\" = \"_ebb\" ]; then _ebb \"$@\"; else compdef _ebb ebb; fi\n";
}

std::string fish_completion(const CommandDoc& root) {
  std::string text =
      "# Completion of ebb for fish, made by: ebb completion fish\ncomplete -c ebb -f\n";
  each_command(root, [&](const CommandDoc& c) {
    const std::string start =
        fmt::format("complete -c ebb -n {}", in_quotes(fish_condition(c, c.path)));
    for (const CommandDoc& sub : c.commands)
      text += fmt::format("{} -a {} -d {}\n", start, sub.name, in_quotes(sub.summary));
    for (const OptionDoc& o : c.options) {
      text += start;
      for (const std::string& n : o.names)
        text += n.starts_with("--") ? " -l " + n.substr(2) : " -s " + n.substr(1);
      if (!o.value.empty()) text += fish_value(o.value, root);
      text += " -d " + in_quotes(o.about) + "\n";
    }
    for (const OptionDoc& a : c.arguments)
      if (is_file(a.value) || is_folder(a.value) || !words_of(a.value, root).empty())
        text += start + fish_value(a.value, root) + "\n";
  });
  return text;
}

}  // namespace ebb::app
