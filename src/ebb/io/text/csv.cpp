#include "ebb/io/text/csv.hpp"

#include <fmt/format.h>

#include "ebb/base/error.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/records.hpp"

namespace ebb::io {
namespace {

constexpr ColumnKind kKinds[] = {ColumnKind::number, ColumnKind::category, ColumnKind::ignored};

}  // namespace

const char* name(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::number:
      return "number";
    case ColumnKind::category:
      return "category";
    case ColumnKind::ignored:
      return "ignored";
  }
  return "";
}

std::size_t CsvSchema::index_of(std::string_view column) const {
  std::string all;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == column) return i;
    if (i < 20) all += fmt::format("{}\"{}\"", i ? ", " : "", shown(columns[i].name));
  }
  throw Error(fmt::format("csv: there is no column \"{}\"; there are {}{}", shown(column), all,
                          columns.size() > 20 ? ", …" : ""));
}

// A csv itself: how many rows and columns, then of each column what is known of it, and behind it its categories.
std::string to_string(const CsvSchema& schema) {
  std::string out = fmt::format("rows,{},{}\n", schema.rows, schema.columns.size());
  for (const CsvColumn& c : schema.columns) {
    out += fmt::format("{},{},{},{},{},{},{},{},{}\n", name(c.kind), in_quotes(c.name), c.count,
                       c.missing, c.mean, c.deviation, c.least, c.largest, c.categories.size());
    for (const std::string& word : c.categories) out += in_quotes(word) + '\n';
  }
  return out;
}

CsvSchema parse_csv_schema(std::string_view text) {
  Records in("csv schema", text);
  CsvSchema out;
  out.rows = in.rows();
  const auto columns = in.number<std::size_t>();
  while (in.next()) {
    CsvColumn c;
    c.kind = in.one_of<ColumnKind>(kKinds);
    c.name = in.field();
    c.count = in.number<std::int64_t>();
    c.missing = in.number<std::int64_t>();
    c.mean = in.number<double>();
    c.deviation = in.number<double>();
    c.least = in.number<float>();
    c.largest = in.number<float>();
    c.categories = in.list();
    out.columns.push_back(std::move(c));
  }
  // Written again it is the same text: nothing is left out, and nothing left over.
  if (out.columns.size() != columns || to_string(out) != text)
    in.wrong("it was cut short or changed");
  return out;
}

}  // namespace ebb::io
