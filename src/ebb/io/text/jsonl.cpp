#include "ebb/io/text/jsonl.hpp"

#include <fmt/format.h>

#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/records.hpp"

namespace ebb::io {
namespace {

constexpr JsonKind kKinds[] = {JsonKind::number, JsonKind::integer, JsonKind::label,
                               JsonKind::tokens, JsonKind::text,    JsonKind::ignored};

}  // namespace

const char* name(JsonKind kind) {
  constexpr const char* kNames[] = {"number", "integer", "label", "tokens", "text", "ignored"};
  return kNames[static_cast<int>(kind)];
}

std::size_t row_words(const JsonlSchema& schema) {
  std::size_t words = 0;
  for (const JsonlField& f : schema.fields)
    words += f.list && !f.ragged ? static_cast<std::size_t>(f.longest) : 1;
  return words;
}

std::string to_string(const JsonlSchema& schema) {
  std::string out = fmt::format("rows,{},{}\n", schema.rows, schema.fields.size());
  for (const JsonlField& f : schema.fields) {
    out +=
        fmt::format("{},{},{},{},{},{},{},{},{}\n", name(f.kind), in_quotes(f.name), f.list ? 1 : 0,
                    f.ragged ? 1 : 0, f.longest, f.elements, f.least, f.largest, f.classes.size());
    for (const std::string& word : f.classes) out += in_quotes(word) + '\n';
  }
  return out;
}

JsonlSchema parse_jsonl_schema(std::string_view text) {
  Records in("jsonl schema", text);
  JsonlSchema out;
  out.rows = in.rows();
  const auto fields = in.number<std::size_t>();
  while (in.next()) {
    JsonlField f;
    f.kind = in.one_of<JsonKind>(kKinds);
    f.name = in.field();
    f.list = in.number<std::int64_t>() != 0;
    f.ragged = in.number<std::int64_t>() != 0;
    f.longest = in.number<std::int64_t>();
    f.elements = in.number<std::int64_t>();
    f.least = in.number<std::int64_t>();
    f.largest = in.number<std::int64_t>();
    if (f.longest < 0 || f.elements < 0 || (f.ragged && !f.list))
      in.wrong("a field that cannot be");
    f.classes = in.list();
    out.fields.push_back(std::move(f));
  }
  // Written again it is the same text: nothing is left out, and nothing left over.
  if (out.fields.size() != fields || to_string(out) != text)
    in.wrong("it was cut short or changed");
  return out;
}

}  // namespace ebb::io
