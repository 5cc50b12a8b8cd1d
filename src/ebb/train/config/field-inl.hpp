// How a section's table of keys is written: a Field ties a key to a member of its struct.
//
//   table.add("batch", &TrainConfig::batch, {.low = 1}, "examples in one optimizer step", "64");
//   table.add("momentum", &TrainConfig::momentum, {.low = 0}, "…", "0.9").only("optimizer", …);
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/train/config/codec.hpp"
#include "ebb/train/config/keys.hpp"

namespace ebb::train {

template <class S>
struct Field {
  ConfigKey key;
  std::function<void(S&, const TomlValue&, const std::string& name)> read;
  std::function<std::optional<std::string>(const S&)> write;  // TOML; none: it is not set
  // The setting of another key that it goes with, and its values; no values: it always counts.
  std::function<std::string(const S&)> depends_on;
  std::vector<std::string> with;

  bool counts(const S& s) const {
    if (with.empty()) return true;
    const std::string now = depends_on(s);
    return std::find(with.begin(), with.end(), now) != with.end();
  }
};

template <class S>
class Fields {
 public:
  explicit Fields(std::string section) : section_(std::move(section)) {}

  // `unset`: what it is by default, in words, where that is no value of the struct.
  template <class T>
  Fields& add(const char* name, T S::*member, const Range& range, const char* doc,
              const char* example, const char* unset = "") {
    Field<S> f;
    f.key = {section_, name, Codec<T>::expected(range), unset, doc, example, ""};
    if (f.key.standard.empty()) f.key.standard = Codec<T>::write(S{}.*member).value_or("");
    f.read = [member, range](S& s, const TomlValue& value, const std::string& full) {
      s.*member = Codec<T>::read(value, full, range);
    };
    f.write = [member](const S& s) { return Codec<T>::write(s.*member); };
    all_.push_back(std::move(f));
    return *this;
  }

  // The last one counts only where `key` is one of these.
  template <class E>
  Fields& only(const char* key, E S::*member, std::initializer_list<E> values) {
    Field<S>& f = all_.back();
    f.depends_on = [member](const S& s) { return name_of(s.*member); };
    for (const E e : values) f.with.push_back(name_of(e));
    f.key.only = fmt::format("{} = {}", key, fmt::join(f.with, ", "));
    return *this;
  }
  // The last one counts only where this holds, said in words.
  Fields& only(std::string words, std::function<bool(const S&)> holds) {
    Field<S>& f = all_.back();
    f.depends_on = [holds = std::move(holds)](const S& s) { return holds(s) ? "yes" : "no"; };
    f.with = {"yes"};
    f.key.only = std::move(words);
    return *this;
  }

  const std::string& section() const { return section_; }
  const std::vector<Field<S>>& all() const { return all_; }

 private:
  std::string section_;
  std::vector<Field<S>> all_;
};

template <class S>
const Fields<S>& fields();
template <>
const Fields<ModelConfig>& fields();
template <>
const Fields<LayerConfig>& fields();
template <>
const Fields<DataConfig>& fields();
template <>
const Fields<TrainConfig>& fields();
template <>
const Fields<GroupConfig>& fields();
template <>
const Fields<MemoryConfig>& fields();
template <>
const Fields<EveryConfig>& fields();
template <>
const Fields<OutputConfig>& fields();

// The error of a key that is in no table: its nearest name, or the section that has it.
[[noreturn]] void refuse_unknown(const TomlEntry& entry, const std::string& path,
                                 const std::string& section);

// What follows from what was given, or is missing: a kind, a format. Most sections have none.
inline bool has(const TomlTable& table, std::string_view name) {
  return std::any_of(table.begin(), table.end(),
                     [&](const TomlEntry& e) { return e.name == name; });
}
template <class S>
void settle(S&, const TomlTable&, const TomlPlace&, const std::string&) {}
void settle(ModelConfig& model, const TomlTable& given, const TomlPlace& place,
            const std::string& path);
void settle(LayerConfig& layer, const TomlTable& given, const TomlPlace& place,
            const std::string& path);
void settle(DataConfig& data, const TomlTable& given, const TomlPlace& place,
            const std::string& path);
void settle(GroupConfig& group, const TomlTable& given, const TomlPlace& place,
            const std::string& path);

// Sets what the table gives. Then those that do not count are refused.
template <class S>
void read_fields(const TomlTable& table, const TomlPlace& place, const std::string& path, S& into) {
  const Fields<S>& known = fields<S>();
  std::vector<std::pair<const Field<S>*, const TomlEntry*>> given;
  for (const TomlEntry& entry : table) {
    const auto& all = known.all();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const Field<S>& f) { return f.key.name == entry.name; });
    if (found == all.end()) refuse_unknown(entry, path, known.section());
    found->read(into, entry.value, fmt::format("{}.{}", path, entry.name));
    given.push_back({&*found, &entry});
  }
  settle(into, table, place, path);
  for (const auto& [f, entry] : given)
    if (!f->counts(into))
      throw Error(fmt::format("{}: {}.{} is given, but counts only with {}",
                              to_string(entry->place), path, entry->name, f->key.only));
}

template <class S>
std::vector<std::pair<std::string, std::string>> write_fields(const S& from) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Field<S>& f : fields<S>().all())
    if (f.counts(from))
      if (const auto text = f.write(from)) lines.push_back({f.key.name, *text});
  return lines;
}

// Tables inside of a table: [[model.layers]].
template <class S>
struct TablesCodec {
  static std::string expected(const Range&) { return "a list of tables"; }
  static std::vector<S> read(const TomlValue& value, const std::string& name, const Range& range) {
    const TomlList* list = std::get_if<TomlList>(&value.is);
    if (!list) refuse(value, name, expected(range));
    std::vector<S> all;
    for (const TomlValue& v : *list) {
      const std::string path = fmt::format("{}[{}]", name, all.size());
      const TomlTable* table = std::get_if<TomlTable>(&v.is);
      if (!table) refuse(v, path, "a table");
      read_fields(*table, v.place, path, all.emplace_back());
    }
    return all;
  }
  static std::optional<std::string> write(const std::vector<S>& all) {
    if (all.empty()) return {};
    std::vector<std::string> rows;
    for (const S& s : all) {
      std::vector<std::string> parts;
      for (const auto& [key, text] : write_fields(s)) parts.push_back(key + " = " + text);
      rows.push_back(fmt::format("\n  {{ {} }}", fmt::join(parts, ", ")));
    }
    return fmt::format("[{}\n]", fmt::join(rows, ","));
  }
};
template <>
struct Codec<std::vector<LayerConfig>> : TablesCodec<LayerConfig> {};
template <>
struct Codec<std::vector<GroupConfig>> : TablesCodec<GroupConfig> {};

}  // namespace ebb::train
