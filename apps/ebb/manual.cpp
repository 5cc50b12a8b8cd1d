// The man page, in the macros that man(7) describes.
#include <fmt/format.h>

#include "apps/ebb/describe.hpp"

namespace ebb::app {
namespace {

std::string escaped(const std::string& text) {
  std::string all;
  for (const char c : text) {
    if (c == '\\')
      all += "\\e";
    else if (c == '-')
      all += "\\-";
    else if (c == '~')
      all += "\\(ti";
    else if ((c == '.' || c == '\'') && (all.empty() || all.back() == '\n'))
      all += std::string("\\&") + c;
    else
      all += c;
  }
  return all;
}

std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return escaped(text) + ".";
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }

std::string option(const OptionDoc& o) {
  std::string names;
  for (const std::string& n : o.names) names += (names.empty() ? "" : ", ") + bold(n);
  const std::string value = o.value.empty() ? "" : "\\fI" + escaped(o.value) + "\\fR";
  return fmt::format(".TP\n{}{}{}\n{}\n", names, names.empty() || value.empty() ? "" : " ", value,
                     escaped(o.about));
}

std::string examples(const CommandDoc& c) {
  if (c.examples.empty()) return "";
  std::string text = ".PP\n.nf\n";
  for (const std::string& e : c.examples) text += ".RS 4\n" + escaped(e) + "\n.RE\n";
  return text + ".fi\n";
}

std::string command(const CommandDoc& c) {
  std::string text = fmt::format(".SS {}\n{}\n", escaped(c.usage()), sentence(c.summary));
  if (!c.about.empty()) text += ".PP\n" + escaped(c.about) + "\n";
  for (const OptionDoc& o : c.arguments) text += option(o);
  for (const OptionDoc& o : c.options)
    if (o.names.back() != "--help") text += option(o);
  text += examples(c);
  for (const CommandDoc& sub : c.commands) text += command(sub);
  return text;
}

constexpr char kEnd[] =
    ".SH EXIT STATUS\n"
    ".TP\n0\nDone.\n"
    ".TP\n1\nSomething failed on the way: the disk is full, a loss is not a number, a promise did "
    "not hold.\n"
    ".TP\n2\nThe command line, the config or a file is not as it should be; the line on standard "
    "error says where.\n"
    ".TP\n3\nThe budget cannot be met; what could be is listed.\n"
    ".TP\n128 + n\nEnded by signal n. A run that trains has saved before.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n\\fBEBB_THREADS\\fR\nThreads that compute; as many as there are CPUs where it is not "
    "set.\n"
    ".TP\n\\fBTMPDIR\\fR\nWhere spill files are, if the config does not say.\n"
    ".TP\n\\fBNO_COLOR\\fR\nIf set, no colours on the terminal.\n"
    ".TP\n\\fBEBB_MACHINE\\fR\nFile with the measured speeds of this machine; off: they are "
    "measured anew.\n"
    ".SH FILES\n"
    ".TP\n\\fIruns/NAME\\fR\nWhat a run keeps: config.toml, plan.txt, metrics.jsonl, metrics.csv, "
    "log.txt, "
    "checkpoints/, model/.\n"
    ".TP\n\\fI\\(ti/.cache/ebb\\fR\nSpeeds of this machine, and rows made of files.\n";

}  // namespace

std::string manual(const CommandDoc& root, const std::string& version) {
  std::string text = fmt::format(
      ".TH EBB 1 \"\" \"ebb {}\" \"User Commands\"\n.SH NAME\nebb \\- {}\n.SH SYNOPSIS\n"
      ".B ebb\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n{}\n{}.SH COMMANDS\n",
      version, escaped(root.summary), escaped(root.about), examples(root));
  for (const CommandDoc& c : root.commands) text += command(c);
  return text + kEnd;
}

}  // namespace ebb::app
