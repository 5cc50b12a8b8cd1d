#include "ebb/train/build/open_files.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/base/files/file.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/data/files/digits.hpp"
#include "ebb/data/files/file_rows.hpp"
#include "ebb/data/files/images.hpp"
#include "ebb/io/archive/npz.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "ebb/train/build/open_formats.hpp"
#include "ebb/train/build/sequences.hpp"
#include "ebb/train/config/data_paths.hpp"

namespace ebb::train {
namespace {

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

// Other rows than those that a model has learnt from are as these were.
void check_example(const Dataset& rows, const Reading& known, const std::string& path) {
  const Spec found = rows.batch(1).spec()[known.facts.input];
  const Spec one{Shape(found.shape.dims().subspan(1)), found.dtype};
  if (one.shape != known.facts.example.shape)
    throw Error(fmt::format("{}: its rows are {}, and the model has learnt from rows of {}", path,
                            to_string(one), to_string(known.facts.example)));
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
    check_example(rows, *known, path);
    return {rows, *known};
  }
  const Task task =
      known ? known->facts.task
            : d.task.value_or(is_float(found) ? Task::regression : Task::classification);
  rows = with_type(rows, "y", task == Task::regression ? DType::f32 : DType::i32, 1);
  if (known) {
    check_example(rows, *known, path);
    return {rows, *known};
  }
  Reading reading{.facts = facts_of(rows, task, "x", "y")};
  if (task == Task::classification || task == Task::sequence_classification)
    reading.facts.classes = count_classes(with_type(*labels, "y", DType::i32, 1), "y", target_path);
  return {rows, reading};
}

OpenedRows open_npy(const DataConfig& d, const RowFiles& files, const Reading* known, bool idx,
                    const How& how) {
  const auto rows_of = [&](const std::vector<std::string>& paths, Opening opening) {
    const How these{opening, how.held};
    return placed(idx ? data::idx_rows(only_path(paths, "data.path"), store_of(d, these))
                      : data::npy_rows(paths),
                  d, these);
  };
  std::optional<data::Source> y;  // its labels are counted
  if (!files.target_path.empty()) y = rows_of(files.target_path, Opening::rows);
  return arrays(d, rows_of(files.path, how.opening), std::move(y), files.path[0],
                files.target_path.empty() ? files.path[0] : files.target_path[0], known);
}

OpenedRows open_named(const DataConfig& d, const RowFiles& files, const Reading* known,
                      const How& how) {
  const std::string& path = only_path(files.path, "data.path");
  std::vector<std::string> names;
  const bool npz = d.format == DataFormat::npz;
  if (npz) {
    names = NpzReader(path).names();
  } else {
    File file = File::open(path);
    for (const StoredTensor& t : read_safetensors_front(file).tensors) names.push_back(t.name);
  }
  const auto source = [&](const std::string& name, Opening opening) {
    const How these{opening, how.held};
    return placed(
        npz ? data::npz_rows(path, name, store_of(d, these)) : data::safetensors_rows(path, name),
        d, these);
  };
  const std::string x = array_name(names, d.input, d.target, "data.input", path);
  std::optional<data::Source> y;
  const bool has_target = std::find(names.begin(), names.end(), d.target) != names.end();
  if (!d.target.empty() && (has_target || !known)) y = source(d.target, Opening::rows);
  return arrays(d, source(x, how.opening), std::move(y), path, path, known);
}

OpenedRows open_images(const DataConfig& d, const RowFiles& files, const Reading* known,
                       const How& how) {
  std::vector<std::string> notes;
  data::Images all = data::images(only_path(files.path, "data.path"),
                                  {.store = store_of(d, how), .notes = &notes});
  if (known) {
    if (all.classes != known->classes)
      throw Error(
          fmt::format("{}: it has {} folders of classes, expected those that the model knows, {}",
                      files.path[0], all.classes.size(), known->classes.size()));
    check_example(all.rows, *known, files.path[0]);
    return {all.rows, *known, 0, std::move(notes)};
  }
  Reading reading{.facts = facts_of(all.rows, Task::classification, "image", "label"),
                  .classes = all.classes};
  reading.facts.classes = static_cast<std::int64_t>(all.classes.size());
  return {all.rows, reading, 0, std::move(notes)};
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

OpenedRows open_rows_of(const Config& config, const RowFiles& named, const Reading* known,
                        const How& asked) {
  const DataConfig& d = config.data;
  data::RowsHeld alone;
  if (d.in_memory == InMemory::automatic) alone.most = most_in_memory(Budget::now());
  const How how{asked.opening, asked.held ? asked.held : &alone};
  const RowFiles files{files_of(d.format, named.path), files_of(d.format, named.target_path)};
  switch (d.format) {
    case DataFormat::csv:
      return open_csv(d, files, known, how);
    case DataFormat::npy:
      return open_npy(d, files, known, false, how);
    case DataFormat::idx:
      return open_npy(d, files, known, true, how);
    case DataFormat::npz:
    case DataFormat::safetensors:
      return open_named(d, files, known, how);
    case DataFormat::jsonl:
      return is_text(d) ? open_text(d, files, known, how) : open_jsonl(config, files, known, how);
    case DataFormat::text:
      return open_text(d, files, known, how);
    case DataFormat::images:
      return open_images(d, files, known, how);
    case DataFormat::digits:
    case DataFormat::sequences:
      return open_generated(d);
    case DataFormat::automatic:
      break;
  }
  throw Error("data.format is not known: load_config tells it from the path");
}

}  // namespace ebb::train
