// Objects, one a line: each field is a column, by its name.
//
//   auto [rows, schema] = data::jsonl("rows.jsonl", {.format = {.kinds = {{"text", io::JsonKind::text}}}});
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ebb/data/dataset.hpp"
#include "ebb/data/row_store.hpp"
#include "ebb/io/text/jsonl.hpp"

namespace ebb::data {

struct JsonlOptions {
  io::JsonlOptions format = {};
  std::optional<io::JsonlSchema> schema = {};  // of another file: the same numbers of classes
  StoreOptions store = {};
};

struct JsonlData {
  Dataset rows;  // lists of different lengths are padded when a batch is made: Dataset::pad
  io::JsonlSchema schema;  // to keep with a model, for files that come later
};

JsonlData jsonl(const std::string& path, JsonlOptions options = {});
// Several files, one after the other.
JsonlData jsonl(const std::vector<std::string>& paths, JsonlOptions options);

// The lines of a text, each a list of bytes: "text", u8, without the end of the line.
Dataset text_lines(const std::string& path, StoreOptions options = {});

}  // namespace ebb::data
