#include "ebb/train/build/open_files.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

#include "ebb/base/error.hpp"
#include "ebb/base/file.hpp"
#include "ebb/data/files/csv.hpp"
#include "ebb/data/files/digits.hpp"
#include "ebb/data/files/file_rows.hpp"
#include "ebb/data/files/images.hpp"
#include "ebb/data/files/jsonl.hpp"
#include "ebb/data/files/text.hpp"
#include "ebb/io/archive/npz.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "ebb/ops/binary.hpp"
#include "ebb/ops/cast.hpp"
#include "ebb/text/token_windows.hpp"
#include "ebb/text/vocabulary_file.hpp"
#include "ebb/train/build/sequences.hpp"
#include "ebb/train/config/names.hpp"

namespace ebb::train {
namespace {

const std::string& only_path(const std::vector<std::string>& paths, const char* key) {
  if (paths.size() != 1)
    throw Error(
        fmt::format("{} names {} files, expected 1: put them together, or train on one of them",
                    key, paths.size()));
  return paths[0];
}

void refuse_empty(const Dataset& rows, const std::string& path) {
  if (rows.size() == 0)
    throw Error(fmt::format("{}: there are no rows; expected at least one to learn from", path));
}

data::StoreOptions store_of(const DataConfig& d) { return {.in_memory = d.in_memory}; }

// Labels are 0 to the number of classes - 1. `rows` have no other column, or every example would be read.
std::int64_t count_classes(const Dataset& rows, const std::string& column,
                           const std::string& path) {
  std::int64_t most = -1, row = 0;
  for (const Batch& b : rows.batch(std::min<std::int64_t>(rows.size(), 65536)).epoch(0)) {
    for (const std::int32_t label : b[column].data<std::int32_t>()) {
      if (label < 0)
        throw Error(fmt::format("{}: label {} in row {}; expected 0 to the number of classes - 1",
                                path, label, row));
      most = std::max<std::int64_t>(most, label);
      ++row;
    }
  }
  return most + 1;
}

// A column whose batches hold another type.
Dataset with_type(const Dataset& rows, const std::string& column, DType to, double factor) {
  const Spec spec = rows.batch(1).spec()[column];
  if (spec.dtype == to && factor == 1) return rows;
  return rows.map([column, to, factor](const Batch& b) {
    std::vector<Tensor> values = b.values();
    Tensor& t = values[index_of(b.names(), column)];
    if (t.dtype() != to) t = cast(t, to);
    if (factor != 1) t = t * static_cast<float>(factor);
    return Batch(b.shared_names(), std::move(values));
  });
}

// Before anything is asked of them together, so that the file is named.
void check_rows(const data::Source& x, const std::string& path,
                const std::optional<data::Source>& y, const std::string& target_path) {
  const auto rows = [](const data::Source& s) {
    return s.spec().rank() > 0 ? s.spec().shape[0] : 0;
  };
  if (rows(x) == 0)
    throw Error(fmt::format("{}: {} has no rows; expected at least one to learn from", path,
                            to_string(x.spec())));
  if (y && rows(*y) != rows(x))
    throw Error(
        fmt::format("{}: the targets are {}, {} rows, and the inputs of {} have {}; each "
                    "row needs its target",
                    target_path, to_string(y->spec()), rows(*y), path, rows(x)));
}

// Arrays of numbers: "x", and "y" where there are targets.
OpenedRows arrays(const DataConfig& d, data::Source x, std::optional<data::Source> y,
                  const std::string& path, const std::string& target_path, const Reading* known) {
  check_rows(x, path, y, target_path);
  const bool bytes = x.spec().dtype == DType::u8;
  if (bytes) x = x.scaled(static_cast<float>(d.scale.value_or(1.0 / 255)));
  if (y && y->spec().dtype == DType::u8) {
    data::Codes same;
    for (std::size_t i = 0; i < same.size(); ++i) same[i] = static_cast<std::int32_t>(i);
    y = y->coded(std::make_shared<const data::Codes>(same));
  }
  const DType found = y ? y->spec().dtype : DType::f32;
  const std::optional<Dataset> labels = y ? std::optional(Dataset::of({{"y", *y}})) : std::nullopt;
  std::vector<std::pair<std::string, data::Source>> columns = {{"x", std::move(x)}};
  if (y) columns.emplace_back("y", std::move(*y));
  Dataset rows = Dataset::of(std::move(columns));
  const bool tokens =
      d.task && (*d.task == Task::language_model || *d.task == Task::sequence_classification);
  if (!bytes) rows = with_type(rows, "x", tokens ? DType::i32 : DType::f32, d.scale.value_or(1));
  if (!y) {
    if (!known)
      throw Error(
          fmt::format("{}: there are no targets: say data.target or data.target_path", path));
    return {rows, *known};
  }
  const Task task =
      known ? known->facts.task
            : d.task.value_or(is_float(found) ? Task::regression : Task::classification);
  rows = with_type(rows, "y", task == Task::regression ? DType::f32 : DType::i32, 1);
  if (known) return {rows, *known};
  Reading reading{.facts = facts_of(rows, task, "x", "y")};
  if (task == Task::classification || task == Task::sequence_classification)
    reading.facts.classes = count_classes(with_type(*labels, "y", DType::i32, 1), "y", target_path);
  return {rows, reading};
}

OpenedRows open_npy(const DataConfig& d, const RowFiles& files, const Reading* known, bool idx) {
  const std::string& path = only_path(files.path, "data.path");
  const auto rows_of = [&](const std::string& p) {
    return idx ? data::idx_rows(p, store_of(d)) : data::npy_rows(p);
  };
  std::optional<data::Source> y;
  if (!files.target_path.empty()) y = rows_of(only_path(files.target_path, "data.target_path"));
  return arrays(d, rows_of(path), std::move(y), path,
                files.target_path.empty() ? path : files.target_path[0], known);
}

// The array of that name, or where none is said the only one beside `other`.
std::string array_name(const std::vector<std::string>& names, const std::string& asked,
                       const std::string& other, const char* key, const std::string& path) {
  if (!asked.empty()) return asked;
  std::string found;
  for (const std::string& n : names) {
    if (n == other) continue;
    if (!found.empty())
      throw Error(fmt::format("{}: it holds {} arrays, among them \"{}\" and \"{}\": say {}", path,
                              names.size(), found, n, key));
    found = n;
  }
  if (found.empty()) throw Error(fmt::format("{}: there is no array for {}", path, key));
  return found;
}

OpenedRows open_named(const DataConfig& d, const RowFiles& files, const Reading* known) {
  const std::string& path = only_path(files.path, "data.path");
  std::vector<std::string> names;
  const bool npz = d.format == DataFormat::npz;
  if (npz) {
    names = NpzReader(path).names();
  } else {
    File file = File::open(path);
    for (const StoredTensor& t : read_safetensors_front(file).tensors) names.push_back(t.name);
  }
  const auto source = [&](const std::string& name) {
    return npz ? data::npz_rows(path, name, store_of(d)) : data::safetensors_rows(path, name);
  };
  const std::string x = array_name(names, d.input, d.target, "data.input", path);
  std::optional<data::Source> y;
  const bool has_target = std::find(names.begin(), names.end(), d.target) != names.end();
  if (!d.target.empty() && (has_target || !known)) y = source(d.target);
  return arrays(d, source(x), std::move(y), path, path, known);
}

OpenedRows open_csv(const DataConfig& d, const RowFiles& files, const Reading* known) {
  const std::string& path = only_path(files.path, "data.path");
  data::CsvOptions o;
  o.target = d.target;
  o.classes = d.task == Task::classification;
  o.standardise = d.standardise;
  o.missing = d.missing == MissingValues::mean   ? data::Missing::mean
              : d.missing == MissingValues::zero ? data::Missing::zero
                                                 : data::Missing::refuse;
  o.format.header = d.header;
  o.format.separator = d.separator[0];
  for (const std::string& name : d.ignore) o.format.kinds[name] = io::ColumnKind::ignored;
  for (const std::string& name : d.categorical) o.format.kinds[name] = io::ColumnKind::category;
  if (o.classes && !d.target.empty()) o.format.kinds[d.target] = io::ColumnKind::category;
  o.store = store_of(d);
  if (known) o.schema = io::parse_csv_schema(known->schema);
  data::CsvData opened = data::csv(path, std::move(o));
  if (known) return {opened.rows, *known};
  refuse_empty(opened.rows, path);
  const io::CsvColumn& target = opened.schema.columns[opened.schema.index_of(d.target)];
  const bool classes = target.kind == io::ColumnKind::category;
  if (classes && d.task == Task::regression)
    throw Error(
        fmt::format("{}: column \"{}\" holds text such as \"{}\", which is no number to predict; "
                    "set data.task = \"classification\"",
                    path, d.target, target.categories.empty() ? "" : target.categories[0]));
  Reading reading{
      .facts = facts_of(opened.rows, classes ? Task::classification : Task::regression, "x", "y"),
      .schema = io::to_string(opened.schema)};
  if (classes) {
    reading.classes = target.categories;
    reading.facts.classes = static_cast<std::int64_t>(target.categories.size());
  }
  return {opened.rows, reading};
}

OpenedRows open_jsonl(const DataConfig& d, const RowFiles& files, const Reading* known) {
  const std::string& path = only_path(files.path, "data.path");
  data::JsonlOptions o;
  o.store = store_of(d);
  for (const std::string& name : d.ignore) o.format.kinds[name] = io::JsonKind::ignored;
  if (known) o.schema = io::parse_jsonl_schema(known->schema);
  data::JsonlData opened = data::jsonl(path, std::move(o));
  if (!known) refuse_empty(opened.rows, path);
  const auto field = [&](const std::string& name) -> const io::JsonlField& {
    for (const io::JsonlField& f : opened.schema.fields)
      if (f.name == name) return f;
    throw Error(
        fmt::format("{}: there is no field \"{}\"; name one that is there, such as \"{}\" "
                    "(data.input, data.target)",
                    path, name, opened.schema.fields.front().name));
  };
  std::vector<std::string> names;
  for (const io::JsonlField& f : opened.schema.fields) names.push_back(f.name);
  if (!known) (void)field(d.target);
  const std::string input =
      known ? known->facts.input : array_name(names, d.input, d.target, "data.input", path);
  Dataset rows = opened.rows;
  const io::JsonlField& x = field(input);
  std::string lengths;
  if (x.ragged) {
    lengths = input + " lengths";
    rows = rows.pad(input, {.buckets = d.buckets, .lengths = lengths});
  }
  if (known) return {rows, *known};
  const io::JsonlField& y = field(d.target);
  const bool tokens = x.kind == io::JsonKind::tokens || x.kind == io::JsonKind::text ||
                      (x.list && x.kind == io::JsonKind::integer);
  const bool classes = y.kind == io::JsonKind::label || y.kind == io::JsonKind::integer;
  const Task task = d.task.value_or(!classes ? Task::regression
                                    : tokens ? Task::sequence_classification
                                             : Task::classification);
  Reading reading{.facts = facts_of(rows, task, input, d.target),
                  .schema = io::to_string(opened.schema)};
  reading.facts.lengths = lengths;
  reading.classes = y.classes;
  if (classes)
    reading.facts.classes = y.kind == io::JsonKind::label
                                ? static_cast<std::int64_t>(y.classes.size())
                                : count_classes(rows.only({d.target}), d.target, path);
  if (x.kind == io::JsonKind::text) reading.facts.vocabulary = 256;
  return {rows, reading};
}

OpenedRows open_text(const DataConfig& d, const RowFiles& files, const Reading* known) {
  const std::string& path = only_path(files.path, "data.path");
  const std::int64_t stride = d.stride.value_or(0);
  Reading reading;
  if (known) reading = *known;
  if (!known && d.vocabulary != "characters" && d.vocabulary != "bytes")
    reading.tokenizer = text::load_vocabulary(d.vocabulary);
  std::optional<Dataset> windows;
  if (reading.tokenizer) {
    windows = text::token_windows(path, *reading.tokenizer,
                                  {.window = d.window, .stride = stride, .in_memory = d.in_memory});
  } else {
    data::Text all =
        data::text_file(path, {.window = d.window, .stride = stride, .in_memory = d.in_memory});
    reading.tokenizer = std::make_shared<const data::Vocabulary>(all.vocabulary);
    windows = all.windows;
  }
  if (!known) {
    reading.facts = facts_of(*windows, Task::language_model, "input", "target");
    reading.facts.vocabulary = reading.tokenizer->size();
  }
  return {*windows, reading};
}

OpenedRows open_images(const DataConfig& d, const RowFiles& files, const Reading* known) {
  data::Images all = data::images(only_path(files.path, "data.path"), {.store = store_of(d)});
  if (known) {
    if (all.classes != known->classes)
      throw Error(
          fmt::format("{}: it has {} folders of classes, expected those that the model knows, {}",
                      files.path[0], all.classes.size(), known->classes.size()));
    return {all.rows, *known};
  }
  Reading reading{.facts = facts_of(all.rows, Task::classification, "image", "label"),
                  .classes = all.classes};
  reading.facts.classes = static_cast<std::int64_t>(all.classes.size());
  return {all.rows, reading};
}

OpenedRows open_generated(const DataConfig& d) {
  const auto seed = static_cast<std::uint64_t>(d.generate_seed);
  if (d.format == DataFormat::sequences) {
    Dataset rows = sequences(d.rows, d.window, seed);
    return {rows, {.facts = sequences_facts(rows)}};
  }
  Dataset rows = data::digits(d.rows, seed);
  Reading reading{.facts = facts_of(rows, Task::classification, "image", "label")};
  reading.facts.classes = 10;
  return {rows, reading};
}

}  // namespace

OpenedRows open_rows_of(const DataConfig& d, const RowFiles& files, const Reading* known) {
  switch (d.format) {
    case DataFormat::csv:
      return open_csv(d, files, known);
    case DataFormat::npy:
      return open_npy(d, files, known, false);
    case DataFormat::idx:
      return open_npy(d, files, known, true);
    case DataFormat::npz:
    case DataFormat::safetensors:
      return open_named(d, files, known);
    case DataFormat::jsonl:
      return open_jsonl(d, files, known);
    case DataFormat::text:
      return open_text(d, files, known);
    case DataFormat::images:
      return open_images(d, files, known);
    case DataFormat::digits:
    case DataFormat::sequences:
      return open_generated(d);
    case DataFormat::automatic:
      break;
  }
  throw Error("data.format is not known: load_config tells it from the path");
}

}  // namespace ebb::train
