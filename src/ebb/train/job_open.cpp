// A config's data, opened within its budget: in memory or left in files, as the budget decides.
#include <fmt/core.h>

#include <algorithm>

#include "ebb/base/error.hpp"
#include "ebb/base/memory/ledger.hpp"
#include "ebb/base/pool.hpp"
#include "ebb/base/process.hpp"
#include "ebb/base/round.hpp"
#include "ebb/base/runtime.hpp"
#include "ebb/exec/compile_options.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/train/job.hpp"

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

// The budget in which the data can be read again, with rows that may move left in their files: what was taken beside
// what is kept, rounded up, since it depends a little on which thread comes first.
std::uint64_t to_read_in(std::uint64_t reserve, const data::RowsHeld& rows, bool may_move) {
  const Usage used = ledger::total();
  const std::uint64_t live = used.live - (may_move ? std::min(used.live, rows.in_memory) : 0);
  const std::uint64_t peak = std::max(live, may_move ? rows.peak_in_files : used.peak);
  const std::uint64_t needed =
      reserve + round_up(live, (64_KiB).bytes) + round_up(peak - live, (1_MiB).bytes);
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

}  // namespace

BudgetTooSmall too_small(std::uint64_t asked, const char* for_what, std::uint64_t smallest) {
  return {
      fmt::format("the budget of {} ({} bytes) is too small{}: the smallest that does for all "
                  "of the run is {} ({} bytes)",
                  to_string(ByteSize{asked}), asked, for_what, plan::enough(smallest), smallest),
      smallest};
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
  Opening how;
  InMemory place;
};

Job::Opened Job::open_at(const Config& config, Opening how, InMemory place) {
  const std::uint64_t reserve = runtime::reserve();  // before a budget asks for it
  Budget budget = budget_of(config);
  ledger::reset_peak();
  Config as_read = config;
  as_read.data.in_memory = place;
  RunData data = open_in_little(as_read, how);
  runtime::drop_code();  // of reading, before that of planning comes
  auto least = std::make_unique<LeastBudget>(to_read_in(reserve, data.held, may_move(config)));
  return {config, std::move(budget), std::move(data), std::move(least), how, place};
}

Job::Opened Job::open(const Config& config, Opening how) {
  const InMemory place = config.data.in_memory;
  try {
    return open_at(config, how, place);
  } catch (const OutOfMemory&) {
    if (config.memory.budget.kind == BudgetConfig::Kind::none) throw;
  }
  if (may_move(config)) try {
      return open_at(config, how, InMemory::no);
    } catch (const OutOfMemory&) {
    }
  refuse_to_read(config);
}

// Opened within what the machine has, to say what would do; where that is the budget, without one.
void Job::refuse_to_read(Config config) {
  using Kind = BudgetConfig::Kind;
  const bool automatic = config.memory.budget.kind == Kind::automatic;
  const process::Available there = process::available();
  const std::uint64_t asked = automatic ? process::safe_budget(there) : config.memory.budget.bytes;
  const bool held = config.data.in_memory == InMemory::yes && !is_generated(config.data.format);
  const InMemory place = automatic && may_move(config) ? InMemory::no : config.data.in_memory;
  config.memory.budget = {.kind = automatic ? Kind::none : Kind::automatic};
  try {
    Job whole(open_at(config, Opening::shape, place));
    const auto trainer = whole.trainer("", false);
    throw too_small(asked,
                    held ? " to hold the data (data.in_memory = \"auto\" leaves it in a file)"
                         : " to read the data in",
                    smallest_budget());
  } catch (const OutOfMemory&) {  // of all there is
    throw BudgetTooSmall(
        fmt::format("there is too little memory to read the data in: {} ({} bytes), {}; raise that "
                    "limit or free memory",
                    to_string(ByteSize{there.bytes}), there.bytes, there.source),
        std::max(kAtStart, asked + 1));
  }
}

Job::Job(Config given, Opening how) : Job(open(prepared(std::move(given)), how)) {}

Job::Job(Opened opened) : Job(std::move(opened.config), Reading(opened.data.reading)) {
  take(std::move(opened));
}

void Job::take(Opened opened) {
  budget = std::move(opened.budget);
  least_ = std::move(opened.least);
  data = std::move(opened.data);
  opening_ = opened.how;
  place_ = opened.place;
}

bool Job::may_move(const Config& config) {
  return config.data.in_memory == InMemory::automatic && !is_generated(config.data.format);
}

// Not what it is, and not tried yet: the smallest budget that is named is that of one of both.
std::optional<InMemory> Job::other_place(const BudgetTooSmall& why) const {
  if (!may_move(config) || why.minimum > Budget::now()) return {};
  if (place_ == InMemory::automatic && data->held.in_memory > 0) return InMemory::no;
  if (place_ != InMemory::yes && data->held.in_files > 0) return InMemory::yes;
  return {};
}

// As at the start, so that it is as if it had been put there at once.
void Job::open_anew(InMemory place) {
  const bool held_out = data->validation.has_value();
  const Config as_given = config;
  const Opening how = opening_;
  data.reset();
  otherwise_.reset();
  least_.reset();
  ema.reset();
  optimizer.reset();
  budget = {};
  Job anew(open_at(prepared(as_given), how, place));
  reading = std::move(anew.reading);
  model = std::move(anew.model);
  rates = std::move(anew.rates);
  optimizer = std::move(anew.optimizer);
  ema = std::move(anew.ema);
  budget = std::move(anew.budget);
  least_ = std::move(anew.least_);
  data = std::move(anew.data);
  place_ = place;
  if (!held_out) data->validation.reset();
}

}  // namespace ebb::train
