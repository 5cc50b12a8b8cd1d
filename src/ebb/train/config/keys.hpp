// The table of keys: every key of a config, once. Parsing and checking, `--set`, templates, the list that
// `ebb config keys` prints and docs/config.md all come from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/nearest.hpp"

namespace ebb::train {

struct ConfigKey {
  std::string section;   // "model", "model.layers" …
  std::string name;      // "hidden"
  std::string expected;  // "a list of whole numbers of 1 or more"
  std::string standard;  // what it is when it is left out: a value of TOML, or words in brackets
  std::string doc;       // one line
  std::string example;   // a value of TOML
  std::string only;      // "kind = mlp": where it counts; "": everywhere
  std::string full() const { return section + "." + name; }
};

struct ConfigSection {
  std::string name, doc;
  bool repeated = false;  // [[model.layers]]
};

const std::vector<ConfigSection>& sections();
const std::vector<ConfigKey>& keys();              // in the order of the sections
const ConfigKey& key(std::string_view full_name);  // throws, naming the nearest one

using ebb::nearest;  // for names on the command line

std::string keys_text();      // for a terminal
std::string keys_markdown();  // docs/config.md

}  // namespace ebb::train
