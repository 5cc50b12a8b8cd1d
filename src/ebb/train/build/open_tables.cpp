// Tables, csv or objects a line; and objects of which one field is what a model reads.
#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/data/files/csv.hpp"
#include "ebb/data/files/jsonl.hpp"
#include "ebb/io/bytes/refuse.hpp"
#include "ebb/io/text/jsonl_table.hpp"
#include "ebb/train/build/open_formats.hpp"
#include "ebb/train/config/names.hpp"

namespace ebb::train {
namespace {

constexpr std::string_view kTableMark =
    "table\n";  // in front of a schema: of jsonl read as a table

data::CsvOptions table_options(const DataConfig& d, const How& how) {
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
  if (d.task == Task::regression) o.format.kinds[d.target] = io::ColumnKind::number;
  o.store = store_of(d, how);
  return o;
}

OpenedRows open_table(const DataConfig& d, const RowFiles& files, const Reading* known,
                      const How& how) {
  const bool jsonl = d.format == DataFormat::jsonl;
  const std::string mark(jsonl ? kTableMark : "");
  bool kept = false;
  data::CsvOptions o = table_options(d, how);
  o.store.was_kept = &kept;
  std::vector<std::string> notes;
  o.notes = &notes;
  if (known) o.schema = io::parse_csv_schema(known->schema.substr(mark.size()));
  const data::CsvData opened =
      jsonl ? data::jsonl_table(files.path, std::move(o)) : data::csv(files.path, std::move(o));
  const std::uint64_t scanned = kept ? 0 : bytes_of(files.path);
  if (known) return {opened.rows, *known, scanned, std::move(notes)};
  refuse_empty(opened.rows, files.path[0]);
  if (opened.rows.batch(1).spec().names()[0] != "x")
    throw Error(fmt::format("{}: there is no column beside \"{}\", the target, to predict it from",
                            files.path[0], io::shown(d.target)));
  const io::CsvColumn& target = opened.schema.columns[opened.schema.index_of(d.target)];
  const bool classes = target.kind == io::ColumnKind::category;
  Reading reading{
      .facts = facts_of(opened.rows, classes ? Task::classification : Task::regression, "x", "y"),
      .schema = mark + io::to_string(opened.schema)};
  if (classes) {
    reading.classes = target.categories;
    reading.facts.classes = static_cast<std::int64_t>(target.categories.size());
  }
  return {opened.rows, reading, scanned, std::move(notes)};
}

// How the objects of a file are read, by the first of them.
struct Objects {
  bool table = false;
  std::string input;     // else: the field that the model reads
  bool of_text = false;  // which holds strings
};

Objects objects_in(const DataConfig& d, const std::string& path) {
  std::vector<std::string> names;
  std::vector<io::JsonlFirst> inputs;
  const auto among = [](const std::vector<std::string>& all, const std::string& name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  for (const io::JsonlFirst& f : io::read_jsonl_first(path)) {
    names.push_back(f.name);
    if (f.name != d.target && !among(d.ignore, f.name)) inputs.push_back(f);
  }
  if (!d.input.empty() && !among(names, d.input)) io::refuse_name(path, "field", d.input, names);
  auto input = std::find_if(inputs.begin(), inputs.end(), [&](const io::JsonlFirst& f) {
    return d.input.empty() ? f.type == io::JsonType::list : f.name == d.input;
  });
  if (input == inputs.end() && inputs.size() == 1 && inputs[0].type == io::JsonType::string) {
    std::vector<std::string> others = io::other_jsonl_fields(path, names);
    std::erase_if(others, [&](const auto& f) { return f == d.target || among(d.ignore, f); });
    if (others.empty()) input = inputs.begin();
  }
  if (input == inputs.end()) return {true, "", false};
  for (const std::string& name : d.ignore)  // a table looks for them in all lines
    if (!among(names, name)) io::refuse_name(path, "field", name, names);
  if (!among(names, d.target)) io::refuse_name(path, "field", d.target, names);
  if (d.input.empty() && inputs.size() > 1)
    throw Error(
        fmt::format("{}: field \"{}\" holds lists, and there are others beside it: say "
                    "data.input = \"{}\", or leave one or the other out (data.ignore)",
                    path, io::shown(input->name), io::shown(input->name)));
  return {false, input->name, input->type == io::JsonType::string};
}

const io::JsonlField& field_of(const io::JsonlSchema& schema, const std::string& name,
                               const std::string& path) {
  std::vector<std::string> names;
  for (const io::JsonlField& f : schema.fields) {
    if (f.name == name) return f;
    names.push_back(f.name);
  }
  io::refuse_name(path, "field", name, names);
}

// A model whose weights are for so many places: it takes every list as long as the longest.
bool takes_one_length(const ModelConfig& m) {
  const auto fixed = [](const LayerConfig& l) {
    return l.kind == LayerKind::flatten || l.kind == LayerKind::reshape;
  };
  if (m.kind == ModelKind::layers)
    return m.layers.empty() || m.layers[0].kind != LayerKind::embedding ||
           std::any_of(m.layers.begin(), m.layers.end(), fixed);
  return m.kind == ModelKind::mlp || m.kind == ModelKind::cnn || m.kind == ModelKind::resnet;
}

// Padded, with their lengths beside them. What is longer than all that the model has learnt from ends there.
Dataset padded(const Dataset& rows, const io::JsonlField& x, const Config& config,
               const std::string& path, const Reading* known) {
  data::PadOptions pad{.buckets = config.data.buckets, .lengths = x.name + " lengths"};
  const bool one = takes_one_length(config.model);
  const std::int64_t longest = known ? known->facts.example.shape[0] : x.longest;
  if (one && pad.buckets.size() > 1)
    throw Error(fmt::format("data.buckets has {} lengths, and model.kind = {} takes lists of one",
                            pad.buckets.size(), name_of(config.model.kind)));
  if (!known && !pad.buckets.empty() && pad.buckets.back() < x.longest)
    throw Error(
        fmt::format("{}: field \"{}\" has a list of {}, longer than the last of "
                    "data.buckets, {}; add a larger one",
                    path, io::shown(x.name), x.longest, pad.buckets.back()));
  pad.cut = known && x.longest > longest;
  if (pad.buckets.empty() && (one || pad.cut || x.longest == 0))
    pad.buckets = {std::max<std::int64_t>(longest, 1)};
  return rows.pad(x.name, std::move(pad));
}

// Ids are places in a table of the model's.
void check_ids(const io::JsonlField& x, const Config& config, const std::string& path,
               const Reading& known) {
  const std::int64_t most =
      std::max(config.model.vocabulary.value_or(0), known.facts.vocabulary) - 1;
  if (x.list && x.kind == io::JsonKind::integer && x.largest > most)
    throw Error(fmt::format("{}: field \"{}\" holds {}, and the model knows 0 to {}", path,
                            io::shown(x.name), x.largest, most));
}

data::JsonlOptions object_options(const DataConfig& d, const std::string& path,
                                  const Reading* known, const Objects& objects, const How& how) {
  data::JsonlOptions o;
  o.store = store_of(d, how);
  o.format.fields = {objects.input, d.target};
  if (objects.of_text)
    o.format.kinds[objects.input] = io::JsonKind::text;
  else if (d.task == Task::classification || d.task == Task::regression)
    o.format.kinds[objects.input] = io::JsonKind::number;
  if (d.task == Task::regression && !known) o.format.kinds[d.target] = io::JsonKind::number;
  if (!known) return o;
  o.schema = io::parse_jsonl_schema(known->schema);
  const auto first = io::read_jsonl_first(path);  // it may be without a target
  if (std::none_of(first.begin(), first.end(), [&](const auto& f) { return f.name == d.target; })) {
    std::erase_if(o.schema->fields, [&](const auto& f) { return f.name == d.target; });
    o.format.fields = {objects.input};
  }
  return o;
}

OpenedRows open_objects(const Config& config, const RowFiles& files, const Reading* known,
                        const Objects& objects, const How& how) {
  const DataConfig& d = config.data;
  const std::string& path = files.path[0];
  data::JsonlOptions o = object_options(d, path, known, objects, how);
  bool kept = false;
  o.store.was_kept = &kept;
  const data::JsonlData opened = data::jsonl(files.path, std::move(o));
  const std::uint64_t scanned = kept ? 0 : bytes_of(files.path);
  if (!known) refuse_empty(opened.rows, path);
  const io::JsonlField& x = field_of(opened.schema, objects.input, path);
  if (known) check_ids(x, config, path, *known);
  Dataset rows = x.ragged ? padded(opened.rows, x, config, path, known) : opened.rows;
  if (x.kind == io::JsonKind::text) rows = with_type(rows, x.name, DType::i32);
  if (known) return {rows, *known, scanned};
  const io::JsonlField& y = field_of(opened.schema, d.target, path);
  const bool tokens = x.kind == io::JsonKind::text || (x.list && x.kind == io::JsonKind::integer);
  const bool classes = y.kind == io::JsonKind::label || y.kind == io::JsonKind::integer;
  const Task task = d.task.value_or(!classes ? Task::regression
                                    : tokens ? Task::sequence_classification
                                             : Task::classification);
  Reading reading{.facts = facts_of(rows, task, x.name, d.target),
                  .schema = io::to_string(opened.schema)};
  if (x.ragged) reading.facts.lengths = x.name + " lengths";
  reading.classes = y.classes;
  if (y.kind == io::JsonKind::label)
    reading.facts.classes = static_cast<std::int64_t>(y.classes.size());
  else if (classes && how.opening == Opening::shape && y.least >= 0)  // there are no rows to count
    reading.facts.classes = y.largest + 1;
  else if (classes)
    reading.facts.classes = count_classes(opened.rows.only({d.target}), d.target, path);
  if (tokens) reading.facts.vocabulary = x.kind == io::JsonKind::text ? 256 : x.largest + 1;
  return {rows, reading, scanned};
}

}  // namespace

OpenedRows open_csv(const DataConfig& d, const RowFiles& files, const Reading* known,
                    const How& how) {
  return open_table(d, files, known, how);
}

OpenedRows open_jsonl(const Config& config, const RowFiles& files, const Reading* known,
                      const How& how) {
  const DataConfig& d = config.data;
  if (known && known->schema.starts_with(kTableMark)) return open_table(d, files, known, how);
  if (known) {
    const Objects as_learnt{false, known->facts.input, false};
    return open_objects(config, files, known, as_learnt, how);
  }
  const Objects objects = objects_in(d, files.path[0]);
  return objects.table ? open_table(d, files, known, how)
                       : open_objects(config, files, known, objects, how);
}

}  // namespace ebb::train
