#include "ebb/train/config/keys.hpp"

#include <algorithm>

#include "ebb/base/nearest.hpp"
#include "ebb/train/config/field-inl.hpp"

namespace ebb::train {
namespace {

template <class S>
void append(std::vector<ConfigKey>& to) {
  for (const Field<S>& f : fields<S>().all()) to.push_back(f.key);
}

std::vector<std::string> names_in(std::string_view section) {
  std::vector<std::string> all;
  for (const ConfigKey& k : keys())
    if (k.section == section) all.push_back(k.name);
  return all;
}

std::string hint(std::string_view section, const std::string& word) {
  const std::vector<std::string> here = names_in(section);
  const std::string near = nearest(word, here);
  const std::string prefix = section.empty() ? "" : std::string(section) + ".";
  if (!near.empty() && edits(word, near) <= 1)
    return fmt::format("do you mean {}{}?", prefix, near);
  for (const ConfigKey& k : keys())
    if (k.name == word) return fmt::format("do you mean {}?", k.full());
  if (!near.empty()) return fmt::format("do you mean {}{}?", prefix, near);
  constexpr std::size_t kReadable = 12;
  if (here.size() > kReadable) return "ebb config keys lists those there are";
  return fmt::format("there are {}", fmt::join(here, ", "));
}

std::string section_hint(const std::string& word) {
  std::vector<std::string> names;
  for (const ConfigSection& s : sections())
    if (!s.repeated) names.push_back(s.name);
  for (const ConfigKey& k : keys())
    if (k.name == word) return fmt::format("do you mean {}?", k.full());
  const std::string near = nearest(word, names);
  if (!near.empty()) return fmt::format("do you mean [{}]?", near);
  return fmt::format("there are [{}]", fmt::join(names, "], ["));
}

}  // namespace

const std::vector<ConfigSection>& sections() {
  static const std::vector<ConfigSection> all = {
      {"model", "What is trained: a preset with its options, or a list of layers."},
      {"model.layers",
       "One layer of `model.layers`. Shapes follow from layer to layer; those of one example are "
       "(features), (length, channels) or (height, width, channels).",
       true},
      {"data", "What it learns from, what is held out, and in which order rows come."},
      {"train", "How: batch, length, loss, optimizer, learning rate, when to stop."},
      {"train.groups", "Parameters that are trained otherwise, chosen by name.", true},
      {"memory", "How much memory, and what may be done to keep to it."},
      {"every",
       "What is done how often: a number of steps, or a text such as \"1 epoch\", \"10min\", "
       "\"1.5h\", \"never\"."},
      {"output", "What is kept of a run, and where."}};
  return all;
}

const std::vector<ConfigKey>& keys() {
  static const std::vector<ConfigKey> all = [] {
    std::vector<ConfigKey> k;
    append<ModelConfig>(k);
    append<LayerConfig>(k);
    append<DataConfig>(k);
    append<TrainConfig>(k);
    append<GroupConfig>(k);
    append<MemoryConfig>(k);
    append<EveryConfig>(k);
    append<OutputConfig>(k);
    return k;
  }();
  return all;
}

const ConfigKey& key(std::string_view full_name) {
  for (const ConfigKey& k : keys())
    if (k.full() == full_name) return k;
  const auto dot = full_name.find('.');
  const std::string section(full_name.substr(0, dot));
  const std::string name(dot == full_name.npos ? "" : full_name.substr(dot + 1));
  const auto known = std::any_of(sections().begin(), sections().end(),
                                 [&](const ConfigSection& s) { return s.name == section; });
  throw Error(fmt::format("there is no key {}; {}", shown_text(full_name),
                          known ? hint(section, name) : section_hint(section)));
}

void refuse_unknown(const TomlEntry& entry, const std::string& path, const std::string& section) {
  if (section.empty())
    throw Error(fmt::format("{}: there is no section {}; {}", to_string(entry.place),
                            shown_text(entry.name), section_hint(entry.name)));
  throw Error(fmt::format("{}: there is no key {} in {}; {}", to_string(entry.place),
                          shown_text(entry.name), path, hint(section, entry.name)));
}

std::string keys_text() {
  std::string to;
  for (const ConfigSection& s : sections()) {
    to += fmt::format("{}{}{}\n", s.repeated ? "[[" : "[", s.name, s.repeated ? "]]" : "]");
    for (const ConfigKey& k : keys()) {
      if (k.section != s.name) continue;
      to += fmt::format("  {:<26} {}\n", k.name, k.doc);
      to += fmt::format("  {:<26} {}; default {}{}\n", "", k.expected, k.standard,
                        k.only.empty() ? "" : "; with " + k.only);
    }
    to += "\n";
  }
  to.pop_back();
  return to;
}

}  // namespace ebb::train
