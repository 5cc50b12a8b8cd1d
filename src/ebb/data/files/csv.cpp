#include "ebb/data/files/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "ebb/base/error.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/jsonl.hpp"
#include "ebb/io/text/jsonl_table.hpp"

namespace ebb::data {
namespace {

using io::ColumnKind;
using io::CsvColumn;
using io::CsvPlace;
using io::CsvSchema;
using As = CsvPlace::As;

constexpr std::size_t kMostWords = 1 << 20;  // of a row
constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// A row is "x", then categories of their own, then "y".
struct Plan {
  io::CsvLayout layout;
  std::size_t features = 0, target = kNone;  // target: which column
  std::vector<std::size_t> ids;              // columns of their own
};

CsvPlace number_place(const CsvColumn& c, const CsvOptions& o) {
  CsvPlace place{As::number};
  if (o.standardise) {
    place.mean = c.mean;
    place.scale = c.deviation > 0 ? 1 / c.deviation : 1;
  }
  place.may_miss = o.missing != Missing::refuse;
  place.missing = o.missing == Missing::mean ? static_cast<float>(c.mean) : 0;
  return place;
}

using Paths = std::vector<std::string>;

// What a table is written in.
struct Language {
  const char* name;    // in keys of stores, with the version of what is kept
  const char* column;  // what its columns are called
  std::vector<std::string> (*names)(const std::string& path, const io::CsvOptions& format);
  CsvSchema (*schema)(std::span<const std::string> paths, const io::CsvOptions& format);
  void (*rows)(const std::string& path, const io::CsvOptions& format, const CsvSchema& schema,
               const io::CsvLayout& layout, const io::CsvSink& sink);
};
constexpr Language kCsv{"csv 1", "column", io::read_csv_names, io::read_csv_schema,
                        io::read_csv_rows};
constexpr Language kJsonl{"jsonl table 1", "field",
                          [](const std::string& path, const io::CsvOptions& format) {
                            std::vector<std::string> names;
                            for (auto& f : io::read_jsonl_first(path, format.longest_line))
                              names.push_back(std::move(f.name));
                            return names;
                          },
                          io::read_jsonl_columns, io::read_jsonl_table};

Plan plan_of(const std::string& path, const CsvSchema& schema, const CsvOptions& o) {
  Plan plan;
  auto& places = plan.layout.columns;
  places.resize(schema.columns.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const CsvColumn& c = schema.columns[i];
    if (c.name == o.target) {
      plan.target = i;
    } else if (c.kind == ColumnKind::number) {
      places[i] = number_place(c, o);
      places[i].word = plan.features++;
    } else if (c.kind == ColumnKind::category && o.one_hot) {
      places[i] = {As::one_hot, plan.features, 0, 1, o.missing != Missing::refuse, 0};
      plan.features += c.categories.size();
    } else if (c.kind == ColumnKind::category) {
      plan.ids.push_back(i);
    }
  }
  plan.layout.words = plan.features;
  for (const std::size_t i : plan.ids)
    places[i] = {As::id, plan.layout.words++, 0, 1, o.missing != Missing::refuse, 0};
  if (plan.target != kNone) {
    const bool number = schema.columns[plan.target].kind == ColumnKind::number;
    places[plan.target] = {number ? As::number : As::id, plan.layout.words++, 0, 1, false, 0};
  }
  if (plan.layout.words > kMostWords)
    throw Error(
        fmt::format("csv \"{}\": a row would be {} numbers, most of them for categories; leave "
                    "columns out (ColumnKind::ignored), or say .one_hot = false",
                    path, plan.layout.words));
  return plan;
}

StoreKey key_of(const Language& language, const Paths& paths, const CsvOptions& o) {
  const io::CsvOptions& f = o.format;
  std::string what = language.name, version;
  for (const std::string& path : paths) {
    what += " " + std::filesystem::absolute(path).string();
    version += (version.empty() ? "" : "; ") + version_of(path);
  }
  what +=
      fmt::format(" target={} classes={} standardise={} one_hot={} missing={} header={}", o.target,
                  o.classes, o.standardise, o.one_hot, static_cast<int>(o.missing), f.header);
  what +=
      fmt::format(" separator={} quote={} words={} categories={}", static_cast<int>(f.separator),
                  static_cast<int>(f.quote), fmt::join(f.missing, "|"), f.most_categories);
  for (const auto& [name, kind] : f.kinds) what += fmt::format(" {}={}", name, io::name(kind));
  if (o.schema) what += " schema " + to_string(*o.schema);
  return {what, version};
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The schema of an earlier file, with as many rows as these have. They may be without a target.
CsvSchema fitted(const Language& language, const Paths& paths, CsvSchema schema,
                 const CsvOptions& o) {
  if (!has(language.names(paths[0], o.format), o.target))
    std::erase_if(schema.columns, [&](const CsvColumn& c) { return c.name == o.target; });
  schema.rows = 0;
  const Plan plan = plan_of(paths[0], schema, o);
  const auto words = static_cast<std::int64_t>(std::max<std::size_t>(plan.layout.words, 1));
  for (const std::string& path : paths)
    language.rows(path, o.format, schema, plan.layout, [&](std::span<const std::uint32_t> rows) {
      schema.rows += static_cast<std::int64_t>(rows.size()) / words;
    });
  return schema;
}

CsvSchema schema_of(const Language& language, const Paths& paths, const CsvOptions& o) {
  if (o.schema) return fitted(language, paths, *o.schema, o);
  io::CsvOptions format = o.format;
  if (!o.target.empty()) {  // before all of it is read
    const std::vector<std::string> names = language.names(paths[0], format);
    if (!has(names, o.target)) io::refuse_name(paths[0], language.column, o.target, names);
    if (o.classes) format.kinds[o.target] = ColumnKind::category;
  }
  return language.schema(paths, format);
}

CsvData assembled(const RowStore& store, CsvSchema schema, const Plan& plan) {
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  std::vector<std::pair<std::string, Source>> columns;
  if (plan.features > 0)
    columns.emplace_back("x",
                         store.column(0, DType::f32, {static_cast<std::int64_t>(plan.features)}));
  const auto place = [&](std::size_t i) { return plan.layout.columns[i].word * kWord; };
  for (const std::size_t i : plan.ids)
    columns.emplace_back(schema.columns[i].name, store.column(place(i), DType::i32));
  if (plan.target != kNone) {
    const bool number = schema.columns[plan.target].kind == ColumnKind::number;
    columns.emplace_back("y", store.column(place(plan.target), number ? DType::f32 : DType::i32));
  }
  return {Dataset::of(std::move(columns)), std::move(schema)};
}

CsvData table(const Language& language, const Paths& paths, const CsvOptions& options) {
  if (paths.empty()) throw Error(fmt::format("{}: there is no file to read", language.name));
  const StoreKey key = key_of(language, paths, options);
  if (const auto found = RowStore::find(options.store, key)) {
    CsvSchema schema = io::parse_csv_schema(found->text());
    const Plan plan = plan_of(paths[0], schema, options);
    return assembled(*found, std::move(schema), plan);
  }
  CsvSchema schema = schema_of(language, paths, options);
  const Plan plan = plan_of(paths[0], schema, options);
  if (plan.layout.words == 0)
    throw Error(fmt::format("\"{}\": no {} of it is read; expected numbers or categories", paths[0],
                            language.column));
  RowStoreWriter writer(options.store, key, to_string(schema),
                        {schema.rows, plan.layout.words * sizeof(std::uint32_t), {}});
  const RowStore store = writer.fill_all([&] {
    for (const std::string& path : paths)
      language.rows(
          path, options.format, schema, plan.layout,
          [&](std::span<const std::uint32_t> rows) { writer.add_rows(std::as_bytes(rows)); });
  });
  return assembled(store, std::move(schema), plan);
}

}  // namespace

CsvData csv(const std::string& path, CsvOptions options) { return table(kCsv, {path}, options); }

CsvData csv(const std::vector<std::string>& paths, CsvOptions options) {
  return table(kCsv, paths, options);
}

CsvData jsonl_table(const std::vector<std::string>& paths, CsvOptions options) {
  return table(kJsonl, paths, options);
}

}  // namespace ebb::data
