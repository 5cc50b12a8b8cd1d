#include "ebb/train/config/config.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "ebb/base/files/file.hpp"
#include "ebb/train/config/contradictions.hpp"
#include "ebb/train/config/field-inl.hpp"

namespace ebb::train {
namespace {

struct Override {
  std::string section, name;
  TomlValue value;
};

bool takes_text(const ConfigKey& k) { return k.expected.starts_with("a text"); }

// "section.key=value"
Override parse_override(const std::string& text) {
  const auto source = "--set " + shown_text(text);
  const auto equals = text.find('=');
  const auto dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals)
    throw Error(fmt::format("{}: expected section.key=value, such as train.lr=0.01", source));
  Override o{text.substr(0, dot), text.substr(dot + 1, equals - dot - 1), {}};
  const std::string raw = text.substr(equals + 1);
  o.value = parse_toml_value(raw, source);
  const ConfigKey& k = key(o.section + "." + o.name);
  if (takes_text(k) && !std::holds_alternative<TomlList>(o.value.is) &&
      !std::holds_alternative<std::string>(o.value.is))
    o.value.is = raw;  // a folder that is named 2024
  return o;
}

TomlTable* section_of(TomlTable& document, const std::string& name) {
  for (TomlEntry& e : document)
    if (e.name == name) return std::get_if<TomlTable>(&e.value.is);
  return nullptr;
}

// Keys of which one stands for the other: what is said last counts.
constexpr std::pair<const char*, const char*> kInstead[] = {
    {"epochs", "steps"},
    {"steps", "epochs"},
    {"validation_path", "validation_fraction"},
    {"validation_path", "validation_seed"},
    {"validation_fraction", "validation_path"}};

void apply(TomlTable& document, const Override& o) {
  TomlTable* section = section_of(document, o.section);
  if (!section) {
    if (has(document, o.section)) return;  // no table: refused when it is read
    document.push_back({o.section, o.value.place, {o.value.place, TomlTable{}}});
    section = std::get_if<TomlTable>(&document.back().value.is);
  }
  std::erase_if(*section, [&](const TomlEntry& e) {
    if (e.name == o.name) return true;
    return std::any_of(std::begin(kInstead), std::end(kInstead), [&](const auto& pair) {
      return o.name == pair.first && e.name == pair.second;
    });
  });
  section->push_back({o.name, o.value.place, o.value});
}

// Paths of a file are relative to its folder.
void settle_paths(TomlTable& document, const std::filesystem::path& folder) {
  TomlTable* data = section_of(document, "data");
  if (!data) return;
  const auto settle = [&](TomlValue& v) {
    auto* text = std::get_if<std::string>(&v.is);
    if (text && !text->empty() && text->find('\0') == std::string::npos)
      *text = (folder / *text).lexically_normal().string();
  };
  const auto is_file = [](const TomlEntry& e) {
    const auto* text = std::get_if<std::string>(&e.value.is);
    return e.name == "vocabulary" && text && *text != "bytes";
  };
  for (TomlEntry& e : *data) {
    if (!e.name.ends_with("path") && !is_file(e)) continue;
    settle(e.value);
    if (auto* list = std::get_if<TomlList>(&e.value.is))
      for (TomlValue& v : *list) settle(v);
  }
}

template <class S>
void read_section(const TomlEntry& entry, S& into) {
  const auto* table = std::get_if<TomlTable>(&entry.value.is);
  if (!table) refuse(entry.value, entry.name, fmt::format("a section: [{}]", entry.name));
  read_fields(*table, entry.place, entry.name, into);
}

Config read(const TomlTable& document, const std::string& name) {
  Config c;
  constexpr std::string_view kSections[] = {"model", "data", "train", "memory", "every", "output"};
  for (const TomlEntry& e : document)  // first: one that is missing may be misspelt
    if (std::ranges::find(kSections, e.name) == std::end(kSections)) refuse_unknown(e, "", "");
  if (!has(document, "model"))
    throw Error(
        fmt::format("{}: there is no [model] section; it says model.kind, {}, or model.layers",
                    name, expected_word(names_of<ModelKind>())));
  if (!has(document, "data"))
    throw Error(
        fmt::format("{}: there is no [data] section; it says data.path, or a data.format "
                    "that is generated",
                    name));
  for (const TomlEntry& e : document) {
    if (e.name == "model") {
      read_section(e, c.model);
    } else if (e.name == "data") {
      read_section(e, c.data);
    } else if (e.name == "train") {
      read_section(e, c.train);
    } else if (e.name == "memory") {
      read_section(e, c.memory);
    } else if (e.name == "every") {
      read_section(e, c.every);
    } else if (e.name == "output") {
      read_section(e, c.output);
    }
  }
  refuse_contradictions(c, document, name);
  return c;
}

Config with_overrides(TomlTable document, const std::string& name,
                      std::vector<Override> overrides) {
  for (const Override& o : overrides) apply(document, o);
  return read(document, name);
}

std::vector<Override> parse_overrides(const std::vector<std::string>& texts) {
  std::vector<Override> all;
  for (const std::string& text : texts) all.push_back(parse_override(text));
  return all;
}

template <class S>
std::string section_text(const char* name, const S& s) {
  std::string to = fmt::format("[{}]\n", name);
  for (const auto& [key, text] : write_fields(s)) to += fmt::format("{} = {}\n", key, text);
  return to;
}

using Keys = std::map<std::string, std::string>;

template <class S>
void add_keys(const std::string& section, const S& s, Keys& to) {
  for (auto& [key, text] : write_fields(s)) to[section + "." + key] = std::move(text);
}
// Of tables inside of a table, each its own.
template <class S>
void add_tables(const std::string& name, const std::vector<S>& all, Keys& to) {
  to.erase(name);
  for (std::size_t i = 0; i < all.size(); ++i) add_keys(fmt::format("{}[{}]", name, i), all[i], to);
}

}  // namespace

Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides) {
  return with_overrides(parse_toml(text, name), name, parse_overrides(overrides));
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  std::vector<Override> all = parse_overrides(overrides);
  TomlTable document = parse_toml(read_file(path), path);
  const auto here = std::filesystem::current_path();
  settle_paths(document, (here / path).parent_path());
  for (Override& o : all) {
    TomlTable one = {
        {o.section, o.value.place, {o.value.place, TomlTable{{o.name, o.value.place, o.value}}}}};
    settle_paths(one, here);
    o.value = std::get<TomlTable>(one[0].value.is)[0].value;
  }
  return with_overrides(std::move(document), path, std::move(all));
}

std::string to_toml(const Config& c) {
  return section_text("model", c.model) + "\n" + section_text("data", c.data) + "\n" +
         section_text("train", c.train) + "\n" + section_text("memory", c.memory) + "\n" +
         section_text("every", c.every) + "\n" + section_text("output", c.output);
}

std::map<std::string, std::string> to_keys(const Config& c) {
  Keys all;
  add_keys("model", c.model, all);
  add_tables("model.layers", c.model.layers, all);
  add_keys("data", c.data, all);
  add_keys("train", c.train, all);
  add_tables("train.groups", c.train.groups, all);
  add_keys("memory", c.memory, all);
  add_keys("every", c.every, all);
  add_keys("output", c.output, all);
  return all;
}

void check(const Config& config) {
  if (parse_config(to_toml(config)) == config) return;
  throw Error(
      "config: a field is set that does not count with the others, such as model.width of an mlp");
}

}  // namespace ebb::train
