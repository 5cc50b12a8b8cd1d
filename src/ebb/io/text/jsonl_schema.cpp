// The pass that finds out what the fields of a jsonl file are.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <unordered_set>

#include "ebb/base/error.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/jsonl.hpp"
#include "ebb/io/text/jsonl_scan.hpp"

namespace ebb::io {
namespace {

constexpr std::size_t kLongestClass = 1000;
constexpr std::size_t kMostWords = 200'000;  // of all fields: they are kept outside of the Ledger

using Words = std::unordered_set<std::string>;
using As = JsonLines::As;
using Type = JsonValue::Type;

// What was seen of a field.
struct Seen {
  std::int64_t numbers = 0, lists = 0, strings = 0, elements = 0;
  std::size_t shortest = std::numeric_limits<std::size_t>::max(), longest = 0;
  float least = std::numeric_limits<float>::infinity(), largest = -least;  // also within lists
  bool integers = true, too_many = false;
  Words classes;

  void add(Seen& other) {
    numbers += other.numbers;
    lists += other.lists;
    strings += other.strings;
    elements += other.elements;
    shortest = std::min(shortest, other.shortest);
    longest = std::max(longest, other.longest);
    least = std::min(least, other.least);
    largest = std::max(largest, other.largest);
    integers = integers && other.integers;
    too_many = too_many || other.too_many;
    classes.merge(other.classes);
  }
};

class Inference {
 public:
  Inference(std::span<const std::string> paths, const JsonlOptions& options)
      : paths_(paths), options_(options) {
    if (paths.empty()) throw Error("jsonl: there is no file to read");
    names_ = options.fields.empty() ? first_names() : options.fields;
    std::set<std::string> known;
    for (const std::string& name : names_)
      if (!known.insert(name).second)
        refuse(paths[0], fmt::format("field \"{}\" is named twice", shown(name)));
    for (const auto& [name, kind] : options.kinds)
      if (!known.contains(name)) refuse_name(paths[0], "field", name, names_);
    for (const std::string& name : names_) {
      const auto said = options.kinds.find(name);
      said_.push_back(said == options.kinds.end() ? nullptr : &said->second);
      const bool skip = said_.back() && *said_.back() == JsonKind::ignored;
      as_.push_back(skip ? As::skip : As::either);
    }
  }

  JsonlSchema run() {
    seen_.assign(names_.size(), {});
    std::int64_t rows = 0;
    for (const std::string& path : paths_) rows += look_at(path);
    JsonlSchema out{{}, rows};
    for (std::size_t k = 0; k < names_.size(); ++k)
      if (as_[k] != As::skip) out.fields.push_back(field(k));
    if (out.fields.empty()) refuse(path_, "no field of it is read; expected objects with fields");
    return out;
  }

 private:
  // Rows of a file.
  std::int64_t look_at(const std::string& path) {
    path_ = path;
    TextBlocks blocks(path_, {0, options_.longest_line, 256_KiB});
    struct Slot {
      JsonLines lines;
      std::vector<Seen> seen;
      std::int64_t rows = 0;
    };
    std::vector<Slot> slots(blocks.slots());
    for (Slot& s : slots) s.lines.set_fields(names_, as_);
    std::int64_t rows = 0;
    blocks.each(
        [&](std::size_t i, const TextBlock& block) {
          Slot& slot = slots[i];
          slot.seen.assign(names_.size(), {});
          slot.rows = 0;
          slot.lines.parse(path_, block, [&](const std::vector<JsonValue>& values, std::size_t at) {
            ++slot.rows;
            for (std::size_t k = 0; k < values.size(); ++k)
              if (as_[k] != As::skip)
                look(values[k], k, slot.lines.words(), block.offset + at, slot.seen[k]);
          });
        },
        [&](std::size_t i) {
          rows += slots[i].rows;
          std::size_t all = 0;
          for (std::size_t k = 0; k < names_.size(); ++k) {
            seen_[k].add(slots[i].seen[k]);
            check_classes(k);
            all += seen_[k].classes.size();
          }
          if (all > kMostWords)
            refuse(path_,
                   fmt::format("its fields have more than {} different strings together; say "
                               "which are text (JsonKind::text) or ignored",
                               kMostWords));
        });
    return rows;
  }

  std::vector<std::string> first_names() const {
    std::vector<std::string> names;
    for (JsonlFirst& f : read_jsonl_first(paths_[0], options_.longest_line))
      names.push_back(std::move(f.name));
    return names;
  }

  bool is_text(std::size_t k) const { return said_[k] && *said_[k] == JsonKind::text; }

  void look(const JsonValue& value, std::size_t k, std::span<const std::uint32_t> words,
            std::uint64_t offset, Seen& seen) const {
    std::size_t length = value.count;
    if (value.type == Type::string) {
      ++seen.strings;
      length = value.text.size();
      if (!is_text(k)) add_class(value.text, k, offset, seen);
    } else {
      ++(value.type == Type::list ? seen.lists : seen.numbers);
      seen.integers = seen.integers && value.integers;
    }
    for (const std::uint32_t word : words.subspan(value.first, value.count)) {
      const auto number = std::bit_cast<float>(word);
      seen.least = std::min(seen.least, number);
      seen.largest = std::max(seen.largest, number);
    }
    seen.elements += static_cast<std::int64_t>(length);
    seen.shortest = std::min(seen.shortest, length);
    seen.longest = std::max(seen.longest, length);
    const int types = (seen.strings > 0) + (seen.lists > 0) + (seen.numbers > 0);
    if (types > 1) refuse_mixed(k, offset);
  }

  [[noreturn]] void refuse_mixed(std::size_t k, std::uint64_t offset) const {
    refuse_at(
        path_, offset,
        fmt::format("field \"{}\" is something else than in lines before it; expected numbers, "
                    "lists, or strings throughout",
                    shown(names_[k])));
  }

  void add_class(std::string_view text, std::size_t k, std::uint64_t offset, Seen& seen) const {
    if (text.size() > kLongestClass)
      refuse_at(path_, offset,
                fmt::format(
                    "field \"{}\" is a string of {} bytes, which is no class; say that it is text "
                    "(JsonKind::text) or ignored",
                    shown(names_[k]), text.size()));
    if (static_cast<std::int64_t>(seen.classes.size()) <= options_.most_classes)
      seen.classes.emplace(text);
  }

  void check_classes(std::size_t k) const {
    if (static_cast<std::int64_t>(seen_[k].classes.size()) <= options_.most_classes) return;
    refuse(path_,
           fmt::format("field \"{}\" has more than {} different strings, too many for classes; a "
                       "text that is read is named by data.input",
                       shown(names_[k]), options_.most_classes));
  }

  JsonlField field(std::size_t k) const {
    const Seen& s = seen_[k];
    JsonlField f{names_[k]};
    const bool strings = s.strings > 0;
    const bool ids = s.integers && (s.lists == 0 || s.least >= 0);
    f.kind = said_[k]  ? *said_[k]
             : strings ? JsonKind::label
             : ids     ? JsonKind::integer
                       : JsonKind::number;
    const bool wants_strings = f.kind == JsonKind::label || f.kind == JsonKind::text;
    const std::int64_t any = s.numbers + s.lists + s.strings;
    if (any > 0 && (strings != wants_strings || (f.kind == JsonKind::tokens && s.lists == 0)))
      refuse(path_, fmt::format("field \"{}\" was said to be {}, and holds {}", shown(f.name),
                                io::name(f.kind),
                                strings   ? "strings"
                                : s.lists ? "lists of numbers"
                                          : "numbers"));
    if ((f.kind == JsonKind::integer || f.kind == JsonKind::tokens) && !s.integers)
      refuse(path_,
             fmt::format("field \"{}\" was said to be {}, and holds numbers that are not whole or "
                         "beyond 32 bits",
                         shown(f.name), io::name(f.kind)));
    f.list = s.lists > 0 || f.kind == JsonKind::text || f.kind == JsonKind::tokens;
    f.ragged = f.kind == JsonKind::text || f.kind == JsonKind::tokens ||
               (f.list && s.shortest != s.longest);
    f.elements = f.ragged ? s.elements : 0;
    f.longest = f.list ? static_cast<std::int64_t>(s.longest) : 1;
    if (f.kind == JsonKind::integer && s.least <= s.largest) {
      f.least = static_cast<std::int64_t>(s.least);
      f.largest = static_cast<std::int64_t>(s.largest);
    }
    if (f.kind == JsonKind::label) {
      f.classes.assign(s.classes.begin(), s.classes.end());
      std::sort(f.classes.begin(), f.classes.end());
    }
    return f;
  }

  std::span<const std::string> paths_;
  std::string path_;  // the one at hand
  const JsonlOptions& options_;
  std::vector<std::string> names_;
  std::vector<const JsonKind*> said_;  // null: not said
  std::vector<As> as_;
  std::vector<Seen> seen_;
};

}  // namespace

std::vector<JsonlFirst> read_jsonl_first(const std::string& path, ByteSize longest_line) {
  std::vector<JsonlFirst> fields;
  struct Enough {};
  try {
    TextBlocks blocks(path, {0, longest_line, 4_KiB});
    blocks.each(
        [&](std::size_t slot, const TextBlock& b) {
          if (slot == 0 && fields.empty()) fields = JsonLines().first(path, b);
        },
        [&](std::size_t) {
          if (!fields.empty()) throw Enough();
        });
  } catch (const Enough&) {
  }
  if (fields.empty()) refuse(path, "it holds no object; expected one a line");
  std::set<std::string_view> known;
  for (const JsonlFirst& f : fields)
    if (!known.insert(f.name).second)
      refuse(path, fmt::format("field \"{}\" is named twice", shown(f.name)));
  return fields;
}

JsonlSchema read_jsonl_schema(std::span<const std::string> paths, const JsonlOptions& options) {
  return Inference(paths, options).run();
}

JsonlSchema read_jsonl_schema(const std::string& path, const JsonlOptions& options) {
  return read_jsonl_schema(std::span(&path, 1), options);
}

}  // namespace ebb::io
