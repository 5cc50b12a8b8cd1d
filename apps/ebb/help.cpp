// Help at 80 columns: what a command is for, how it is called, what each option means, examples.
#include <fmt/format.h>

#include "apps/ebb/console.hpp"
#include "apps/ebb/describe.hpp"

namespace ebb::app {
namespace {

// Two columns; what does not fit into the first one has a line of its own.
std::string row(const std::string& left, const std::string& right, std::size_t width) {
  std::string text = "  " + left;
  if (left.size() + 2 > width)
    text += "\n" + std::string(width + 2, ' ');
  else
    text.resize(width + 2, ' ');
  return text + wrapped(right, width + 2) + "\n";
}

std::string table(const char* title, const std::vector<OptionDoc>& all) {
  if (all.empty()) return "";
  std::string text = fmt::format("\n{}:\n", title);
  for (const OptionDoc& o : all) text += row(o.names.empty() ? o.value : o.usage(), o.about, 20);
  return text;
}

std::string paragraphs(const std::string& text) {
  std::string all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    all += (indent > 0 ? line : wrapped(line, 0)) + "\n";
    at = end + 1;
  }
  return all;
}

}  // namespace

std::string help_text(const CommandDoc& c) {
  std::string text = fmt::format("{}: {}\n\nusage: {}\n", c.path, c.summary, c.usage());
  if (!c.about.empty()) text += "\n" + paragraphs(c.about);
  std::string group;
  for (const CommandDoc& sub : c.commands) {
    if (sub.group != group) text += fmt::format("\n{}:\n", sub.group);
    group = sub.group;
    text += row(sub.name, sub.summary, 12);
  }
  text += table("arguments", c.arguments);
  text += table("options", c.options);
  if (!c.examples.empty()) text += "\nexamples:\n";
  for (const std::string& e : c.examples) text += "  " + e + "\n";
  if (!c.commands.empty())
    text += fmt::format("\n{} COMMAND --help says more, with examples.\n", c.path);
  return text;
}

}  // namespace ebb::app
