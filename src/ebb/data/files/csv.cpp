#include "ebb/data/files/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "ebb/base/error.hpp"

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

StoreKey key_of(const std::string& path, const CsvOptions& o) {
  const io::CsvOptions& f = o.format;
  std::string what = fmt::format("csv 1 {}", std::filesystem::absolute(path).string());
  what +=
      fmt::format(" target={} classes={} standardise={} one_hot={} missing={} header={}", o.target,
                  o.classes, o.standardise, o.one_hot, static_cast<int>(o.missing), f.header);
  what +=
      fmt::format(" separator={} quote={} words={} categories={}", static_cast<int>(f.separator),
                  static_cast<int>(f.quote), fmt::join(f.missing, "|"), f.most_categories);
  for (const auto& [name, kind] : f.kinds) what += fmt::format(" {}={}", name, io::name(kind));
  if (o.schema) what += " schema " + to_string(*o.schema);
  return {what, version_of(path)};
}

// The schema of an earlier file, with as many rows as this one has. It may be without a target.
CsvSchema fitted(const std::string& path, CsvSchema schema, const CsvOptions& o) {
  const std::vector<std::string> names = io::read_csv_names(path, o.format);
  if (std::find(names.begin(), names.end(), o.target) == names.end())
    std::erase_if(schema.columns, [&](const CsvColumn& c) { return c.name == o.target; });
  schema.rows = 0;
  const Plan plan = plan_of(path, schema, o);
  const auto words = static_cast<std::int64_t>(std::max<std::size_t>(plan.layout.words, 1));
  read_csv_rows(path, o.format, schema, plan.layout, [&](std::span<const std::uint32_t> rows) {
    schema.rows += static_cast<std::int64_t>(rows.size()) / words;
  });
  return schema;
}

CsvSchema schema_of(const std::string& path, const CsvOptions& o) {
  if (o.schema) return fitted(path, *o.schema, o);
  io::CsvOptions format = o.format;
  if (!o.target.empty() && o.classes) format.kinds[o.target] = ColumnKind::category;
  CsvSchema schema = io::read_csv_schema(path, format);
  if (!o.target.empty()) try {
      (void)schema.index_of(o.target);
    } catch (const Error& e) {
      throw Error(fmt::format("{}: the target: {}", path, e.what()));
    }
  return schema;
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

}  // namespace

CsvData csv(const std::string& path, CsvOptions options) {
  const StoreKey key = key_of(path, options);
  if (const auto found = RowStore::find(options.store, key)) {
    CsvSchema schema = io::parse_csv_schema(found->text());
    const Plan plan = plan_of(path, schema, options);
    return assembled(*found, std::move(schema), plan);
  }
  CsvSchema schema = schema_of(path, options);
  const Plan plan = plan_of(path, schema, options);
  if (plan.layout.words == 0)
    throw Error(
        fmt::format("csv \"{}\": no column of it is read; expected numbers or categories", path));
  RowStoreWriter writer(options.store, key, to_string(schema),
                        {schema.rows, plan.layout.words * sizeof(std::uint32_t), {}});
  read_csv_rows(path, options.format, schema, plan.layout,
                [&](std::span<const std::uint32_t> rows) { writer.add_rows(std::as_bytes(rows)); });
  return assembled(writer.finish(), std::move(schema), plan);
}

}  // namespace ebb::data
