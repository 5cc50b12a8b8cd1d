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
  // Of the first record, which names all columns of a csv, and of objects those that it has itself.
  std::vector<std::string> (*names)(const std::string& path, const io::CsvOptions& format);
  CsvSchema (*schema)(std::span<const std::string> paths, const io::CsvOptions& format,
                      std::vector<io::CsvMixed>* mixed);
  std::vector<std::string> (*rows)(const std::string& path, const io::CsvOptions& format,
                                   const CsvSchema& schema, const io::CsvLayout& layout,
                                   const io::CsvSink& sink);
};
constexpr Language kCsv{"csv 2", "column", io::read_csv_names, io::read_csv_schema,
                        io::read_csv_rows};
constexpr Language kJsonl{"jsonl table 2", "field",
                          [](const std::string& path, const io::CsvOptions& format) {
                            std::vector<std::string> names;
                            for (auto& f : io::read_jsonl_first(path, format.longest_line))
                              names.push_back(std::move(f.name));
                            return names;
                          },
                          [](std::span<const std::string> paths, const io::CsvOptions& format,
                             std::vector<io::CsvMixed>*) {  // mixed ones are refused
                            return io::read_jsonl_columns(paths, format);
                          },
                          io::read_jsonl_table};

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
                    "columns out (data.ignore)",
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

// What is known of a table before its rows are made.
struct Known {
  CsvSchema schema;
  std::vector<std::string> notes;  // what its owner should hear of
};

// Kept with rows: how many notes, one a line, then the schema.
std::string to_text(const Known& known) {
  return fmt::format("{}\n{}{}{}", known.notes.size(), fmt::join(known.notes, "\n"),
                     known.notes.empty() ? "" : "\n", to_string(known.schema));
}
Known known_in(std::string_view text) {
  const auto line = [&] {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view first = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return std::string(first);
  };
  Known known;
  for (auto left = std::strtoull(line().c_str(), nullptr, 10); left > 0 && !text.empty(); --left)
    known.notes.push_back(line());
  known.schema = io::parse_csv_schema(text);
  return known;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kListed = 5;
  std::string all;
  for (std::size_t i = 0; i < names.size() && i < kListed; ++i)
    all += fmt::format("{}\"{}\"", i ? ", " : "", io::shown(names[i]));
  return names.size() > kListed ? fmt::format("{} and {} more", all, names.size() - kListed) : all;
}

// Without a header a column is its place, so that a file without targets is one that has a column less.
bool has_target(const Language& language, const std::string& path, const CsvSchema& schema,
                const CsvOptions& o) {
  const std::vector<std::string> names = language.names(path, o.format);
  return o.format.header ? has(names, o.target) : names.size() >= schema.columns.size();
}

// The schema of an earlier file, with as many rows as these have. They may be without a target.
Known fitted(const Language& language, const Paths& paths, CsvSchema schema, const CsvOptions& o) {
  if (!has_target(language, paths[0], schema, o))
    std::erase_if(schema.columns, [&](const CsvColumn& c) { return c.name == o.target; });
  schema.rows = 0;
  Known known{std::move(schema), {}};
  const Plan plan = plan_of(paths[0], known.schema, o);
  const auto words = static_cast<std::int64_t>(std::max<std::size_t>(plan.layout.words, 1));
  std::int64_t rows = 0;
  for (const std::string& path : paths) {
    std::vector<std::string> others = language.rows(
        path, o.format, known.schema, plan.layout, [&](std::span<const std::uint32_t> all) {
          rows += static_cast<std::int64_t>(all.size()) / words;
        });
    std::erase(others, o.target);
    if (!others.empty())
      known.notes.push_back(fmt::format(
          "{}: the model has not learnt from {}{} {}, which {} left out", path, language.column,
          others.size() == 1 ? "" : "s", listed(others), others.size() == 1 ? "is" : "are"));
  }
  known.schema.rows = rows;
  return known;
}

// Of a target that is mostly numbers, the text among them is taken for a mistake; of others it is told.
void add_mixed(const std::vector<io::CsvMixed>& mixed, const CsvOptions& o, Known& known) {
  for (const io::CsvMixed& m : mixed) {
    const CsvColumn& c = known.schema.columns[m.column];
    const std::int64_t all = m.numbers + m.texts;
    const std::string value = io::shown(m.value), name = io::shown(c.name);
    if (c.name == o.target && m.numbers >= all - all / 10)
      io::refuse(m.path, m.line,
                 fmt::format("column \"{}\": \"{}\" is no number, as {} of the {} values to "
                             "predict are; mend it, or set data.task = \"classification\" where "
                             "they are classes",
                             name, value, m.numbers, all));
    known.notes.push_back(fmt::format(
        "{}: column \"{}\": {} of {} values are numbers, and line {} holds \"{}\", so that it "
        "is read as {} categories; mend it, or set {} where that is meant",
        m.path, name, m.numbers, all, m.line, value, c.categories.size(),
        c.name == o.target ? "data.task = \"classification\""
                           : fmt::format("data.categorical = [\"{}\"]", name)));
  }
}

Known look_at(const Language& language, const Paths& paths, const CsvOptions& o) {
  if (o.schema) return fitted(language, paths, *o.schema, o);
  const auto refuse_target = [&](const std::vector<std::string>& names) {
    if (!o.target.empty() && !has(names, o.target))
      io::refuse_name(paths[0], language.column, o.target, names);
  };
  io::CsvOptions format = o.format;
  if (&language == &kCsv) refuse_target(language.names(paths[0], format));  // before it is read
  if (o.classes && !o.target.empty()) format.kinds[o.target] = ColumnKind::category;
  std::vector<io::CsvMixed> mixed;
  Known known{language.schema(paths, format, &mixed), {}};
  std::vector<std::string> names;
  for (const CsvColumn& c : known.schema.columns) names.push_back(c.name);
  refuse_target(names);
  add_mixed(mixed, o, known);
  return known;
}

CsvData assembled(const RowStore& store, Known known, const CsvOptions& o, const Plan& plan) {
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  const std::vector<CsvColumn>& of = known.schema.columns;
  std::vector<std::pair<std::string, Source>> columns;
  if (plan.features > 0)
    columns.emplace_back("x",
                         store.column(0, DType::f32, {static_cast<std::int64_t>(plan.features)}));
  const auto place = [&](std::size_t i) { return plan.layout.columns[i].word * kWord; };
  for (const std::size_t i : plan.ids)
    columns.emplace_back(of[i].name, store.column(place(i), DType::i32));
  if (plan.target != kNone) {
    const bool number = of[plan.target].kind == ColumnKind::number;
    columns.emplace_back("y", store.column(place(plan.target), number ? DType::f32 : DType::i32));
  }
  if (o.notes) *o.notes = std::move(known.notes);
  return {Dataset::of(std::move(columns)), std::move(known.schema)};
}

CsvData table(const Language& language, const Paths& paths, CsvOptions options) {
  if (paths.empty()) throw Error(fmt::format("{}: there is no file to read", language.name));
  if (options.schema) options.format.kinds.clear();  // it has them
  const StoreKey key = key_of(language, paths, options);
  if (const auto found = RowStore::find(options.store, key)) {
    Known known = known_in(found->text());
    const Plan plan = plan_of(paths[0], known.schema, options);
    return assembled(*found, std::move(known), options, plan);
  }
  Known known = look_at(language, paths, options);
  const Plan plan = plan_of(paths[0], known.schema, options);
  if (plan.layout.words == 0)
    throw Error(fmt::format("\"{}\": no {} of it is read; expected numbers or categories", paths[0],
                            language.column));
  RowStoreWriter writer(options.store, key, to_text(known),
                        {known.schema.rows, plan.layout.words * sizeof(std::uint32_t), {}});
  const RowStore store = writer.fill_all([&] {
    for (const std::string& path : paths)
      language.rows(
          path, options.format, known.schema, plan.layout,
          [&](std::span<const std::uint32_t> rows) { writer.add_rows(std::as_bytes(rows)); });
  });
  return assembled(store, std::move(known), options, plan);
}

}  // namespace

CsvData csv(const std::string& path, CsvOptions options) {
  return table(kCsv, {path}, std::move(options));
}

CsvData csv(const std::vector<std::string>& paths, CsvOptions options) {
  return table(kCsv, paths, std::move(options));
}

CsvData jsonl_table(const std::vector<std::string>& paths, CsvOptions options) {
  return table(kJsonl, paths, std::move(options));
}

}  // namespace ebb::data
