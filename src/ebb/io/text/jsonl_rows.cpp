// The pass that makes rows of numbers of a jsonl file.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/jsonl.hpp"
#include "ebb/io/text/jsonl_scan.hpp"

namespace ebb::io {
namespace {

using As = JsonLines::As;
using Type = JsonValue::Type;

class Conversion {
 public:
  Conversion(const std::string& path, const JsonlOptions& options, const JsonlSchema& schema)
      : path_(path), options_(options), schema_(schema), ids_(schema.fields.size()) {
    for (std::size_t k = 0; k < ids_.size(); ++k)
      for (const std::string& c : schema.fields[k].classes)
        ids_[k].emplace(c, static_cast<std::uint32_t>(ids_[k].size()));
  }

  void run(const JsonlSink& sink) {
    TextBlocks blocks(path_, {0, options_.longest_line, 256_KiB});
    struct Slot {
      JsonLines lines;
      GrowingBytes rows;
      std::vector<GrowingBytes> lists;
    };
    std::vector<std::string> names;
    std::vector<As> as;
    for (const JsonlField& f : schema_.fields) {
      names.push_back(f.name);
      as.push_back(f.kind == JsonKind::number ? As::f32 : As::i32);
    }
    std::vector<Slot> slots(blocks.slots());
    for (Slot& s : slots) {
      s.lines.set_fields(names, as);
      s.lists.resize(names.size());
    }
    const std::size_t words = row_words(schema_);
    blocks.each(
        [&](std::size_t i, const TextBlock& block) {
          Slot& s = slots[i];
          s.rows.clear();
          for (GrowingBytes& list : s.lists) list.clear();
          s.lines.parse(path_, block, [&](const std::vector<JsonValue>& values, std::size_t at) {
            std::uint32_t* to = s.rows.add_words(words);
            for (std::size_t k = 0; k < values.size(); ++k)
              to = put(values[k], k, block.offset + at, s.lines.words(), to, s.lists[k]);
          });
        },
        [&](std::size_t i) {
          JsonlRows rows{slots[i].rows.words(), {}};
          for (std::size_t k = 0; k < names.size(); ++k)
            if (schema_.fields[k].ragged) rows.lists.push_back(slots[i].lists[k].bytes());
          sink(rows);
        });
  }

 private:
  std::uint32_t* put(const JsonValue& value, std::size_t k, std::uint64_t offset,
                     std::span<const std::uint32_t> words, std::uint32_t* to,
                     GrowingBytes& list) const {
    const JsonlField& f = schema_.fields[k];
    const bool strings = f.kind == JsonKind::label || f.kind == JsonKind::text;
    const Type expected = strings ? Type::string : f.list ? Type::list : Type::number;
    const auto length = static_cast<std::int64_t>(strings ? value.text.size() : value.count);
    if (value.type != expected || (f.list && (f.ragged ? length > f.longest : length != f.longest)))
      refuse_at(path_, offset,
                fmt::format("field \"{}\" is not what it was when the file was first read ({}{}); "
                            "read it anew",
                            shown(f.name), io::name(f.kind),
                            f.list ? fmt::format(", at most {}", f.longest) : ""));
    if (f.kind == JsonKind::label) {
      const auto found = ids_[k].find(value.text);
      if (found == ids_[k].end())
        refuse_at(path_, offset,
                  fmt::format("field \"{}\": \"{}\" is none of its {} classes", shown(f.name),
                              shown(value.text), ids_[k].size()));
      *to = found->second;
      return to + 1;
    }
    if (f.ragged) {
      *to = static_cast<std::uint32_t>(length);
      if (f.kind == JsonKind::text)
        std::copy_n(reinterpret_cast<const std::byte*>(value.text.data()), value.text.size(),
                    list.add(value.text.size()));
      else
        std::copy_n(words.data() + value.first, value.count, list.add_words(value.count));
      return to + 1;
    }
    return std::copy_n(words.data() + value.first, value.count, to);
  }

  const std::string& path_;
  const JsonlOptions& options_;
  const JsonlSchema& schema_;
  std::vector<std::unordered_map<std::string_view, std::uint32_t>> ids_;
};

}  // namespace

void read_jsonl_rows(const std::string& path, const JsonlOptions& options,
                     const JsonlSchema& schema, const JsonlSink& sink) {
  Conversion(path, options, schema).run(sink);
}

}  // namespace ebb::io
