// The command line as a value, from which help, the man page and completions are made.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ebb::app {

// What the value of an option is, by the word that stands for it in help: completions go by it.
namespace value {
inline constexpr char kConfig[] = "CONFIG", kFile[] = "FILE", kFolder[] = "FOLDER", kRun[] = "RUN",
                      kPath[] = "PATH", kSize[] = "SIZE", kSetting[] = "KEY=VALUE",
                      kTemplate[] = "TEMPLATE", kShell[] = "SHELL", kCommand[] = "COMMAND",
                      kNumber[] = "N", kNumbers[] = "N,N", kText[] = "TEXT";
}  // namespace value

struct OptionDoc {
  std::vector<std::string> names;  // "--memory", "-q"; none of an argument that has its place
  std::string value;               // one of the words above; "": a flag
  std::string about;
  bool required = false, repeated = false;
  std::string usage() const;  // "--memory SIZE", "CONFIG", "[FOLDER]"
};

struct CommandDoc {
  std::string path;  // "ebb train"
  std::string name;  // "train"
  std::string group, summary, about;
  std::vector<OptionDoc> arguments, options;
  std::vector<std::string> examples;  // lines
  std::vector<CommandDoc> commands;
  std::string usage() const;  // "ebb train CONFIG [OPTIONS]"
};

// Commands whose group is "" are not told of.
CommandDoc describe(const CLI::App& app);
const CommandDoc* find(const CommandDoc& all, const std::vector<std::string>& path);

// Words that a value may be, where they are known: templates, shells, sizes worth a try, keys.
std::vector<std::string> words_of(const std::string& value, const CommandDoc& root);

std::string help_text(const CommandDoc& command);
std::string manual(const CommandDoc& root, const std::string& version);  // for man, in roff
std::string bash_completion(const CommandDoc& root);
std::string zsh_completion(const CommandDoc& root);
std::string fish_completion(const CommandDoc& root);

}  // namespace ebb::app
