#include "ebb/train/job.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/base/round.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/exec/compile_options.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/train/build/fingerprint.hpp"
#include "ebb/train/sample_text.hpp"

namespace ebb::train {
namespace {

// Threads and seed, before anything is drawn.
Config prepared(Config config) {
  if (config.train.threads > 0) pool::set_threads(static_cast<int>(config.train.threads));
  random::seed(static_cast<std::uint64_t>(config.train.seed));
  return config;
}

// Of the process, for as long as the job lives.
Budget budget_of(const Config& config) {
  CompileOptions options = compile_options(config);
  exec::resolve_memory(options);
  return Budget(ByteSize{options.memory.bytes});
}

// The budget in which the data can be read again: what was taken beside what is kept, rounded up, since it depends
// a little on which thread comes first.
std::uint64_t to_read_in(std::uint64_t reserve) {
  const Usage used = ledger::total();
  const std::uint64_t needed = reserve + round_up(used.live, (64_KiB).bytes) +
                               round_up(used.peak - used.live, (1_MiB).bytes);
  return std::max(kAtStart, Budget::now() ? std::min(needed, Budget::now()) : needed);  // it could
}

// On all threads, or where a budget has no room for what each of them takes, on one.
RunData open_in_little(const Config& config, Opening how) {
  const int threads = pool::threads();
  try {
    return open_data(config, how);
  } catch (const OutOfMemory&) {
    if (threads == 1) throw;
  }
  pool::set_threads(1);
  try {
    RunData data = open_data(config, how);
    pool::set_threads(threads);
    return data;
  } catch (...) {
    pool::set_threads(threads);
    throw;
  }
}

BudgetTooSmall too_small(std::uint64_t asked, const char* for_what, std::uint64_t smallest) {
  return {
      fmt::format("the budget of {} ({} bytes) is too small{}: the smallest that does for all "
                  "of the run is {} ({} bytes)",
                  to_string(ByteSize{asked}), asked, for_what, plan::enough(smallest), smallest),
      smallest};
}

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

Job::Job(Config given, Reading read)
    : config(prepared(std::move(given))),
      reading(std::move(read)),
      model(make_model(config, reading.facts)),
      length(length_of(config, std::max<std::int64_t>(1, reading.facts.rows))),
      rates(make_rates(config, length)),
      optimizer(make_optimizer(config, params(model), rates)),
      ema(make_ema(config, optimizer->params())) {}

struct Job::Opened {
  Config config;
  Budget budget;
  RunData data;
  std::unique_ptr<LeastBudget> least;
};

Job::Opened Job::open(Config config, Opening how) {
  const bool of_the_user = config.memory.budget.kind == BudgetConfig::Kind::bytes;
  try {
    const std::uint64_t reserve = runtime::reserve();  // before a budget asks for it
    Budget budget = budget_of(config);
    ledger::reset_peak();
    RunData data = open_in_little(config, how);
    runtime::drop_code();  // of reading, before that of planning comes
    auto least = std::make_unique<LeastBudget>(to_read_in(reserve));
    return {std::move(config), std::move(budget), std::move(data), std::move(least)};
  } catch (const OutOfMemory&) {
    if (!of_the_user) throw;
  }
  // Within what the machine has, to say what would do.
  const std::uint64_t asked = config.memory.budget.bytes;
  const bool could_stay = config.data.in_memory && !is_generated(config.data.format);
  config.memory.budget = {.kind = BudgetConfig::Kind::automatic};
  Job whole(std::move(config), Opening::shape);
  const auto trainer = whole.trainer("", false);
  throw too_small(asked,
                  could_stay ? " to hold the data (data.in_memory = false leaves it in a file)"
                             : " to read the data in",
                  smallest_budget());
}

Job::Job(Config given, Opening how) : Job(open(prepared(std::move(given)), how)) {}

Job::Job(Opened opened) : Job(std::move(opened.config), Reading(opened.data.reading)) {
  budget = std::move(opened.budget);
  least_ = std::move(opened.least);
  data = std::move(opened.data);
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

std::unique_ptr<Trainer> Job::make_trainer(TrainerOptions o) {
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

std::unique_ptr<Trainer> Job::trainer(const std::string& directory, bool live) {
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
  TrainerOptions free{.compile = o.compile, .live = false};
  free.compile.memory = {};
  std::optional<BudgetTooSmall> refused;
  std::uint64_t asked = 0;
  try {
    return make_trainer(std::move(o));
  } catch (const BudgetTooSmall& e) {
    if (world && world->size() > 1) throw;  // others would have to plan again, too
    refused = e;
    asked = Budget::now();
  }
  // Whoever is planned first does not know what the others will take.
  budget = {};
  const auto all = make_trainer(std::move(free));
  if (const std::uint64_t smallest = smallest_budget(); smallest != refused->minimum)
    throw too_small(asked, "", smallest);
  throw *refused;
}

std::vector<Figure> Job::evaluate(const Dataset& rows) {
  Trainer trainer(model, *optimizer, rows, {.compile = compile_options(config), .live = false});
  trainer.evaluate_on(rows);
  return trainer.evaluate().figures;
}

}  // namespace ebb::train
