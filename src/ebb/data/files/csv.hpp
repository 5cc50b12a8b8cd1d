// Tables: the numbers of a csv file as one matrix, and what is to be told from them.
//
//   auto [rows, schema] = data::csv("houses.csv", {.target = "price", .standardise = true});
//   for (const Batch& b : rows.shuffle(1).batch(64).epochs(3)) step(b["x"], b["y"]);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ebb/data/dataset.hpp"
#include "ebb/data/row_store.hpp"
#include "ebb/io/text/csv.hpp"

namespace ebb::data {

enum class Missing { refuse, mean, zero };  // what a number that is not there becomes

struct CsvOptions {
  std::string target = {};   // the column that becomes "y"; none: there is no "y"
  bool classes = false;      // its values are classes also where all are numbers; text always is
  bool standardise = false;  // numbers less their mean, by their deviation; not those of the target
  bool one_hot =
      true;  // categories are part of "x"; else columns of their own, i32, by their names
  Missing missing = Missing::refuse;  // with the others, a category that is missing is none of them
  io::CsvOptions format = {};
  std::optional<io::CsvSchema> schema =
      {};  // of another file: the same means, the same numbers of classes
  StoreOptions store = {};
  std::vector<std::string>* notes =
      nullptr;  // is given what the owner of the file should hear of, a line each
};

struct CsvData {
  Dataset rows;          // "x": f32(columns); "y": f32, or i32 where it is a class
  io::CsvSchema schema;  // to keep with a model, for files that come later
};

// A file without the target column has no "y": what is to be predicted. With a schema, columns are found by their names;
// others are left out, with a note. Several files have the same columns, and are
// one table, in their order.
CsvData csv(const std::string& path, CsvOptions options = {});
CsvData csv(const std::vector<std::string>& paths, CsvOptions options);
// The same of objects a line (io/text/jsonl_table.hpp).
CsvData jsonl_table(const std::vector<std::string>& paths, CsvOptions options = {});

}  // namespace ebb::data
