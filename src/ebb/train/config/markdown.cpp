// docs/config.md
#include <fmt/format.h>

#include "ebb/train/config/keys.hpp"

namespace ebb::train {
namespace {

constexpr const char* kOpening = R"(# The config file

One TOML file says what is trained, on what, how and in how much memory. `ebb init` writes one that runs as
it is; `ebb config keys` prints this page. A key that is not here is refused, with the nearest name. Any key can
be given at the command line: `--set train.lr=0.01`.

Sizes are written as people write them ("64MiB", "1.5GB"), as are times ("10min", "1.5h") and large numbers (1_000_000).
A value in brackets is what is taken where the key is left out and there is no fixed value.

(This page is made from the table of keys in `train/config`: `EBB_REGENERATE=1 ./test train/ConfigDocs`.)
)";

// A cell of a table: '|' would end it.
std::string cell(const std::string& text) {
  std::string to;
  for (const char c : text) {
    if (c == '|') to += '\\';
    to += c;
  }
  return to;
}

std::string code(const std::string& text) {
  return text.empty() ? "" : text.starts_with('(') ? text : "`` " + text + " ``";
}

}  // namespace

std::string keys_markdown() {
  std::string to = kOpening;
  for (const ConfigSection& s : sections()) {
    to += fmt::format("\n## {}{}{}\n\n{}\n\n", s.repeated ? "[[" : "[", s.name,
                      s.repeated ? "]]" : "]", s.doc);
    to +=
        "| key | what it is | expected | default | example | only with "
        "|\n|---|---|---|---|---|---|\n";
    for (const ConfigKey& k : keys())
      if (k.section == s.name)
        to += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", k.name, cell(k.doc),
                          cell(k.expected), cell(code(k.standard)), cell(code(k.example)),
                          cell(k.only));
  }
  return to;
}

}  // namespace ebb::train
