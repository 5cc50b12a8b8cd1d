#include "ebb/train/job.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/train/build/fingerprint.hpp"
#include "ebb/train/sample_text.hpp"

namespace ebb::train {
namespace {

// Keys that may be others when a run goes on: they change how it runs, what is kept and shown, and how long it is.
// Of files it is their content that counts, wherever they lie.
bool may_differ(const std::string& key) {
  constexpr std::string_view kCounting[] = {"memory.activations", "memory.optimizer_state",
                                            "memory.independent_micro_batches"};
  constexpr std::string_view kFree[] = {"train.threads",
                                        "train.epochs",
                                        "train.steps",
                                        "train.bad_steps",
                                        "train.patience",
                                        "data.in_memory",
                                        "data.prefetch",
                                        "data.path",
                                        "data.target_path",
                                        "data.validation_path",
                                        "data.validation_target_path"};
  if (std::ranges::find(kCounting, key) != std::end(kCounting)) return false;
  return key.starts_with("memory.") || key.starts_with("every.") || key.starts_with("output.") ||
         std::ranges::find(kFree, key) != std::end(kFree);
}

// Of these, keys that may be others on each rank: what its machine is like. All decide alike, so the rest is not.
bool is_of_a_rank(const std::string& key) {
  constexpr std::string_view kOfARank[] = {
      "memory.budget",    "memory.spill",         "memory.spill_directory",
      "memory.recompute", "memory.micro_batch",   "train.threads",
      "data.in_memory",   "data.prefetch",        "data.path",
      "data.target_path", "data.validation_path", "data.validation_target_path",
      "output.directory"};
  return std::ranges::find(kOfARank, key) != std::end(kOfARank);
}

void add_content(const std::string& key, const std::vector<std::string>& paths,
                 std::map<std::string, std::string>& to) {
  for (std::size_t i = 0; i < paths.size(); ++i)
    to[paths.size() == 1 ? fmt::format("the content of {}", key)
                         : fmt::format("the content of {}[{}]", key, i)] = fingerprint(paths[i]);
}

}  // namespace

std::string of_all_ranks(const Config& config) {
  std::string text;
  for (const auto& [key, value] : to_keys(config))
    if (!is_of_a_rank(key)) text += fmt::format("{} = {}\n", key, value);
  return text;
}

Job::~Job() = default;

std::map<std::string, std::string> Job::same() const {
  std::map<std::string, std::string> all = to_keys(config);
  std::erase_if(all, [](const auto& key) { return may_differ(key.first); });
  const DataConfig& d = config.data;
  if (is_generated(d.format)) return all;
  add_content("data.path", d.path, all);
  add_content("data.target_path", d.target_path, all);
  add_content("data.validation_path", d.validation_path, all);
  add_content("data.validation_target_path", d.validation_target_path, all);
  if (is_text(d) && d.vocabulary != "bytes") {
    all.erase("data.vocabulary");
    add_content("data.vocabulary", {d.vocabulary}, all);
  }
  return all;
}

std::map<std::string, std::string> Job::extra() const {
  return {{kConfigExtra, to_toml(config)}, {kReadingExtra, to_text(reading)}};
}

// While a trainer is planned, and after, for who asks for the smallest budget.
void Job::say_other_ways() {
  otherwise_.reset();
  if (!may_move(config)) return;
  std::vector<Dataset> sets = {data->train};
  if (data->validation) sets.push_back(*data->validation);
  if (world && world->size() > 1)
    for (Dataset& set : sets) set = set.part(*world);
  otherwise_ = std::make_unique<HeldOtherwise>(other_ways(data->held, sets));
}

std::unique_ptr<Trainer> Job::make_trainer(TrainerOptions o) {
  say_other_ways();
  auto trainer = std::make_unique<Trainer>(model, *optimizer, data->train, std::move(o));
  if (data->validation) trainer->evaluate_on(*data->validation);
  if (ema) trainer->average(*ema);
  if (rates.plateau) trainer->observe(rates.plateau);
  if (reading.facts.task == Task::language_model && reading.tokenizer)
    trainer->sample = [this](std::int64_t step, bool trial) {
      return sample_text(model, *reading.tokenizer, config.output,
                         {.seed = static_cast<std::uint64_t>(step), .trial = trial});
    };
  trainer->plan();
  return trainer;
}

TrainerOptions Job::options_for(const std::string& directory, bool live) const {
  const Config& c = config;
  TrainerOptions o;
  o.epochs = c.train.epochs;
  o.steps = c.train.steps;
  if (o.steps > 0) o.epochs = (o.steps + length.per_epoch - 1) / length.per_epoch;
  o.compile = compile_options(c);
  o.compile.world = world;
  o.directory = directory;
  o.log = c.every.log;
  o.eval = c.every.eval;
  o.save = c.every.save;
  o.sample = c.every.sample;
  o.stopping = {.metric = c.train.metric,
                .mode = c.train.mode,
                .patience = c.train.patience,
                .min_change = c.train.min_change};
  o.keep_last = static_cast<int>(c.output.keep_last);
  o.keep_best = c.output.keep_best ? 1 : 0;
  o.csv = c.output.csv;
  o.tensorboard = c.output.tensorboard;
  o.live = live;
  if (reading.facts.task == Task::language_model) {
    o.unit = "tokens";
    o.units = static_cast<double>(reading.facts.example.size());
  }
  o.bad_steps = c.train.bad_steps;
  o.check_gradient = c.train.check_gradient;
  if (!directory.empty() || world) {  // files are read for it
    o.same = same();
    o.extra = extra();
  }
  return o;
}

std::unique_ptr<Trainer> Job::trainer(const std::string& directory, bool live) {
  for (;;) {
    std::optional<BudgetTooSmall> refused;
    try {
      return make_trainer(options_for(directory, live));
    } catch (const BudgetTooSmall& e) {  // on all ranks, where there are several
      refused = e;
    }
    const bool itself = refused->minimum > 0;
    const std::optional<InMemory> place = itself ? other_place(*refused) : std::nullopt;
    const bool another = place || !itself;
    if (!(world && world->size() > 1 ? world->agree(another) : another)) refuse(*refused);
    try {
      together(world, "the data", [&] {
        if (place) open_anew(*place);
      });
    } catch (const OutOfMemory&) {
      throw *refused;
    }
  }
}

// Planned without a budget: whoever is planned first within one does not know what the others will take.
void Job::refuse(const BudgetTooSmall& why) {
  if (world && world->size() > 1) throw why;  // others would have to plan again, too
  const std::uint64_t asked = Budget::now();
  budget = {};
  TrainerOptions free{.compile = options_for("", false).compile, .live = false};
  free.compile.memory = {};
  const auto all = make_trainer(std::move(free));
  if (const std::uint64_t smallest = smallest_budget(); smallest != why.minimum)
    throw too_small(asked, "", smallest);
  throw why;
}

std::vector<Figure> Job::evaluate(const Dataset& rows) {
  Trainer trainer(model, *optimizer, rows, {.compile = compile_options(config), .live = false});
  trainer.evaluate_on(rows);
  return trainer.evaluate().figures;
}

}  // namespace ebb::train
