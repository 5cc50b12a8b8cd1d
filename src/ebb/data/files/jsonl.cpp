#include "ebb/data/files/jsonl.hpp"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/growing_bytes.hpp"
#include "ebb/io/text/text_blocks.hpp"

namespace ebb::data {
namespace {

using io::GrowingBytes;
using io::JsonKind;
using io::JsonlField;
using io::JsonlRows;
using io::JsonlSchema;

constexpr std::size_t kWord = sizeof(std::uint32_t);

DType type_of(JsonKind kind) {
  return kind == JsonKind::number ? DType::f32 : kind == JsonKind::text ? DType::u8 : DType::i32;
}

std::size_t bytes_in_row(const JsonlField& f) {
  if (f.ragged) return ListPlace::kBytes;
  return kWord * (f.list ? static_cast<std::size_t>(f.longest) : 1);
}

StoreShape shape_of(const JsonlSchema& schema) {
  StoreShape shape{schema.rows, 0, {}};
  for (const JsonlField& f : schema.fields) {
    shape.row_bytes += bytes_in_row(f);
    if (f.ragged)
      shape.lists.push_back(static_cast<std::uint64_t>(f.elements) * size_of(type_of(f.kind)));
  }
  return shape;
}

// Rows as they are stored: where the file has how many elements a list has, also where it lies.
void add(const JsonlRows& part, const JsonlSchema& schema, GrowingBytes& rows,
         RowStoreWriter& writer) {
  std::vector<std::uint64_t> at;
  for (std::size_t i = 0; i < part.lists.size(); ++i)
    at.push_back(writer.add_list(i, part.lists[i]));
  rows.clear();
  for (auto word = part.words.begin(); word != part.words.end();) {
    std::size_t list = 0;
    for (const JsonlField& f : schema.fields) {
      const std::size_t bytes = bytes_in_row(f);
      std::byte* const to = rows.add(bytes);
      if (!f.ragged) {
        std::memcpy(to, &*word, bytes);
        word += static_cast<std::ptrdiff_t>(bytes / kWord);
        continue;
      }
      ListPlace{at[list], *word}.write(to);
      at[list++] += *word++ * size_of(type_of(f.kind));
    }
  }
  writer.add_rows(rows.bytes());
}

JsonlData assembled(const RowStore& store, JsonlSchema schema) {
  std::vector<std::pair<std::string, Source>> columns;
  std::size_t offset = 0, list = 0;
  for (const JsonlField& f : schema.fields) {
    const DType dtype = type_of(f.kind);
    if (f.ragged)
      columns.emplace_back(f.name, store.lists(offset, list++, dtype, f.longest));
    else
      columns.emplace_back(f.name,
                           store.column(offset, dtype, f.list ? Shape{f.longest} : Shape{}));
    offset += bytes_in_row(f);
  }
  return {Dataset::of(std::move(columns)), std::move(schema)};
}

using Paths = std::vector<std::string>;

StoreKey key_of(const Paths& paths, const JsonlOptions& o) {
  std::string what = "jsonl 3", version;
  for (const std::string& path : paths) {
    what += " " + std::filesystem::absolute(path).string();
    version += (version.empty() ? "" : "; ") + version_of(path);
  }
  what +=
      fmt::format(" fields={} classes={}", fmt::join(o.format.fields, "|"), o.format.most_classes);
  for (const auto& [name, kind] : o.format.kinds)
    what += fmt::format(" {}={}", name, io::name(kind));
  if (o.schema) what += " schema " + to_string(*o.schema);
  return {what, version};
}

std::string held(const JsonlField& f) {
  if (!f.list) return "single numbers";
  if (f.ragged) return fmt::format("lists of different lengths, up to {}", f.longest);
  return fmt::format("lists of {} number{}", f.longest, f.longest == 1 ? "" : "s");
}

// The schema of an earlier file, with the rows and the lengths of this one.
JsonlSchema fitted(const Paths& paths, const JsonlSchema& from, const io::JsonlOptions& format) {
  io::JsonlOptions same = format;
  same.fields.clear();
  for (const JsonlField& f : from.fields) {
    same.fields.push_back(f.name);
    same.kinds[f.name] = f.kind;
  }
  JsonlSchema found = io::read_jsonl_schema(paths, same);
  for (std::size_t i = 0; i < found.fields.size(); ++i) {
    JsonlField& f = found.fields[i];
    const JsonlField& g = from.fields[i];
    if (found.rows > 0 && (f.list != g.list || (!g.ragged && (f.ragged || f.longest != g.longest))))
      throw Error(
          fmt::format("{}: field \"{}\" holds {}; expected {}, as the model has learnt from",
                      paths[0], io::shown(f.name), held(f), held(g)));
    if (g.ragged && !f.ragged) f.elements = found.rows * f.longest;  // all happen to be as long
    f.list = g.list;
    f.ragged = g.ragged;
    f.classes = g.classes;
  }
  return found;
}

}  // namespace

JsonlData jsonl(const std::vector<std::string>& paths, JsonlOptions options) {
  if (paths.empty()) throw Error("jsonl: there is no file to read");
  const StoreKey key = key_of(paths, options);
  if (const auto found = RowStore::find(options.store, key))
    return assembled(*found, io::parse_jsonl_schema(found->text()));
  const JsonlSchema schema = options.schema ? fitted(paths, *options.schema, options.format)
                                            : io::read_jsonl_schema(paths, options.format);
  RowStoreWriter writer(options.store, key, to_string(schema), shape_of(schema));
  GrowingBytes rows;
  const RowStore store = writer.fill_all([&] {
    for (const std::string& path : paths)
      io::read_jsonl_rows(path, options.format, schema,
                          [&](const JsonlRows& part) { add(part, schema, rows, writer); });
  });
  return assembled(store, schema);
}

JsonlData jsonl(const std::string& path, JsonlOptions options) {
  return jsonl(Paths{path}, std::move(options));
}

namespace {

// Calls `line` for each, without its end; and `end` after each block, in the order of the file.
void each_line(const std::string& path, const std::function<void(std::string_view)>& line,
               const std::function<void()>& end) {
  io::TextBlocks blocks(path);
  std::vector<std::string_view> texts(blocks.slots());
  blocks.each(
      [&](std::size_t i, const io::TextBlock& block) {
        check_text(path, block);
        texts[i] = block.text;
      },
      [&](std::size_t i) {
        std::string_view text = texts[i];
        while (!text.empty()) {
          const std::size_t stop = std::min(text.find('\n'), text.size());
          const bool carriage = stop > 0 && text[stop - 1] == '\r';
          line(text.substr(0, stop - carriage));
          text.remove_prefix(std::min(stop + 1, text.size()));
        }
        end();
      });
}

}  // namespace

Dataset text_lines(const std::string& path, StoreOptions options) {
  const StoreKey key{"text_lines 1 " + std::filesystem::absolute(path).string(), version_of(path)};
  const auto assembled = [&](const RowStore& store) {
    const std::int64_t longest = std::strtoll(store.text().c_str(), nullptr, 10);
    return Dataset::of({{"text", store.lists(0, 0, DType::u8, longest)}});
  };
  if (const auto found = RowStore::find(options, key)) return assembled(*found);
  StoreShape shape{0, ListPlace::kBytes, {0}};
  std::size_t longest = 0;
  each_line(
      path,
      [&](std::string_view line) {
        ++shape.rows;
        shape.lists[0] += line.size();
        longest = std::max(longest, line.size());
      },
      [] {});
  RowStoreWriter writer(options, key, std::to_string(longest), shape);
  GrowingBytes places, text;
  std::uint64_t at = 0;
  each_line(
      path,
      [&](std::string_view line) {
        ListPlace{at, static_cast<std::uint32_t>(line.size())}.write(places.add(ListPlace::kBytes));
        at += line.size();
        std::memcpy(text.add(line.size()), line.data(), line.size());
      },
      [&] {
        writer.add_list(0, text.bytes());
        writer.add_rows(places.bytes());
        text.clear();
        places.clear();
      });
  return assembled(writer.finish());
}

}  // namespace ebb::data
