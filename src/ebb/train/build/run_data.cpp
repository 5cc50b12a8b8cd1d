#include "ebb/train/build/run_data.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/budget.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/io/array/safetensors.hpp"
#include "ebb/text/vocabulary_file.hpp"
#include "ebb/train/build/open_files.hpp"
#include "ebb/train/config/names.hpp"

namespace ebb::train {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
// Of a budget, so much may be rows in memory: they are worth that as they are read again and again, and what is
// computed with has most of it.
constexpr std::uint64_t kShareOfRows = 4;
constexpr const char* kKeys[] = {"version", "task",         "input",   "target",      "lengths",
                                 "example", "answer",       "classes", "class_names", "vocabulary",
                                 "rows",    "target_scale", "schema",  "tokenizer"};

Json to_json(const Spec& spec) {
  return {{"dtype", safetensors_type(spec.dtype)},
          {"shape", std::vector<std::int64_t>(spec.shape.begin(), spec.shape.end())}};
}

Spec spec_in(const Json& json) {
  const auto shape = json.at("shape").get<std::vector<std::int64_t>>();
  return {Shape(shape), safetensors_dtype(json.at("dtype").get<std::string>())};
}

Task task_in(const std::string& word) {
  const Words words = names_of<Task>();
  for (std::size_t i = 0; i < words.size(); ++i)
    if (word == words[i]) return static_cast<Task>(i);
  throw Error(fmt::format("there is no task \"{}\"", word));
}

Reading reading_in(const Json& json, const std::string& name) {
  if (json.at("version").get<int>() != kVersion)
    throw Error(
        fmt::format("it is of version {}, this Ebb reads {}", json.at("version").dump(), kVersion));
  for (const auto& [key, value] : json.items())
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys))
      throw Error(fmt::format("there is no key \"{}\"", key));
  Reading r;
  r.facts.task = task_in(json.at("task").get<std::string>());
  r.facts.input = json.at("input").get<std::string>();
  r.facts.target = json.at("target").get<std::string>();
  r.facts.lengths = json.at("lengths").get<std::string>();
  r.facts.example = spec_in(json.at("example"));
  r.facts.answer = spec_in(json.at("answer"));
  r.facts.classes = json.at("classes").get<std::int64_t>();
  r.facts.vocabulary = json.at("vocabulary").get<std::int64_t>();
  r.facts.rows = json.at("rows").get<std::int64_t>();
  r.facts.target_scale = json.at("target_scale").get<double>();
  r.classes = json.at("class_names").get<std::vector<std::string>>();
  r.schema = json.at("schema").get<std::string>();
  if (const auto words = json.at("tokenizer").get<std::string>(); !words.empty())
    r.tokenizer = text::parse_vocabulary(words, name);
  return r;
}

Dataset dealt(const Dataset& rows, const Config& config) {
  return rows.batch(std::min(config.train.batch, std::max<std::int64_t>(1, rows.size())))
      .prefetch(static_cast<int>(config.data.prefetch));
}

}  // namespace

std::uint64_t most_in_memory(std::uint64_t budget) {
  return budget ? budget / kShareOfRows : data::RowsHeld::kAll;
}

exec::OtherWays other_ways(const data::RowsHeld& held, const std::vector<Dataset>& sets) {
  const auto dealing = [&](data::Lying where) {
    std::int64_t more = 0;
    for (const Dataset& d : sets)
      more += static_cast<std::int64_t>(d.walking_bytes(where) - d.walking_bytes());
    return more;
  };
  exec::OtherWays ways{.in_memory_from = kShareOfRows * (held.in_memory + held.in_files)};
  if (held.in_memory > 0)
    ways.in_files = {-static_cast<std::int64_t>(held.charge_in_memory),
                     dealing(data::Lying::in_files)};
  if (held.in_files > 0)
    ways.in_memory = {static_cast<std::int64_t>(held.charge_in_files),
                      dealing(data::Lying::in_memory)};
  return ways;
}

RunData open_data(const Config& config, Opening opening) {
  const DataConfig& d = config.data;
  data::RowsHeld held;
  if (d.in_memory == InMemory::automatic) held.most = most_in_memory(Budget::now());
  const How how{opening, &held};
  const std::uint64_t before = ledger::of(Category::data).live;
  OpenedRows all = open_rows_of(config, {d.path, d.target_path}, nullptr, how);
  const std::uint64_t drawn = is_generated(d.format) ? ledger::of(Category::data).live - before : 0;
  if (d.limit) all.rows = all.rows.rows(0, std::min(*d.limit, all.rows.size()));
  if (all.rows.size() == 0)
    throw Error(fmt::format("{}: there are no rows to train on",
                            d.path.empty() ? std::string("data") : d.path[0]));
  std::optional<Dataset> held_out;
  if (!d.validation_path.empty()) {
    OpenedRows other =
        open_rows_of(config, {d.validation_path, d.validation_target_path}, &all.reading, how);
    held_out = other.rows;
    all.scanned += other.scanned;
    all.notes.insert(all.notes.end(), other.notes.begin(), other.notes.end());
  } else if (d.validation_fraction > 0) {
    const DatasetSplit split =
        all.rows.split(d.validation_fraction, static_cast<std::uint64_t>(d.validation_seed));
    all.rows = split.train;
    if (split.held_out.size() > 0) held_out = split.held_out;
  }
  all.reading.facts.rows = all.rows.size();
  if (all.reading.facts.classes == 1)
    all.notes.push_back(
        fmt::format("{}: all rows are of one class, so that there is nothing to tell apart",
                    d.path.empty() ? std::string("data") : d.path[0]));
  Dataset train = dealt(all.rows, config).batch(config.train.batch, {.drop_last = d.drop_last});
  if (d.shuffle)
    train = train.shuffle(static_cast<std::uint64_t>(d.seed.value_or(config.train.seed)));
  held.look_at_peak();
  RunData run{
      std::move(train), {}, std::move(all.reading), all.scanned, std::move(all.notes), held, drawn};
  if (held_out) run.validation = dealt(*held_out, config);
  return run;
}

std::string to_text(const Reading& reading) {
  const DataFacts& f = reading.facts;
  const Json all = {
      {"version", kVersion},
      {"task", name_of(f.task)},
      {"input", f.input},
      {"target", f.target},
      {"lengths", f.lengths},
      {"example", to_json(f.example)},
      {"answer", to_json(f.answer)},
      {"classes", f.classes},
      {"vocabulary", f.vocabulary},
      {"rows", f.rows},
      {"target_scale", f.target_scale},
      {"class_names", reading.classes},
      {"schema", reading.schema},
      {"tokenizer", reading.tokenizer ? text::vocabulary_text(*reading.tokenizer) : ""}};
  return all.dump(1) + "\n";
}

Reading parse_reading(std::string_view text, const std::string& name) {
  try {
    return reading_in(Json::parse(text), name);
  } catch (const Json::exception& e) {
    throw Error(fmt::format("{}: this is not how data was read: {}", name, e.what()));
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", name, e.what()));
  }
}

}  // namespace ebb::train
